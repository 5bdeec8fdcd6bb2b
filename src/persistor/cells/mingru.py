"""minGRU: the minimal gated recurrent unit, a fading-memory baseline."""

from __future__ import annotations

import math
from typing import ClassVar

import equinox as eqx
import jax

from persistor._tools.options import Option
from persistor.arrays import Array, Float, Key
from persistor.cells.cell import Cell
from persistor.nn.draws import fold_in, put, times, uniform, zeros
from persistor.nn.layers import Linear
from persistor.recurrence.transition import Affine

LONGEST = Option(
    "longest",
    0.0,
    "Memory times of the gates at the start: spread from one step to this many, evenly in their "
    "logarithm; at 0, b_z is 0 and a gate is half open.",
    low=0.0,
    start=True,
    word="longest",
)


class MinGRU(Cell):
    """Appendix "Minimal Gated Recurrent Unit" (Feng et al., 2024).

    z_t = sigmoid(W_z x_t + b_z),  c_t = W_h x_t + b_h
    h_t = (1 - z_t) h_{t-1} + z_t c_t

    With `longest`, b_z = -log tau at the start, tau log-uniform in [1, longest] (the "chrono" start
    of Tallec and Ollivier, 2018): a gate then remembers for about tau steps.
    """

    kernel: ClassVar[str | None] = "mingru"
    options: ClassVar[tuple[Option, ...]] = (LONGEST,)
    project: Linear  # gate, candidate
    state_size: int = eqx.field(static=True)

    def __init__(self, input_size: int, state_size: int, *, longest: float = 0.0, key: Key):
        self.project = Linear(input_size, 2 * state_size, key=key)
        if LONGEST.checked(longest):
            spread = uniform(fold_in(key, 1), (state_size,))
            gates = times(-math.log(max(longest, 1)), spread)
            bias = put(zeros(2 * state_size), slice(state_size), gates)
            self.project = eqx.tree_at(lambda layer: layer.bias, self.project, bias)
        self.state_size = state_size

    def gate(self, p: Float[Array, "*s p"]) -> Affine:
        """A soft mix: never quite retaining, never quite replacing."""
        gate, candidate = self.parts(p)
        z = jax.nn.sigmoid(gate)
        return Affine(1.0 - z, z * candidate)
