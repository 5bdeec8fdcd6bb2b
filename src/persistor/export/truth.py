"""What a model computes, step by step, and where rounding may change a decision.

A hard gate compares two sums. If they differ by less than rounding, another order of the same sums
may decide otherwise, and from there on the states are others. So a program in C is held to equal
states up to the first such tie of a sequence, and the ties are counted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from persistor.arrays import Array
from persistor.cells import BMRU, CMRU, AlphaCMRU, Cell
from persistor.cells.analog import AnalogCell
from persistor.export.constants import Weights
from persistor.model import Backbone, Encoding, Memory
from persistor.model.eight_bits import in_eight_bits
from persistor.nn.positions import sinusoid
from persistor.nn.sequence import Dense

TIES = {"float": 2e-5, "int8": 1e-3}  # how near two sums may be for rounding to decide


class Truth(NamedTuple):
    """Of n sequences: the answer after every step, the states of every block, and a margin.

    The margin is how near the nearest decision of a step was to its threshold.
    """

    outputs: NDArray[np.float32]  # n t o
    states: list[NDArray[Any]]  # n t d
    margins: NDArray[np.float32]  # n t

    @property
    def last(self) -> NDArray[np.float32]:
        """The answers after the last step (n, o)."""
        return self.outputs[:, -1]

    def sure(self, weights: Weights) -> NDArray[np.bool_]:
        """The steps (n, t) before the first tie of their sequence."""
        return np.logical_and.accumulate(self.margins > TIES[weights], axis=1)


def truth(model: Backbone, x: NDArray[np.float32]) -> Truth:
    """What the model computes from sequences (n, t, i)."""
    outputs, states, margins = _scanned(model, jnp.asarray(x))
    return Truth(np.asarray(outputs), [np.asarray(s) for s in states], np.asarray(margins))


@eqx.filter_jit
def _scanned(model: Backbone, x: Array) -> tuple[Array, tuple[Array, ...], Array]:
    def step(memory: Memory, x_t: Array):
        answer, after = model.step(x_t, memory)
        return after, (answer, after.cells, _margin(model, x_t, memory))

    _, found = jax.lax.scan(step, model.initial_state(x.shape[:1]), jnp.moveaxis(x, 1, 0))
    return jax.tree.map(lambda a: jnp.moveaxis(a, 0, 1), found)


def _margin(model: Backbone, x: Array, memory: Memory) -> Array:
    """The smallest distance of a decision from its threshold, in all blocks (n,)."""
    xs = model.encode(Dense(x[:, None, :]))
    position = memory.position[None]
    encoding = Encoding(sinusoid(position, model.encoding_width, model.architecture.base))
    margin = jnp.full(x.shape[0], jnp.inf)
    for block, state in zip(model.blocks, memory.cells, strict=True):
        p = block.cell_inputs(xs, encoding).linear(block.cell.project).dense()[:, 0]
        margin = jnp.minimum(margin, _nearest(block.cell, p).min(-1))
        xs, _ = block(xs, encoding, state)
    return margin


def _nearest(cell: Cell, p: Array) -> Array:
    """How far the candidates are from their thresholds and, if they pass, from zero (n, d)."""
    if isinstance(cell, BMRU | CMRU | AlphaCMRU):
        candidate, threshold, *_ = (jnp.abs(part) for part in cell.parts(p))
    elif isinstance(cell, AnalogCell):
        candidate = jnp.abs(p)
        threshold = jnp.broadcast_to(jnp.abs(cell.threshold)[None], p.shape)
    else:
        return jnp.full((p.shape[0], 1), jnp.inf)
    passes = jnp.where(candidate >= threshold, candidate, jnp.inf)
    return jnp.minimum(jnp.abs(candidate - threshold), passes)


def computed_by(model: Backbone, weights: Weights) -> Backbone:
    """The model that a program with these weights computes."""
    return model if weights == "float" else in_eight_bits(model)
