"""Matrices in eight bits: an integer for each weight, and a scale for each output.

`persistor export c --weights int8` stores them so, and `train --eight-bits` learns weights that are
such numbers already, so that nothing is lost when they are stored.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from numpy.typing import NDArray

from persistor.arrays import Array
from persistor.cells import LRU
from persistor.model.backbone import Backbone
from persistor.nn.layers import Linear

Numbers = NDArray[Any] | Array
LARGEST = 127  # of an integer; -128 is not used


class Rounded(NamedTuple):
    """A matrix (inputs, outputs) in eight bits: `scales[j] * integers[:, j]`."""

    integers: Numbers
    scales: Numbers

    def numbers(self) -> Numbers:
        """The numbers that it stands for."""
        return self.integers.astype(np.float32) * self.scales[None]


def rounded(matrix: Any) -> Rounded:
    """A matrix in eight bits; in a compiled function its arrays are JAX's."""
    xp: Any = jnp if isinstance(matrix, Tracer) else np
    matrix = xp.asarray(matrix, np.float32)
    largest = xp.max(xp.abs(matrix), axis=0, initial=0.0)
    scales = (xp.where(largest > 0, largest, np.float32(1)) / LARGEST).astype(np.float32)
    integers = xp.clip(xp.rint(matrix / scales[None]), -LARGEST, LARGEST)
    return Rounded(integers.astype(np.int8), scales)


def in_eight_bits(model: Backbone) -> Backbone:
    """The model with every matrix rounded. Gradients pass as if nothing were rounded."""

    def of_map(leaf: Any) -> Any:
        if not isinstance(leaf, Linear):
            return leaf
        return eqx.tree_at(lambda layer: layer.weight, leaf, _passing(leaf.weight))

    model = jax.tree.map(of_map, model, is_leaf=lambda leaf: isinstance(leaf, Linear))
    for i, block in enumerate(model.blocks):
        if block.position.positions.shape[0]:
            positions = _passing(block.position.positions)
            model = eqx.tree_at(lambda m, i=i: m.blocks[i].position.positions, model, positions)
        if isinstance(block.cell, LRU):
            both = _passing(jnp.concatenate([block.cell.mix_real, -block.cell.mix_imaginary]))
            d = block.cell.state_size
            model = eqx.tree_at(
                lambda m, i=i: (m.blocks[i].cell.mix_real, m.blocks[i].cell.mix_imaginary),
                model,
                (both[:d], -both[d:]),
            )
    return model


def _passing(matrix: Array) -> Array:
    """The rounded matrix, to the bit, with the gradient of the matrix itself."""
    if not isinstance(matrix, Tracer):
        return jnp.asarray(rounded(matrix).numbers(), matrix.dtype)
    numbers = rounded(jax.lax.stop_gradient(matrix)).numbers()
    return jnp.asarray(numbers, matrix.dtype) + (matrix - jax.lax.stop_gradient(matrix))
