"""Ladder: the cell of N levels that a cascade of currents can be."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp

from persistor._tools.options import Option
from persistor.arrays import Array, Float, Key
from persistor.cells.analog import MISMATCH, NOISE, AnalogCell
from persistor.nn.layers import over
from persistor.nn.sequence import Sequence
from persistor.recurrence.surrogate import sign
from persistor.recurrence.transition import Affine, Saturating, unbounded

LEVELS = Option(
    "levels", 4, "Levels of a ladder above the ground.", low=1, word="levels", always=True
)


class Ladder(AnalogCell):
    """A positive CMRU of N levels: each update climbs or descends by one, and stops at the ends.

    c_t = W_x x_t + b_x,  z_t = H(|c_t| - |beta|)
    h_t = clip(h_{t-1} + z_t S(c_t) alpha, 0, N alpha)

    The state is the level h / alpha, a whole number, and `read` gives h. Gradients pass the ends as
    if there were none, as they pass a CMRU at epsilon 1; N = 1 is the positive CMRU at epsilon 0.
    """

    kernel: ClassVar[str | None] = "ladder"
    options: ClassVar[tuple[Option, ...]] = (LEVELS, MISMATCH, NOISE)
    levels: int = eqx.field(static=True)  # N: above the ground level

    def __init__(
        self,
        input_size: int,
        state_size: int,
        *,
        levels: int = 4,
        mismatch: float = 0.0,
        noise: float = 0.0,
        key: Key,
    ):
        super().__init__(input_size, state_size, mismatch=mismatch, noise=noise, key=key)
        self.levels = int(LEVELS.checked(levels))

    def kernel_parameters(self) -> Float[Array, "2 d"]:
        """Threshold and levels."""
        return jnp.stack([self.threshold, jnp.full_like(self.threshold, self.levels)])

    def gate(self, p: Float[Array, "*s p"]) -> Saturating:
        """Retain (drive 0, no bounds), or a level up or down between 0 and N."""
        z = self.updates(p)
        free = jnp.full_like(z, unbounded(z.dtype))
        low = jnp.where(z > 0, 0.0, -free)
        high = jnp.where(z > 0, float(self.levels), free)
        return Saturating(Affine(jnp.ones_like(z), z * sign(p)), low, high)

    def read(self, states: Float[Array, "*b t d"], inputs: Sequence) -> Float[Array, "*b t d"]:
        """The level times alpha."""
        return over(self.scale, states) * states
