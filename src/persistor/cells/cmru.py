"""CMRU: the cumulative memory recurrent unit."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp

from persistor._tools.options import Option
from persistor.arrays import Array, Float, Key
from persistor.cells.cell import Cell
from persistor.cells.epsilon import (
    EPSILON,
    LEARN_EPSILON,
    Epsilon,
    by_unit,
    checked_epsilon,
    update_decay,
)
from persistor.cells.hysteresis import GAIN, HOLD, THRESHOLDS, Thresholds, projection, update_gate
from persistor.nn.draws import ones
from persistor.nn.layers import Linear, over
from persistor.recurrence.surrogate import sign
from persistor.recurrence.transition import Affine


class CMRU(Cell):
    """Eq. "cmru": an update keeps a fraction epsilon of the state, and so lets gradients through.

    c_t = W_x x_t + b_x,  beta_t = |W_beta x_t + b_beta|,  z_t = H(|c_t| - beta_t)
    h_t = z_t [S(c_t) alpha + epsilon h_{t-1}] + (1 - z_t) h_{t-1}

    epsilon = 0 is BMRU, epsilon = 1 a selective integrator, epsilon = -1 a reflection. It is a
    constant unless `learn_epsilon`.
    """

    kernel: ClassVar[str | None] = "cmru"
    options: ClassVar[tuple[Option, ...]] = (EPSILON, LEARN_EPSILON, HOLD, GAIN, THRESHOLDS)
    project: Linear  # candidate, threshold
    scale: Float[Array, " d"]
    epsilon: Epsilon
    state_size: int = eqx.field(static=True)

    def __init__(
        self,
        input_size: int,
        state_size: int,
        *,
        epsilon: Epsilon = 1.0,
        learn_epsilon: bool = False,
        hold: float = 0.0,
        gain: float = 1.0,
        thresholds: Thresholds = "inputs",
        key: Key,
    ):
        self.project = projection(
            input_size, state_size, 2, hold=hold, gain=gain, thresholds=thresholds, key=key
        )
        self.scale = ones(state_size)
        self.epsilon = checked_epsilon(epsilon, state_size, learn=learn_epsilon)
        self.state_size = state_size

    def kernel_parameters(self) -> Float[Array, "2 d"]:
        """Scale and epsilon."""
        return jnp.stack([self.scale, by_unit(self.epsilon, self.state_size, self.scale.dtype)])

    def gate(self, p: Float[Array, "*s p"]) -> Affine:
        """Retain (decay 1, drive 0) or accumulate (decay epsilon, drive +-alpha)."""
        candidate, threshold = self.parts(p)
        z = update_gate(candidate, threshold)
        return Affine(update_decay(z, self.epsilon), z * sign(candidate) * over(self.scale, z))
