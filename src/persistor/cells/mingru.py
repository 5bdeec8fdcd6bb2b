"""minGRU: the minimal gated recurrent unit, a fading-memory baseline."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from persistor.arrays import Array, Float, Key
from persistor.cells.cell import Cell
from persistor.nn.layers import Linear
from persistor.recurrence.transition import Affine


class MinGRU(Cell):
    """Appendix "Minimal Gated Recurrent Unit" (Feng et al., 2024).

    z_t = sigmoid(W_z x_t + b_z),  c_t = W_h x_t + b_h
    h_t = (1 - z_t) h_{t-1} + z_t c_t
    """

    kernel: ClassVar[str | None] = "mingru"
    project: Linear  # gate, candidate
    state_size: int = eqx.field(static=True)

    def __init__(self, input_size: int, state_size: int, *, key: Key):
        self.project = Linear(input_size, 2 * state_size, key=key)
        self.state_size = state_size

    def gate(self, p: Float[Array, "*s p"]) -> Affine:
        """A soft mix: never quite retaining, never quite replacing."""
        gate, candidate = jnp.split(p, 2, axis=-1)
        z = jax.nn.sigmoid(gate)
        return Affine(1.0 - z, z * candidate)
