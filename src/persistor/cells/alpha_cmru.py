"""alphaCMRU: CMRU whose scale depends on the input."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp

from persistor.arrays import Array, Float, Key
from persistor.cells.cell import Cell
from persistor.cells.epsilon import checked_epsilon, update_decay
from persistor.cells.hysteresis import projection, update_gate
from persistor.nn.layers import Linear
from persistor.recurrence.surrogate import sign
from persistor.recurrence.transition import Affine


class AlphaCMRU(Cell):
    """Eq. "alpha_cmru": a CMRU with alpha_t = W_alpha x_t + b_alpha, so states are continuous.

    c_t = W_x x_t + b_x,  beta_t = |W_beta x_t + b_beta|,  z_t = H(|c_t| - beta_t)
    h_t = z_t [S(c_t) alpha_t + epsilon h_{t-1}] + (1 - z_t) h_{t-1}
    """

    kernel: ClassVar[str | None] = "alpha_cmru"
    project: Linear  # candidate, threshold, scale
    epsilon: Float[Array, ""] | Float[Array, " d"]
    state_size: int = eqx.field(static=True)

    def __init__(
        self,
        input_size: int,
        state_size: int,
        *,
        epsilon: float | Float[Array, ""] | Float[Array, " d"] = 1.0,
        hold: float = 0.0,
        key: Key,
    ):
        self.project = projection(input_size, state_size, 3, hold=hold, key=key)
        self.epsilon = checked_epsilon(epsilon, state_size)
        self.state_size = state_size

    def kernel_parameters(self) -> Float[Array, "1 d"]:
        """Epsilon."""
        return jnp.broadcast_to(self.epsilon, (1, self.state_size))

    def gate(self, p: Float[Array, "*s p"]) -> Affine:
        """Retain (decay 1, drive 0) or accumulate (decay epsilon, drive +-alpha_t)."""
        candidate, threshold, scale = jnp.split(p, 3, axis=-1)
        z = update_gate(candidate, threshold)
        return Affine(update_decay(z, self.epsilon), z * sign(candidate) * scale)
