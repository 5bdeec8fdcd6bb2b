"""The cells as ONNX: how a state advances by the projections of one input, and what is read of it.

The same lines are emitted into the graph of a step and into the loop over a sequence. The state of
an LRU is real: its real parts, then its imaginary parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from persistor._tools.errors import PersistorError
from persistor.cells import BMRU, CMRU, LRU, AlphaCMRU, Cell, Ladder, MinGRU, PositiveCMRU
from persistor.export.onnx.graph import Graph, Value
from persistor.nn.layers import Linear

Advance = Callable[[Graph, Any, Value, Value], Value]  # graph, cell, projections, state -> state


def linear(g: Graph, layer: Linear, x: Value) -> Value:
    """x @ weight + bias."""
    y = g("MatMul", x, g.constant(layer.weight))
    return y if layer.bias is None else g("Add", y, g.constant(layer.bias))


def state_width(cell: Cell) -> int:
    """How many numbers a state of the cell is."""
    return 2 * cell.state_size if isinstance(cell, LRU) else cell.state_size


def advance(g: Graph, cell: Cell, p: Value, h: Value) -> Value:
    """The next state."""
    for kind, emit in ADVANCE.items():
        if type(cell) is kind:
            return emit(g, cell, p, h)
    raise PersistorError(
        f"{type(cell).__name__} cannot be exported to ONNX yet; these can: "
        + ", ".join(sorted(kind.__name__ for kind in ADVANCE))
    )


def read(g: Graph, cell: Cell, states: Value, x: Value) -> Value:
    """The outputs, from states and inputs."""
    if isinstance(cell, LRU):
        mix = np.concatenate([np.asarray(cell.mix_real), -np.asarray(cell.mix_imaginary)])
        return g("Add", g("MatMul", states, g.constant(mix)), linear(g, cell.skip, x))
    return g("Mul", states, g.constant(cell.scale)) if isinstance(cell, Ladder) else states


def _affine(g: Graph, decay: Value, drive: Value, h: Value) -> Value:
    return g("Add", g("Mul", decay, h), drive)


def _at_least_zero(g: Graph, x: Value) -> Value:
    """Where x >= 0."""
    return g("GreaterOrEqual", x, g.constant(0.0))


def _updates(g: Graph, candidate: Value, threshold: Value) -> Value:
    """Where |candidate| - |threshold| >= 0."""
    return _at_least_zero(g, g("Sub", g("Abs", candidate), g("Abs", threshold)))


def _signed(g: Graph, candidate: Value, scale: Value) -> Value:
    """S(candidate) * scale."""
    return g("Where", _at_least_zero(g, candidate), scale, g("Neg", scale))


def _hysteretic(g: Graph, cell: Any, p: Value, h: Value) -> Value:
    """BMRU, CMRU and alphaCMRU: h, or epsilon h + S(c) alpha."""
    count = cell.project.weight.shape[1] // cell.state_size
    candidate, threshold, *rest = g.several("Split", count, p, axis=-1, num_outputs=count)
    scale = rest[0] if rest else g.constant(cell.scale)
    updated = _signed(g, candidate, scale)
    if not isinstance(cell, BMRU):
        updated = _affine(g, g.constant(cell.epsilon), updated, h)
    return g("Where", _updates(g, candidate, threshold), updated, h)


def _positive(g: Graph, cell: PositiveCMRU, p: Value, h: Value) -> Value:
    """h, or epsilon h + (H(c) - epsilon / 2) alpha."""
    epsilon, scale = np.asarray(cell.epsilon, np.float32), np.asarray(cell.scale)
    high, low = g.constant((1 - epsilon / 2) * scale), g.constant((0 - epsilon / 2) * scale)
    target = g("Where", _at_least_zero(g, p), high, low)
    updated = _affine(g, g.constant(epsilon), target, h)
    return g("Where", _updates(g, p, g.constant(cell.threshold)), updated, h)


def _ladder(g: Graph, cell: Ladder, p: Value, h: Value) -> Value:
    """h, or a level up or down between 0 and N."""
    climbed = g("Add", h, _signed(g, p, g.constant(1.0)))
    held = g("Clip", climbed, g.constant(0.0), g.constant(float(cell.levels)))
    return g("Where", _updates(g, p, g.constant(cell.threshold)), held, h)


def _mingru(g: Graph, cell: MinGRU, p: Value, h: Value) -> Value:
    """(1 - z) h + z c."""
    gate, candidate = g.halves(p)
    z = g("Sigmoid", gate)
    return _affine(g, g("Sub", g.constant(1.0), z), g("Mul", z, candidate), h)


def _lru(g: Graph, cell: LRU, p: Value, h: Value) -> Value:
    """Lambda h + gamma p, in real and imaginary parts."""
    decay, gamma = cell.eigenvalues(), cell.gamma()
    real, imaginary = g.halves(h)
    turned = g("Concat", imaginary, real, axis=-1)
    along = g("Mul", g.constant(jnp.concatenate([decay.real, decay.real])), h)
    across = g("Mul", g.constant(jnp.concatenate([-decay.imag, decay.imag])), turned)
    drive = g("Mul", g.constant(jnp.concatenate([gamma, gamma])), p)
    return g("Add", g("Add", along, across), drive)


ADVANCE: dict[type[Cell], Advance] = {
    BMRU: _hysteretic,
    CMRU: _hysteretic,
    AlphaCMRU: _hysteretic,
    PositiveCMRU: _positive,
    Ladder: _ladder,
    MinGRU: _mingru,
    LRU: _lru,
}
