"""BMRU: the bistable memory recurrent unit."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp

from persistor._tools.options import Option
from persistor.arrays import Array, Float, Key
from persistor.cells.cell import Cell
from persistor.cells.hysteresis import GAIN, HOLD, THRESHOLDS, Thresholds, projection, update_gate
from persistor.nn.draws import ones
from persistor.nn.layers import Linear, over
from persistor.recurrence.surrogate import sign
from persistor.recurrence.transition import Affine


class BMRU(Cell):
    """Section "The Bistable Memory Recurrent Unit": a state of two values, +alpha or -alpha.

    c_t = W_x x_t + b_x,  beta_t = |W_beta x_t + b_beta|,  z_t = H(|c_t| - beta_t)
    h_t = z_t S(c_t) alpha + (1 - z_t) h_{t-1}

    This is CMRU with epsilon = 0.
    """

    kernel: ClassVar[str | None] = "cmru"
    options: ClassVar[tuple[Option, ...]] = (HOLD, GAIN, THRESHOLDS)
    project: Linear  # candidate, threshold
    scale: Float[Array, " d"]
    state_size: int = eqx.field(static=True)

    def __init__(
        self,
        input_size: int,
        state_size: int,
        *,
        hold: float = 0.0,
        gain: float = 1.0,
        thresholds: Thresholds = "inputs",
        key: Key,
    ):
        self.project = projection(
            input_size, state_size, 2, hold=hold, gain=gain, thresholds=thresholds, key=key
        )
        self.scale = ones(state_size)
        self.state_size = state_size

    def kernel_parameters(self) -> Float[Array, "2 d"]:
        """Scale and epsilon, of the CMRU that this is."""
        return jnp.stack([self.scale, jnp.zeros_like(self.scale)])

    def gate(self, p: Float[Array, "*s p"]) -> Affine:
        """Retain (decay 1, drive 0) or replace (decay 0, drive +-alpha)."""
        candidate, threshold = self.parts(p)
        z = update_gate(candidate, threshold)
        return Affine(1.0 - z, z * sign(candidate) * over(self.scale, z))
