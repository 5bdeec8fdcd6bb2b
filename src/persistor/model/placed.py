"""A start in which every unit listens at places of its own, and retains elsewhere."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp

from persistor.arrays import Key
from persistor.cells import Cell, Thresholded
from persistor.nn.draws import fold_in, normal, split
from persistor.nn.positions import AddPosition

PLACES = 1  # parts the key of this start from that of the positional map


def placed(
    position: AddPosition, cell: Cell, scale: float, *, key: Key
) -> tuple[AddPosition, Cell]:
    """The positional map and a cell with thresholds, such that candidates read inputs alone.

    Half of the coordinates carry the input and half the place: u = [A x; P PE(t)], with P such that
    P PE(t) is N(0, 1). The candidate reads the first half. The threshold reads the second, with
    weights such that beta_t = |b + s n(t)| with n(t) of variance 1 over the draws. The factor s is
    0 for the first unit, `scale` for the last, and in even steps between: the first unit updates on
    every input that is not empty, the others at places of their own, and none in silence. With
    `scale` 0, without positions, or if the cell has no threshold, nothing changes.
    """
    if not scale or not position.positions.shape[0]:
        return position, cell
    if not isinstance(cell, Thresholded):
        return position, cell
    (codes, width), d = position.positions.shape, cell.state_size
    half = width // 2
    one, two = split(fold_in(key, PLACES))
    map_of_codes = normal(one, (codes, width - half)) * (2 / codes) ** 0.5
    scales = jnp.linspace(0.0, scale, d)
    thresholds = scales[None, :] * normal(two, (width - half, d)) / (width - half) ** 0.5
    candidates = cell.project.weight[:half, :d] * (width / half) ** 0.5
    weight = cell.project.weight.at[:, : 2 * d].set(0.0)
    weight = weight.at[:half, :d].set(candidates).at[half:, d : 2 * d].set(thresholds)
    positions = jnp.zeros_like(position.positions).at[:, half:].set(map_of_codes)
    return (
        eqx.tree_at(lambda p: p.positions, position, positions),
        eqx.tree_at(lambda c: c.project.weight, cell, weight),
    )
