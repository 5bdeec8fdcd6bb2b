"""A start in which every unit listens at places of its own, and retains elsewhere."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np

from persistor.arrays import Key
from persistor.cells import Cell, Thresholded
from persistor.nn.draws import fold_in, normal, part, put, split, times, zeros
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
    map_of_codes = times((2 / codes) ** 0.5, normal(one, (codes, width - half)))
    thresholds = times(_even_steps(scale, d)[None, :], normal(two, (width - half, d)))
    thresholds = times(1 / np.float32((width - half) ** 0.5), thresholds)
    project = cell.project.weight
    candidates = times((width / half) ** 0.5, part(project, (slice(half), slice(d))))
    weight = put(project, (slice(None), slice(2 * d)), 0.0)
    weight = put(weight, (slice(half), slice(d)), candidates)
    weight = put(weight, (slice(half, None), slice(d, 2 * d)), thresholds)
    positions = put(zeros(codes, width), (slice(None), slice(half, None)), map_of_codes)
    return (
        eqx.tree_at(lambda p: p.positions, position, positions),
        eqx.tree_at(lambda c: c.project.weight, cell, weight),
    )


def _even_steps(last: float, count: int) -> np.ndarray:
    """`jnp.linspace(0, last, count)` bit for bit, without a program for this count."""
    kind = jax.dtypes.canonicalize_dtype(float).type
    numbers = np.arange(count, dtype=kind) * (kind(1 / max(count - 1, 1)) * kind(last))
    return np.append(numbers[:-1], kind(last)) if count > 1 else numbers
