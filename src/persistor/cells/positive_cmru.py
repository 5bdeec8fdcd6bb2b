"""Positive CMRU: the CMRU that a circuit of currents can be."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp

from persistor._tools.options import Option
from persistor.arrays import Array, Float, Key
from persistor.cells.analog import MISMATCH, NOISE, AnalogCell
from persistor.cells.epsilon import (
    EPSILON,
    LEARN_EPSILON,
    Epsilon,
    by_unit,
    checked_epsilon,
    update_decay,
)
from persistor.nn.layers import over
from persistor.recurrence.surrogate import heaviside
from persistor.recurrence.transition import Affine


class PositiveCMRU(AnalogCell):
    """A CMRU with a threshold that no input moves, and states that are never negative at epsilon 0.

    c_t = W_x x_t + b_x,  z_t = H(|c_t| - |beta|)
    h_t = z_t [(H(c_t) - epsilon / 2) alpha + epsilon h_{t-1}] + (1 - z_t) h_{t-1}

    With k the state of a CMRU with W_beta = 0 that begins at -alpha, h = (k + alpha) / 2 exactly.
    At epsilon 0 the states are 0 and alpha, which a Schmitt trigger of currents has too.
    """

    kernel: ClassVar[str | None] = "positive_cmru"
    options: ClassVar[tuple[Option, ...]] = (EPSILON, LEARN_EPSILON, MISMATCH, NOISE)
    epsilon: Epsilon

    def __init__(
        self,
        input_size: int,
        state_size: int,
        *,
        epsilon: Epsilon = 1.0,
        learn_epsilon: bool = False,
        mismatch: float = 0.0,
        noise: float = 0.0,
        key: Key,
    ):
        super().__init__(input_size, state_size, mismatch=mismatch, noise=noise, key=key)
        self.epsilon = checked_epsilon(epsilon, state_size, learn=learn_epsilon)

    def kernel_parameters(self) -> Float[Array, "3 d"]:
        """Threshold, scale and epsilon."""
        epsilon = by_unit(self.epsilon, self.state_size, self.scale.dtype)
        return jnp.stack([self.threshold, self.scale, epsilon])

    def gate(self, p: Float[Array, "*s p"]) -> Affine:
        """Retain (decay 1, drive 0), or go towards alpha or 0."""
        z = self.updates(p)
        kept = by_unit(self.epsilon, self.state_size, p.dtype)
        target = heaviside(p) - over(kept, p) / 2
        return Affine(update_decay(z, self.epsilon), z * target * over(self.scale, z))
