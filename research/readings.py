"""What does another reading of the paper's silent points do to a task?

    python research/readings.py copy-first-discrete --length 1000 --state 4 --norm first --base 100 \
        --no-encoder-bias --hold 2 --stop 3000
    python research/readings.py smnist --cell alpha-cmru --state 8 --anneal --norm first --gate before --stop 30000

Trains the package's own model, with the parts that a reading changes exchanged, under the paper's protocol and
schedule (`--steps`, the task's budget by default), but only up to step `--stop`, or to `--patience` perfect
evaluations in a row. A line of JSON a run: the reading, the first perfect evaluation, the best, and the metric
every 512 steps. A run already in the file is not computed again. (In records of before `hold` was an option of the
model, it is the reading's `threshold`; where a part of the reading is missing, it is the package's. The runs of
parity with dropout and hold 0 had 64 masks a value, not 512.)
"""

import argparse
import dataclasses
import functools
import json
import time
from dataclasses import dataclass
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp

from persistor import TASKS, Experiment, ModelSpec, TrainingSpec
from persistor.cells import AlphaCMRU
from persistor.model import backbone
from persistor.model.block import Block
from persistor.nn import layers, positions
from persistor.nn.layers import MLP, Linear, over
from persistor.nn.sequence import Dense, Indexed
from persistor.paper.budgets import budget
from persistor.training import Trainer


@dataclass(frozen=True)
class Reading:
    """The package's own reading is the default."""

    norm: str = "after"  # the norm before the cell: `first`, or `after` the positional encoding
    base: float = 10_000.0  # of the positional encoding
    encoder_bias: bool = True  # without, an input of zeros stays zeros
    scale: str = "random"  # alphaCMRU's alpha at the start: `random`, or `one` for every input
    hidden: str = "ours"  # of the MLPs: `wide` is twice as much, `decoder` 4m in the decoder too
    gate: str = (
        "after"  # the output gate reads the vector after the positional encoding, or `before`
    )
    start: str = "lecun"  # of linear maps; or `uniform` within 1 / sqrt(inputs), biases too
    dropout: float = 0.0  # in every MLP, see `drop`
    glu: str = "sigmoid"  # what gates in the MLPs: the `sigmoid` of the other half, or its `silu`
    decoder: str = "plain"  # or a `norm` of what it reads first
    readout_bias: float = 0.0  # standard deviation, at the start, of the biases behind the cell


def adopt(reading: Reading) -> None:
    """Exchange the parts of the package that this reading changes."""

    def sinusoid(steps, width):
        frequencies = reading.base ** (-jnp.arange(0, width, 2, dtype=jnp.float32) / width)
        angles = steps.astype(jnp.float32)[:, None] * frequencies[None, :]
        return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)

    positions.sinusoid = backbone.sinusoid = sinusoid
    if reading.start == "uniform":
        layers.lecun_normal = positions.lecun_normal = uniform
        Linear.__init__ = uniform_start
    if reading.norm == "first":
        Block.cell_inputs = lambda block, xs, table: block.position(xs.map(block.norm), table)
    if reading.gate == "before":
        if reading.norm != "first":
            raise SystemExit("a gate before the encoding reads the norm, which must stand first")
        Block.read = gate_before_encoding
    if reading.hidden != "ours":
        MLP.__init__ = hidden_of(reading.hidden)
    if reading.dropout:
        drop(reading.dropout)
    if reading.glu == "silu":
        layers.gated = silu_gated
    if reading.decoder == "norm":
        pool = backbone.Backbone._pool

        def normed(model, *given):
            pooled, *others = pool(model, *given)
            return jax.nn.standardize(pooled, epsilon=layers.EPSILON), *others

        backbone.Backbone._pool = normed
    if reading.readout_bias:
        make = Block.__init__

        @functools.wraps(make)
        def seeing(self, *given, key, **options):
            make(self, *given, key=key, **options)
            bias = self.readout.bias
            bias = reading.readout_bias * jax.random.normal(jax.random.fold_in(key, 1), bias.shape)
            self.readout = eqx.tree_at(lambda layer: layer.bias, self.readout, bias)

        Block.__init__ = seeing
    if not reading.encoder_bias:
        encode = backbone.Backbone.encode

        def without_biases(model, inputs, *, key=None):
            def biases(m):
                return (m.encoder.linear.bias, m.encoder.mlp.widen.bias, m.encoder.mlp.narrow.bias)

            zeros = tuple(jnp.zeros_like(bias) for bias in biases(model))
            return encode(eqx.tree_at(biases, model, zeros), inputs, key=key)

        backbone.Backbone.encode = without_biases
    if reading.scale == "one":
        build = AlphaCMRU.__init__

        @functools.wraps(build)
        def start(self, width, state, **options):
            build(self, width, state, **options)
            weight = self.project.weight.at[:, 2 * state :].set(0.0)
            bias = self.project.bias.at[2 * state :].set(1.0)
            project = eqx.tree_at(lambda p: (p.weight, p.bias), self.project, (weight, bias))
            object.__setattr__(self, "project", project)

        AlphaCMRU.__init__ = start


ROWS = 1024  # that the encoder may see in a step under dropout


def drop(rate: float) -> None:
    """Dropout at a price that can be paid: a step takes one of a few masks of its value.

    A mask of its own for every step would need an encoder's work for every step. Here every step has a mask with the
    right probabilities, drawn anew in every training step, but now and then shares it with another step. The other
    MLPs act on the last step alone and have masks of their own.
    """
    build, call = MLP.__init__, backbone.Backbone.__call__

    def start(self, width, *, dropout=0.0, key):
        build(self, width, dropout=rate, key=key)

    def of_a_value(model, inputs, *given, key=None, **options):
        if key is None or isinstance(inputs, Dense):  # nothing to drop, or nothing to share
            return call(model, inputs, *given, key=key, **options)
        draw, key = jax.random.split(key)
        inputs = inputs.whole()
        masks = max(ROWS // len(inputs.rows), 1)
        mask = jax.random.randint(draw, inputs.ids.shape, 0, masks, inputs.ids.dtype)
        rows = jnp.repeat(inputs.rows, masks, axis=0)
        return call(model, Indexed(rows, inputs.ids * masks + mask), *given, key=key, **options)

    MLP.__init__, backbone.Backbone.__call__ = start, of_a_value


def silu_gated(x, bias):
    """One half of x + bias times the SiLU of the other, which some call a GLU too."""
    one, other = jnp.split(x + over(bias, x), 2, axis=-1)
    return one * jax.nn.silu(other)


def uniform(key, shape):
    """Uniform within 1 / sqrt(inputs), as another framework starts its linear maps."""
    return jax.random.uniform(key, shape, minval=-1.0) * shape[0] ** -0.5


def uniform_start(self, inputs, outputs, *, bias=True, key):
    """The start of a linear map whose biases are not zero."""
    one, two = jax.random.split(key)
    self.weight = uniform(one, (inputs, outputs))
    self.bias = inputs**-0.5 * jax.random.uniform(two, (outputs,), minval=-1.0) if bias else None


def hidden_of(reading: str):
    """The start of an MLP whose hidden layer is not four times as wide as its input."""

    def start(self, width, *, dropout=0.0, key):
        one, two = jax.random.split(key)
        hidden = 8 * width if reading == "wide" else 4 * max(width, 256)
        self.widen = Linear(width, hidden, key=one)
        self.narrow = Linear(hidden // 2, width, key=two)
        self.dropout = eqx.nn.Dropout(dropout)

    return start


def gate_before_encoding(block, xs, us, states, *, mean=None, key=None):
    """`Block.read`, but the output gate does not see the positional encoding."""
    read = block.readout_norm(block.readout(block.cell.read(states, us)))
    read = read * jax.nn.sigmoid(xs.map(block.norm).linear(block.output_gate).dense())
    y = over(block.skip, read) * xs.dense() + read
    hidden = block.mlp.hidden(block.mlp_norm(y), key=key)
    if mean is not None:
        y, hidden = mean(y), mean(hidden)
    return Dense(over(block.mlp_skip, y) * y + block.mlp.narrow(hidden))


def follow(experiment: Experiment, stop: int, patience: int) -> dict:
    """Train for a part of the schedule; what became of it."""
    trainer, objective = Trainer(experiment), experiment.task.objective
    state, step, in_a_row, first, seen = trainer.start(), 0, 0, None, []
    began = time.monotonic()
    while step < stop and in_a_row < patience:
        leg = min(experiment.training.evaluate_every, stop - step)
        state, _ = trainer.advance(state, leg)
        step += leg
        metric = trainer.validate(state)[1]
        seen.append((step, round(metric, 5)))
        in_a_row = in_a_row + 1 if metric == objective.perfect else 0
        first = first or (step if in_a_row else None)
    best = max if objective.higher_is_better else min
    kept = [(at, metric) for at, metric in seen if not trainer.epsilon(jnp.asarray(at))]
    return {
        "first_perfect": first, "best": best(metric for _, metric in kept or seen), "done": step,
        "curve": [point for point in seen if point[0] % 512 == 0],
        "seconds": round(time.monotonic() - began),
    }  # fmt: skip


def main():
    ask = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ask.add_argument("task", choices=TASKS)
    ask.add_argument("--cell", default="cmru")
    ask.add_argument("--epsilon", type=float)
    ask.add_argument("--state", type=int, default=4)
    ask.add_argument("--length", type=int)
    ask.add_argument("--steps", type=int, help="length of the schedule (default: the task's)")
    ask.add_argument("--stop", type=int, default=3000)
    ask.add_argument("--patience", type=int, default=5)
    ask.add_argument("--seed", type=int, default=0)
    ask.add_argument("--norm", choices=["first", "after"], default="after")
    ask.add_argument("--base", type=float, default=10_000.0)
    ask.add_argument("--encoder-bias", action=argparse.BooleanOptionalAction, default=True)
    ask.add_argument("--hold", type=float, default=0.0)
    ask.add_argument("--scale", choices=["random", "one"], default="random")
    ask.add_argument("--hidden", choices=["ours", "decoder", "wide"], default="ours")
    ask.add_argument("--gate", choices=["before", "after"], default="after")
    ask.add_argument("--start", choices=["lecun", "uniform"], default="lecun")
    ask.add_argument("--dropout", type=float, default=0.0)
    ask.add_argument("--glu", choices=["sigmoid", "silu"], default="sigmoid")
    ask.add_argument("--decoder", choices=["plain", "norm"], default="plain")
    ask.add_argument("--readout-bias", type=float, default=0.0)
    ask.add_argument("--anneal", action="store_true", help="the best is then of epsilon 0 alone")
    ask.add_argument("--encoding", type=int, default=256, help="width of the positional encoding")
    ask.add_argument("--out", type=Path, default=Path("readings.jsonl"))
    args = ask.parse_args()
    options = [field.name for field in dataclasses.fields(Reading)]
    reading = Reading(**{name: getattr(args, name) for name in options})
    adopt(reading)
    task = TASKS[args.task](**({} if args.length is None else {"length": args.length}))
    model = ModelSpec(
        (args.cell,), state=args.state, epsilon=args.epsilon, encoding=args.encoding, hold=args.hold
    )
    training = TrainingSpec(steps=args.steps or budget(task.name).steps, anneal=args.anneal)
    experiment = Experiment(task, model, training, args.seed)
    what = {"reading": dataclasses.asdict(reading), "experiment": experiment.to_json()}
    what["stop"] = args.stop
    lines = args.out.read_text().splitlines() if args.out.exists() else []
    if any(what.items() <= json.loads(line).items() for line in lines):
        return
    record = {**what, **follow(experiment, args.stop, args.patience)}
    with args.out.open("a") as file:
        file.write(json.dumps(record) + "\n")
    print({k: v for k, v in record.items() if k not in ("experiment", "curve")}, flush=True)


if __name__ == "__main__":
    main()
