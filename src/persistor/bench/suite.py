"""The sections of the benchmark; `SECTIONS` is their registry."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from persistor._tools.errors import PersistorError
from persistor.bench.devices import device_steps
from persistor.bench.fresh import in_a_fresh_process, processor_seconds
from persistor.bench.inference import batches
from persistor.bench.measure import Measurement, Scale, by_turns
from persistor.bench.peers import PEERS
from persistor.bench.straightforward import training_step
from persistor.bench.workloads import CopyFirstRepeated, Pictures, Stepper, matmul_flops, training
from persistor.cells import CELLS, Cell
from persistor.kernels.engine import engine
from persistor.model import Pooling
from persistor.nn.sequence import Dense, Indexed, Positions, Sequence
from persistor.paper import budgets
from persistor.recurrence.unroll import ENGINES
from persistor.tasks import TASKS, CopyFirstDiscrete, CopyFirstGrid, CopyFirstNoisy
from persistor.training import Trainer
from persistor.training.evaluation import sampled_indices

PLAIN = {"associative scan": ENGINES["parallel"], "scan": ENGINES["sequential"]}


def training_steps(scale: Scale) -> Iterator[Measurement]:
    """A training step in the shape of sequential MNIST, against the straightforward version."""
    b, t = scale(64), scale(784)
    trainer, steps = training(Pictures(t), batch=b, state_size=32), scale(64)  # one interval
    contenders: dict[str, Callable] = {"ours": Stepper(trainer, steps)}
    for name, fold in PLAIN.items():
        step, state = training_step(trainer, fold), trainer.start()
        contenders[name] = lambda step=step, state=state: jax.block_until_ready(step(state))
    seconds = by_turns({**contenders, **_rates(scale(2048))}, scale)
    what = f"training step, b {b} t {t} m 256 d 32"
    for name in PLAIN:
        yield Measurement(
            "a",
            what,
            1e3 * seconds["ours"] / steps,
            "ms",
            f"straightforward, {name}",
            1e3 * seconds[name],
        )
    n, updated = scale(2048), sum(x.nbytes for x in jax.tree.leaves(trainer.start().params))
    flops, moved = _product_flops(trainer), 7 * updated  # reads four arrays, writes three
    rate, bandwidth = 2 * n**3 / seconds["multiply"], 8 * n**2 / seconds["pass"]
    yield Measurement(
        "a",
        what,
        1e3 * seconds["ours"] / steps,
        "ms",
        "its products and update alone",
        1e3 * (flops / rate + moved / bandwidth),
        f"{flops / 1e9:.2f} GFLOP at {rate / 1e9:.0f} GFLOP/s, "
        f"{moved / 1e6:.0f} MB at {bandwidth / 1e9:.0f} GB/s",
    )


def _rates(n: int) -> dict[str, Callable]:
    """A product of n x n matrices and a pass over one: how fast this machine computes and moves."""
    square = jax.random.normal(jax.random.key(0), (n, n))
    multiply, add = jax.jit(lambda a: a @ a), jax.jit(lambda a: a + 1.0)
    return {
        "multiply": lambda: jax.block_until_ready(multiply(square)),
        "pass": lambda: jax.block_until_ready(add(square)),
    }


def _product_flops(trainer: Trainer) -> int:
    """Operations of the matrix products of a training step."""
    state = trainer.start()
    constants = (
        trainer.frozen,
        trainer.key,
        state.step,
        trainer.train_split,
        trainer.encoding,
    )
    arrays, rest = eqx.partition((state.params, *constants), eqx.is_array)
    traced = jax.make_jaxpr(lambda arrays: jax.grad(trainer.loss)(*eqx.combine(arrays, rest)))
    return matmul_flops(traced(arrays).jaxpr)


def recurrence(scale: Scale) -> Iterator[Measurement]:
    """The recurrence alone, forward and backward: the native engine against plain JAX."""
    b, t, d = scale(64), scale(784), 64
    for name, kind in CELLS.items():
        if kind.kernel is None:
            continue
        cell = kind(8, d, key=jax.random.key(0))
        p = cell.project.weight.shape[1]
        values = np.random.default_rng(0).normal(size=(b, t, p)).astype(np.float32)
        yield from _engines(
            f"{name}, dense ({b}, {t}, {d})", cell, Dense(jnp.asarray(values)), scale
        )
    for d, k in ((32, 256), (4, 16)):
        cell = CELLS["cmru"](8, d, key=jax.random.key(0))
        yield from _engines(
            f"cmru, {k} values ({b}, {t}, {d})", cell, _indexed(b, t, 2 * d, k), scale, every=False
        )


def _indexed(b: int, t: int, p: int, k: int, w: int = 32) -> Indexed:
    """Random projections as in a first block: few distinct values, positions, a norm."""
    rng = np.random.default_rng(0)
    draw = lambda *shape: jnp.asarray(rng.normal(size=shape), jnp.float32)  # noqa: E731
    positions = Positions(draw(t, w) / w**0.5, draw(w, p), jnp.abs(draw(k, t)) + 0.5, draw(p))
    return Indexed(draw(k, p), jnp.asarray(rng.integers(0, k, (b, t)), jnp.int32), positions)


def _engines(
    what: str, cell: Cell, projections: Sequence, scale: Scale, *, every: bool = True
) -> Iterator[Measurement]:
    """One cell on all engines, in turn; the row compares with the faster one of plain JAX."""
    inexact, rest = eqx.partition((cell, projections), eqx.is_inexact_array)

    def step(name: str) -> Callable:
        def read(inexact):
            cell, projections = eqx.combine(inexact, rest)
            with engine(name):
                states, last = cell.states_of(projections, every=every)
            return states if every else last

        @jax.jit
        def run(inexact, cotangent):
            result, pull = jax.vjp(read, inexact)
            return result, pull(cotangent)

        cotangent = jnp.ones_like(jax.eval_shape(read, inexact))
        return lambda: jax.block_until_ready(run(inexact, cotangent))

    names = {"auto": "ours", "sequential": "scan", "parallel": "associative scan"}
    seconds = by_turns({name: step(name) for name in names}, scale)
    ours = 1e3 * seconds.pop("auto")
    better = min(seconds, key=lambda name: seconds[name])
    yield Measurement("b", what, ours, "ms", names[better], 1e3 * seconds[better])


def peers(scale: Scale) -> Iterator[Measurement]:
    """One layer, forward and backward with gradients of weights and input, against peers."""
    b, t, m = scale(64), scale(784), 64
    x = np.random.default_rng(0).normal(size=(b, t, m)).astype(np.float32)
    for peer, (name, make) in PEERS.items():
        cell = CELLS[name](m, m, key=jax.random.key(0))
        what = f"{name} layer ({b}, {t}, {m})"
        try:
            contenders = {"ours": _layer(cell, x), "peer": make(x, m)}
        except ImportError as error:
            seconds = by_turns({"ours": _layer(cell, x)}, scale)
            yield Measurement(
                "c", what, 1e3 * seconds["ours"], "ms", peer, None, f"not here: {error}"
            )
            continue
        seconds = by_turns(contenders, scale)
        yield Measurement("c", what, 1e3 * seconds["ours"], "ms", peer, 1e3 * seconds["peer"])


def _layer(cell: Cell, x: np.ndarray) -> Callable:
    """Forward and backward of one of our cells."""

    @eqx.filter_jit
    @eqx.filter_grad
    def gradient(cell_and_input):
        cell, x = cell_and_input
        return cell(x)[0].sum()

    arguments = (cell, jnp.asarray(x))
    return lambda: jax.block_until_ready(eqx.filter(gradient(arguments), eqx.is_array))


def growth(scale: Scale) -> Iterator[Measurement]:
    """Time and, on Linux, memory of a training step as sequences grow."""
    lengths = [scale(t) for t in (1_000, 3_000, 10_000, 30_000)]
    trainers = {t: training(CopyFirstDiscrete(t), batch=64, state_size=4) for t in lengths}
    steps = {str(t): Stepper(trainer, 2) for t, trainer in trainers.items()}
    seconds = {int(t): s / 2 for t, s in by_turns(steps, scale).items()}
    shortest = lengths[0]
    for t in lengths:
        alike = 1e3 * seconds[shortest] * t / shortest
        what = f"copy-first step, d 4, t {t:,}"
        yield Measurement(
            "d", what, 1e3 * seconds[t], "ms", f"time per token at {shortest:,}", alike
        )
    for t in lengths if sys.platform == "linux" else ():
        peak = in_a_fresh_process("memory", t)["peak"]
        array = 64 * t * 256 * 4 / 2**20
        yield Measurement(
            "d", f"copy-first memory, t {t:,}", peak, "MB", "one (b, t, m) array", array
        )


def deep_stack(scale: Scale) -> Iterator[Measurement]:
    """A training step of a deep stack, against its matrix products at this machine's speed."""
    b, t, n, steps = scale(16), scale(1024), scale(2048), 4
    trainer = training(Pictures(t, Pooling.MEAN), batch=b, state_size=32, blocks=3)
    flops = _product_flops(trainer)
    contenders = {"ours": Stepper(trainer, steps), "multiply": _rates(n)["multiply"]}
    seconds = by_turns(contenders, scale)
    rate = 2 * n**3 / seconds["multiply"]
    yield Measurement(
        "e",
        f"training step, r 3 d 32 m 256 b {b} t {t}",
        1e3 * seconds["ours"] / steps,
        "ms",
        "its matrix products alone",
        1e3 * flops / rate,
        f"{flops / 1e9:.0f} GFLOP; this machine multiplies at {rate / 1e9:.0f} GFLOP/s",
    )


def streaming(scale: Scale) -> Iterator[Measurement]:
    """A step of a stream of one sequence, against an empty compiled call."""
    model = training(Pictures(), batch=2, state_size=32).experiment.build()
    step = eqx.filter_jit(lambda model, x, memory: model.step(x, memory))
    empty = jax.jit(lambda x: x)
    memory, x = model.initial_state(), jnp.ones((1,))
    contenders = {
        "ours": lambda: jax.block_until_ready(step(model, x, memory)[0]),
        "empty": lambda: jax.block_until_ready(empty(x)),
    }
    seconds = by_turns(contenders, scale)
    what = "step of a stream, m 256 d 32"
    yield Measurement(
        "f", what, 1e6 * seconds["ours"], "us", "an empty call", 1e6 * seconds["empty"]
    )


def start(scale: Scale) -> Iterator[Measurement]:
    """From nothing to a first trained step, in a new process, against `import jax` alone.

    Also the processor time of a whole short run, with an empty folder of programs and again.
    """
    times = in_a_fresh_process("start", scale(784))
    alone = times["import jax"]
    for name, seconds in times.items():
        yield Measurement("g", name, seconds, "s", "import jax", alone)
    yield Measurement("g", "all", sum(times.values()), "s", "import jax", alone)
    spent = processor_seconds(min(scale.turns, 3))
    for name in ("cold", "warm"):
        note = f"processor time; {spent[name] / spent['JAX']:.1f} times as much"
        what = f"train parity --steps 64, {name}"
        yield Measurement("g", what, spent[name], "s", "JAX and one function", spent["JAX"], note)


def loading(scale: Scale) -> Iterator[Measurement]:
    """A batch of every task, gathered from its split, against a step of the smallest model."""
    gather = jax.jit(lambda split, indices: split.at(indices))
    for name in list(TASKS)[:: scale.shrink]:
        what = f"a batch of {name}"
        try:
            trainer = training(TASKS[name](), batch=64, state_size=4)
        except PersistorError as error:
            yield Measurement("h", what, None, "ms", "a training step", None, f"not here: {error}")
            continue
        split = trainer.train_split
        indices = sampled_indices(jax.random.key(0), split, (trainer.spec.batch,))
        batch = functools.partial(gather, split, indices)
        contenders = {
            "ours": lambda batch=batch: jax.block_until_ready(batch()),
            "step": Stepper(trainer, 1),
        }
        seconds = by_turns(contenders, replace(scale, turns=min(scale.turns, 2)))
        yield Measurement(
            "h", what, 1e3 * seconds["ours"], "ms", "a training step", 1e3 * seconds["step"]
        )


def sharing(scale: Scale) -> Iterator[Measurement]:
    """What it saves to compute once what is the same: repeated sequences, numbers on a grid."""
    b, t, steps = 64, scale(1_000), scale(64)
    kinds = {"ours": CopyFirstDiscrete, "other": CopyFirstRepeated}
    trainers = {name: training(kind(t), batch=b, state_size=4) for name, kind in kinds.items()}
    contenders = {name: Stepper(trainer, steps) for name, trainer in trainers.items()}
    seconds = by_turns(contenders, scale)
    yield Measurement(
        "i",
        f"copy-first step, 15 symbols, t {t:,}",
        1e3 * seconds["ours"] / steps,
        "ms",
        "a batch that repeats them",
        1e3 * seconds["other"] / steps,
    )
    validate = {
        name: functools.partial(trainer.validate, contenders[name].checkpoint)
        for name, trainer in trainers.items()
    }
    seconds = by_turns(validate, scale)
    yield Measurement(
        "i",
        f"copy-first validation, t {t:,}",
        1e3 * seconds["ours"],
        "ms",
        "batches that repeat them",
        1e3 * seconds["other"],
    )
    for t in map(scale, (100, 300, 500, 1_000, 2_000)):
        yield _on_a_grid(t, b, scale)


def _on_a_grid(t: int, b: int, scale: Scale) -> Measurement:
    """A training step on numbers on a grid, and how long the paper's budget then takes."""
    kinds = {"ours": CopyFirstGrid, "other": CopyFirstNoisy}
    steppers = {n: Stepper(training(k(t), batch=b, state_size=4), 1) for n, k in kinds.items()}
    ours, other = by_turns(steppers, scale).values()
    budget = budgets.budget(CopyFirstNoisy.name).steps
    hours = " and ".join(f"{seconds * budget / 3600:.0f} h" for seconds in (ours, other))
    note = f"another task: it has 4,096 numbers; {budget:,} steps take {hours}"
    what = f"copy-first-grid step, t {t:,}"
    return Measurement("i", what, 1e3 * ours, "ms", "copy-first-noisy", 1e3 * other, note)


SECTIONS: dict[str, Callable[[Scale], Iterator[Measurement]]] = {
    "a": training_steps,
    "b": recurrence,
    "c": peers,
    "d": growth,
    "e": deep_stack,
    "f": streaming,
    "g": start,
    "h": loading,
    "i": sharing,
    "j": device_steps,
    "k": batches,
}
