"""Section k of the benchmark: a batch through a model without a gradient."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from persistor._tools.errors import PersistorError
from persistor.bench.measure import Measurement, Scale, by_turns
from persistor.bench.peers import onnx_runtime
from persistor.bench.workloads import Pictures, matmul_flops, training
from persistor.model import Backbone, shipped
from persistor.model.file import save
from persistor.model.trained import load_described
from persistor.training.evaluation import answers_on

CLOSE = 1e-3  # what is more than that is no rounding, relative to the largest answer
ALIKE = 0.9  # of the answers; rounding may move a hard gate, and so an answer
PRODUCTS = "its matrix products alone"


def batches(scale: Scale) -> Iterator[Measurement]:
    """A call of a model on a batch of arrays, against other runtimes and what it must take."""
    b, t, n = scale(64), scale(784), scale(2048)
    draw = np.random.default_rng(0)
    pictures = training(Pictures(t), batch=b, state_size=32).experiment.build()
    spotter = load_described(shipped.FOLDER / "kws-12")
    assert spotter is not None
    features, steps = spotter.encoder.linear.weight.shape[0], scale(101)
    given = {
        f"batch, b {b} t {t} m 256 d 32": (pictures, draw.random((b, t, 1))),
        f"kws-12, b {b} t {steps}": (spotter, draw.normal(size=(b, steps, features))),
    }
    for what, (model, x) in given.items():
        yield from _rows(what, model, x.astype(np.float32), n, scale)
    yield _evaluation(pictures, Pictures(t), b, scale)


def _rows(
    what: str, model: Backbone, x: np.ndarray, size: int, scale: Scale
) -> Iterator[Measurement]:
    """One model: a call of it, compiled by itself, and whoever else is here."""
    compiled = eqx.filter_jit(lambda model, x: model(x)[0])
    square = jnp.ones((size, size))
    multiply = jax.jit(lambda a: a @ a)
    contenders: dict[str, Callable[[], Any]] = {
        "ours": lambda: jax.block_until_ready(model(x)[0]),
        "inside jax.jit": lambda: jax.block_until_ready(compiled(model, x)),
        PRODUCTS: lambda: jax.block_until_ready(multiply(square)),
    }
    notes = {}
    for name, make in {"ONNX Runtime": onnx_runtime, "PyTorch": _torch}.items():
        try:
            run = make(model, x)
        except PersistorError as error:
            yield Measurement("k", what, None, "ms", name, None, f"not here: {error}")
            continue
        notes[name] = _agreement(name, np.asarray(model(x)[0]), run())
        contenders[name] = run
    seconds = by_turns(contenders, scale)
    arrays, rest = eqx.partition((model, x), eqx.is_array)
    traced = jax.make_jaxpr(lambda arrays: (lambda m, x: m(x)[0])(*eqx.combine(arrays, rest)))
    flops, rate = matmul_flops(traced(arrays).jaxpr), 2 * size**3 / seconds[PRODUCTS]
    seconds[PRODUCTS] = flops / rate
    notes[PRODUCTS] = f"{flops / 1e9:.2f} GFLOP at {rate / 1e9:.0f} GFLOP/s"
    ours = 1e3 * seconds.pop("ours")
    for name, other in seconds.items():
        yield Measurement("k", what, ours, "ms", name, 1e3 * other, notes.get(name, ""))


def _agreement(name: str, ours: np.ndarray, theirs: np.ndarray) -> str:
    """How many answers are the same; an error if that is not nearly all."""
    apart = np.abs(ours - theirs).max(-1) / max(1.0, np.abs(ours).max())
    same = apart < CLOSE
    if same.mean() < ALIKE:
        raise PersistorError(f"{name} has other answers: only {same.mean():.0%} are the same")
    return f"{same.sum()} of {same.size} answers the same"


def _torch(model: Backbone, x: np.ndarray) -> Callable[[], np.ndarray]:
    """The twin in PyTorch, with the same weights; an error if PyTorch is not here."""
    try:
        import torch

        from persistor.torch import load
    except ImportError as error:
        raise PersistorError(f"{error}: pip install 'persistor[torch]'") from None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        save(model, path)
        twin, values = load(path).eval(), torch.from_numpy(x)

    def run() -> np.ndarray:
        with torch.inference_mode():
            return twin(values)[0].numpy()

    return run


def _evaluation(model: Backbone, task: Pictures, b: int, scale: Scale) -> Measurement:
    """All that `evaluate` asks of a model, against the model alone on the same batches."""
    split, encoding = task.split("test"), model.encode_positions(task.length)
    indices = jnp.arange(split.size, dtype=jnp.int32).reshape(-1, b)
    inputs = [split.at(row).inputs for row in indices]
    alone = eqx.filter_jit(lambda model, inputs: model(inputs, encoding=encoding)[0])
    contenders = {
        "ours": functools.partial(answers_on, model, split, task.objective, batch=b),
        "model": lambda: jax.block_until_ready([alone(model, given) for given in inputs]),
    }
    seconds = by_turns(contenders, scale)
    what = f"evaluation of {split.size} pictures, 256 values"
    ours, other = 1e3 * seconds["ours"], 1e3 * seconds["model"]
    return Measurement("k", what, ours, "ms", "the model on its batches", other)
