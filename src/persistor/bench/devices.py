"""Section j of the benchmark: a step of a tiny model as exported C, JAX and ONNX Runtime."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from persistor._tools.errors import PersistorError
from persistor.bench.measure import Measurement, Scale, by_turns
from persistor.bench.peers import onnx_runtime
from persistor.cells import CMRU
from persistor.export.compilers import host_compilers
from persistor.export.constants import Weights
from persistor.export.host import Host
from persistor.export.program import program
from persistor.export.vectors import inputs_like
from persistor.model import Architecture, Backbone, Pooling

WIDTH, UNITS, BLOCKS, INPUTS, OUTPUTS = 20, 24, 2, 13, 12
STEPS = 100  # of a call of the C


def device_steps(scale: Scale) -> Iterator[Measurement]:
    """A step with an answer: C against the compiled step of JAX and ONNX Runtime's, one sequence.

    All have the same weights. The calls of JAX and ONNX Runtime come from Python, one for each
    step, since that is how they stream.
    """
    model = tiny()
    x = inputs_like(model, 1, scale(STEPS))[0]
    others: dict[str, Callable[[], Any]] = {"step of JAX": _jax(model, x)}
    missing = ""
    try:
        others["ONNX Runtime"] = onnx_runtime(model, x[:1], whole=False)
    except PersistorError as error:
        missing = str(error)
    for weights in ("float", "int8"):
        yield from _rows(model, weights, x, others, scale)
        if missing:
            what = f"step in C, {weights}"
            yield Measurement("j", what, None, "us", "ONNX Runtime", None, f"not here: {missing}")


def tiny() -> Backbone:
    """A model of the size that spots keywords: some 10,000 parameters, random ones."""
    keys = jax.random.split(jax.random.key(0), BLOCKS + 1)
    cells = tuple(CMRU(WIDTH, UNITS, key=key) for key in keys[1:])
    return Backbone(
        INPUTS,
        OUTPUTS,
        cells,
        width=WIDTH,
        architecture=Architecture(encoding=0, hidden=2),
        pooling=Pooling.MEAN,
        key=keys[0],
    )


def _rows(
    model: Backbone,
    weights: Weights,
    x: np.ndarray,
    others: dict[str, Callable[[], Any]],
    scale: Scale,
) -> Iterator[Measurement]:
    what = f"step in C, {weights}, m {WIDTH} d {UNITS} r {BLOCKS}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            host = _compiled(model, weights, folder)
        except PersistorError as error:
            yield Measurement("j", what, None, "us", "JAX", None, f"not here: {error}")
            return
        contenders = {"ours": partial(host.answers, x), **others}
        seconds = by_turns(contenders, scale)
        ours = 1e6 * seconds.pop("ours") / len(x)
        alone = f"without an answer {1e6 * host.seconds_a_step(x[0]):.2f} us"
        for other, of in seconds.items():
            yield Measurement("j", what, ours, "us", other, 1e6 * of, alone)


def _compiled(model: Backbone, weights: Weights, folder: Path) -> Host:
    made = program(model, "tiny", weights=weights)
    (folder / "tiny.h").write_text(made.header)
    (folder / "tiny.c").write_text(made.source)
    return Host(made, folder, folder, host_compilers()[0])


def _jax(model: Backbone, x: np.ndarray) -> Callable[[], Any]:
    """One step of one sequence, compiled."""
    step = eqx.filter_jit(lambda model, x, memory: model.step(x, memory))
    memory, given = model.initial_state(), jax.numpy.asarray(x[0])
    return lambda: jax.block_until_ready(step(model, given, memory)[0])
