"""What BMRU, CMRU and alphaCMRU share: how they start, when to update, and in which direction."""

from __future__ import annotations

from typing import Literal

import equinox as eqx
import jax.numpy as jnp

from persistor._tools.options import Option
from persistor.arrays import Array, Float, Key
from persistor.nn.draws import part, put, times, zeros
from persistor.nn.layers import Linear
from persistor.recurrence.surrogate import heaviside

Thresholds = Literal["inputs", "constant"]

HOLD = Option(
    "hold",
    0.0,
    "b_beta at the start; at 10, units retain until they have learned to update.",
    low=0.0,
    start=True,
    word="hold",
)
GAIN = Option(
    "gain",
    1.0,
    "Factor on W_x at the start: how far a candidate is from zero, or from its threshold.",
    low=0.0,
    start=True,
    word="gain",
)
THRESHOLDS = Option(
    "thresholds",
    "inputs",
    "W_beta at the start: random (inputs), or zero (constant), so that all inputs meet the same "
    "threshold.",
    choices=("inputs", "constant"),
    start=True,
)


def projection(
    input_size: int,
    state_size: int,
    parts: int,
    *,
    hold: float,
    gain: float,
    thresholds: Thresholds,
    key: Key,
) -> Linear:
    """One linear map to candidate, threshold and what else a cell has; b_beta starts at `hold`.

    At 0, the paper's start (appendix "Training Generalities"), a unit updates on half of its inputs
    until it has learned better; well above the size of a candidate, about 1, it retains until then.
    """
    project = Linear(input_size, parts * state_size, key=key)
    of_threshold = slice(state_size, 2 * state_size)
    of_candidate = (slice(None), slice(state_size))
    bias = put(zeros(parts * state_size), of_threshold, HOLD.checked(hold))
    candidates = times(float(GAIN.checked(gain)), part(project.weight, of_candidate))
    weight = put(project.weight, of_candidate, candidates)
    if THRESHOLDS.checked(thresholds) == "constant":
        weight = put(weight, (slice(None), of_threshold), 0.0)
    return eqx.tree_at(lambda layer: (layer.weight, layer.bias), project, (weight, bias))


def update_gate(
    candidate: Float[Array, "*s d"], threshold: Float[Array, "*s d"]
) -> Float[Array, "*s d"]:
    """z = H(|candidate| - |threshold|): 1 updates, 0 retains.

    The threshold is given before its absolute value: beta = |W_beta x + b_beta|.
    """
    return heaviside(magnitude(candidate) - magnitude(threshold))


def magnitude(x: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """|x|, with the slope 0 at 0, as the kernels have it and PyTorch; that of `jnp.abs` is 1."""
    return jnp.sign(x) * x
