"""What cells that a circuit can be share: fixed thresholds, and what disturbs them."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from persistor._tools.options import Option
from persistor.arrays import Array, Float, Key
from persistor.cells.cell import Cell
from persistor.cells.hysteresis import update_gate
from persistor.nn.draws import ones
from persistor.nn.layers import Linear, over
from persistor.nn.sequence import Dense, Sequence

MISMATCH = Option(
    "mismatch",
    0.0,
    "Train on another chip with every batch: the spread of a threshold, as a share of it "
    "(about 0.13 in SPICE).",
    low=0.0,
    high=1.0,
)
NOISE = Option(
    "noise",
    0.0,
    "Train with noise at every step: its spread, as a share of the threshold.",
    low=0.0,
    high=1.0,
)


class AnalogCell(Cell):
    """A cell whose only projection is its candidate, and which can learn to bear a real circuit.

    In training the candidate is c + |beta| (mismatch n_u + noise n_bt) with normal numbers n_u,
    one a unit, drawn anew with every batch as if it ran on another chip, and n_bt, one a unit,
    sequence and step. A shift of the candidate is a shift of both thresholds, which is most of
    what mismatch is: in SPICE the two have a correlation of 0.83.
    """

    options: ClassVar[tuple[Option, ...]] = (MISMATCH, NOISE)
    project: Linear  # candidate
    threshold: Float[Array, " d"]
    scale: Float[Array, " d"]
    state_size: int = eqx.field(static=True)
    mismatch: float = eqx.field(static=True)
    noise: float = eqx.field(static=True)

    def __init__(
        self,
        input_size: int,
        state_size: int,
        *,
        mismatch: float = 0.0,
        noise: float = 0.0,
        key: Key,
    ):
        self.project = Linear(input_size, state_size, key=key)
        self.threshold = ones(state_size)
        self.scale = ones(state_size)
        self.state_size = state_size
        self.mismatch = float(MISMATCH.checked(mismatch))
        self.noise = float(NOISE.checked(noise))

    def updates(self, candidates: Float[Array, "*s d"]) -> Float[Array, "*s d"]:
        """z = H(|candidate| - |beta|): 1 updates, 0 retains."""
        threshold = jnp.broadcast_to(over(self.threshold, candidates), candidates.shape)
        return update_gate(candidates, threshold)

    def disturbed(self, projections: Sequence, key: Key) -> Sequence:
        """The candidates as they reach the thresholds of a chip drawn with this key."""
        chip, moment = jax.random.split(key)
        beta = jnp.abs(self.threshold)
        if self.mismatch:
            shift = self.mismatch * beta * jax.random.normal(chip, beta.shape, beta.dtype)
            projections = projections.map(lambda c: c + over(shift, c))
        if self.noise:
            c = projections.dense()
            moved = self.noise * over(beta, c) * jax.random.normal(moment, c.shape, c.dtype)
            projections = Dense(c + moved)
        return projections
