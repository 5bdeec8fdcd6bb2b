"""alphaCMRU: CMRU whose scale depends on the input."""

from __future__ import annotations

from typing import ClassVar, Literal

import equinox as eqx

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
from persistor.nn.draws import put
from persistor.nn.layers import Linear
from persistor.recurrence.surrogate import sign
from persistor.recurrence.transition import Affine

SCALES = Option(
    "scales",
    "inputs",
    "alpha at the start: a linear map of the input (inputs), or 1 for every input (one).",
    choices=("inputs", "one"),
    start=True,
)


class AlphaCMRU(Cell):
    """Eq. "alpha_cmru": a CMRU with alpha_t = W_alpha x_t + b_alpha, so states are continuous.

    c_t = W_x x_t + b_x,  beta_t = |W_beta x_t + b_beta|,  z_t = H(|c_t| - beta_t)
    h_t = z_t [S(c_t) alpha_t + epsilon h_{t-1}] + (1 - z_t) h_{t-1}

    Epsilon is a constant unless `learn_epsilon`.
    """

    kernel: ClassVar[str | None] = "alpha_cmru"
    options: ClassVar[tuple[Option, ...]] = (EPSILON, LEARN_EPSILON, HOLD, GAIN, THRESHOLDS, SCALES)
    project: Linear  # candidate, threshold, scale
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
        scales: Literal["inputs", "one"] = "inputs",
        key: Key,
    ):
        project = projection(
            input_size, state_size, 3, hold=hold, gain=gain, thresholds=thresholds, key=key
        )
        if SCALES.checked(scales) == "one":
            alpha = slice(2 * state_size, None)
            parts = (put(project.weight, (slice(None), alpha), 0.0), put(project.bias, alpha, 1.0))  # pyright: ignore[reportArgumentType]
            project = eqx.tree_at(lambda layer: (layer.weight, layer.bias), project, parts)
        self.project = project
        self.epsilon = checked_epsilon(epsilon, state_size, learn=learn_epsilon)
        self.state_size = state_size

    def kernel_parameters(self) -> Float[Array, "1 d"]:
        """Epsilon."""
        return by_unit(self.epsilon, self.state_size, self.project.weight.dtype)[None]

    def gate(self, p: Float[Array, "*s p"]) -> Affine:
        """Retain (decay 1, drive 0) or accumulate (decay epsilon, drive +-alpha_t)."""
        candidate, threshold, scale = self.parts(p)
        z = update_gate(candidate, threshold)
        return Affine(update_decay(z, self.epsilon), z * sign(candidate) * scale)
