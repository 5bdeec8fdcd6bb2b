"""ONNX Runtime beside the model: the same inputs, from states that are not zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor.cells import LRU, Cell, Ladder
from persistor.export.onnx.network import SEQUENCE, STEP, state_names
from persistor.model import Backbone, Memory

BATCH, STEPS, POSITION = 4, 32, 5  # of the inputs that are compared, and where they begin
ROUNDING = 1e-3  # what is more than that is no rounding, relative to the largest number


@dataclass(frozen=True)
class Agreement:
    """The largest difference between a graph and the model, relative to the largest number."""

    outputs: float
    states: float

    @property
    def holds(self) -> bool:
        """Whether it is rounding."""
        return max(self.outputs, self.states) < ROUNDING


def session(graph: bytes) -> Any:
    """A graph in ONNX Runtime; an error in one line if that is missing."""
    try:
        import onnxruntime
    except ImportError:
        raise PersistorError(
            "ONNX Runtime is not installed: pip install 'persistor[onnx]'"
        ) from None
    return onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])


def prove(model: Backbone, graphs: dict[str, Any], seed: int = 0) -> dict[str, Agreement]:
    """How well each graph agrees with the model on random inputs, after random states."""
    x, memory = _drawn(model, seed)
    runs = {name: session(graph.SerializeToString()) for name, graph in graphs.items()}
    found = {
        SEQUENCE: _run(model, runs[SEQUENCE], x, memory),
        STEP: _run(model, runs[STEP], x[:, 0], memory),
    }
    expected = {
        SEQUENCE: eqx.filter_jit(lambda m, x, memory: m(x, memory))(model, x, memory),
        STEP: eqx.filter_jit(lambda m, x, memory: m.step(x, memory))(model, x[:, 0], memory),
    }
    return {name: _agreement(model, found[name], *expected[name]) for name in found}


def carried(model: Backbone, memory: Memory) -> dict[str, NDArray[Any]]:
    """A memory as the graphs have it: by name, complex numbers as real parts, imaginary parts."""
    values = {f"state_{i}": np.asarray(_real(h)) for i, h in enumerate(memory.cells)}
    values["total"] = np.asarray(memory.total)
    values["position"] = np.asarray(memory.position, np.int64)
    return {name: values[name] for name in state_names(model)}


def _real(h: jax.Array) -> jax.Array:
    return jnp.concatenate([h.real, h.imag], axis=-1) if jnp.iscomplexobj(h) else h


def _run(model: Backbone, session: Any, x: Any, memory: Memory) -> list[NDArray[Any]]:
    return session.run(None, {"x": np.asarray(x), **carried(model, memory)})


def _agreement(model: Backbone, found: list[Any], outputs: Any, memory: Memory) -> Agreement:
    wanted = [np.asarray(outputs), *carried(model, memory).values()]
    apart = [_apart(a, b) for a, b in zip(found, wanted, strict=True)]
    return Agreement(apart[0], max(apart[1:], default=0.0))


def _apart(one: NDArray[Any], other: NDArray[Any]) -> float:
    if one.shape != other.shape:
        raise PersistorError(f"a graph gives the shape {one.shape}, the model {other.shape}")
    size = max(1.0, float(np.abs(other).max(initial=0.0)))
    return float(np.abs(one - other).max(initial=0.0)) / size


def _drawn(model: Backbone, seed: int) -> tuple[Any, Memory]:
    """Inputs, and a memory in the middle of a stream."""
    draw = np.random.default_rng(seed)
    features = model.encoder.linear.weight.shape[0]
    x = jnp.asarray(draw.normal(size=(BATCH, STEPS, features)), jnp.float32)
    cells = tuple(_state(block.cell, draw) for block in model.blocks)
    total = jnp.asarray(POSITION * draw.normal(size=(BATCH, model.width)), jnp.float32)
    return x, Memory(jnp.asarray(POSITION, jnp.int32), cells, total)


def _state(cell: Cell, draw: np.random.Generator) -> jax.Array:
    """A state that is not zero; the level of a ladder is one that it has."""
    if isinstance(cell, Ladder):
        return jnp.asarray(draw.integers(0, cell.levels + 1, (BATCH, cell.state_size)), jnp.float32)
    state = draw.normal(size=(BATCH, cell.state_size))
    if isinstance(cell, LRU):
        return jnp.asarray(state + 1j * draw.normal(size=state.shape), jnp.complex64)
    return jnp.asarray(state, jnp.float32)
