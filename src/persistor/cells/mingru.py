"""minGRU: the minimal gated recurrent unit, a fading-memory baseline."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from persistor.arrays import Array, Float, Key
from persistor.cells.cell import Cell
from persistor.layers import Linear
from persistor.transition import Affine


class MinGRU(Cell):
    """Appendix "Minimal Gated Recurrent Unit" (Feng et al., 2024).

    z_t = sigmoid(W_z x_t + b_z),  c_t = W_h x_t + b_h
    h_t = (1 - z_t) h_{t-1} + z_t c_t
    """

    kernel: ClassVar[str | None] = "mingru"
    project: Linear  # gate, candidate
    state: int = eqx.field(static=True)

    def __init__(self, width: int, state: int, *, key: Key):
        self.project = Linear(width, 2 * state, key=key)
        self.state = state

    def gate(self, p: Float[Array, "*s p"]) -> Affine:
        """A soft mix: never quite retaining, never quite replacing."""
        gate, candidate = jnp.split(p, 2, axis=-1)
        z = jax.nn.sigmoid(gate)
        return Affine(1.0 - z, z * candidate)
