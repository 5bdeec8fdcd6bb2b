"""A start for hard searches: units retain until they have learned to update."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from persistor.arrays import Key
from persistor.cells import Cell, Thresholded
from persistor.model.backbone import Backbone
from persistor.model.block import Block

THRESHOLD = 5.0  # a few times the size of a candidate, about 1


def poised(model: Backbone, *, key: Key) -> Backbone:
    """The model with poised thresholds, scales and read-outs; the rest does not change.

    At the start, beta = 5 for every input (W_beta = 0), so that units retain until a candidate has
    grown; alpha = 1 for every input (W_alpha = 0); and the read-out's biases are N(0, 1). With
    biases of zero and a single unit, Norm(Linear(h)) depends only on the sign of h, and its
    gradient at h = 0 is that of h / sqrt(epsilon of the norm), a thousand times too large.
    """
    keys = jax.random.split(key, len(model.blocks))
    blocks = tuple(_poised(block, k) for block, k in zip(model.blocks, keys, strict=True))
    return eqx.tree_at(lambda m: m.blocks, model, blocks)


def _poised(block: Block, key: Key) -> Block:
    bias = jax.random.normal(key, block.readout.weight.shape[1:])
    block = eqx.tree_at(lambda b: b.readout.bias, block, bias)
    if not isinstance(block.cell, Thresholded):
        return block
    return eqx.tree_at(lambda b: b.cell, block, _waiting(block.cell))


def _waiting(cell: Thresholded) -> Cell:
    """The cell with one threshold for all inputs, and one scale if it computes the scale."""

    d = cell.state_size
    weight = cell.project.weight.at[:, d:].set(0.0)
    bias = jnp.ones(weight.shape[1]).at[:d].set(0.0).at[d : 2 * d].set(THRESHOLD)
    return eqx.tree_at(lambda c: (c.project.weight, c.project.bias), cell, (weight, bias))
