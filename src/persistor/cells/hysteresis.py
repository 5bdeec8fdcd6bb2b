"""What BMRU, CMRU and alphaCMRU share: how they start, when to update, and in which direction."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp

from persistor._tools.errors import PersistorError
from persistor.arrays import Array, Float, Key
from persistor.nn.layers import Linear
from persistor.recurrence.surrogate import heaviside


def projection(input_size: int, state_size: int, parts: int, *, hold: float, key: Key) -> Linear:
    """One linear map to candidate, threshold and what else a cell has; b_beta starts at `hold`.

    At 0, the paper's start (appendix "Training Generalities"), a unit updates on half of its inputs
    until it has learned better; well above the size of a candidate, about 1, it retains till then.
    """
    project = Linear(input_size, parts * state_size, key=key)
    bias = jnp.zeros(parts * state_size).at[state_size : 2 * state_size].set(checked_hold(hold))
    return eqx.tree_at(lambda layer: layer.bias, project, bias)


def checked_hold(hold: float) -> float:
    """A threshold at the start: a finite number, not negative."""
    if not 0 <= hold < float("inf"):
        raise PersistorError(f"hold is {hold:g}; it must be a number from 0 on, such as 10")
    return hold


def update_gate(
    candidate: Float[Array, "*s d"], threshold: Float[Array, "*s d"]
) -> Float[Array, "*s d"]:
    """z = H(|candidate| - |threshold|): 1 updates, 0 retains.

    The threshold is given before its absolute value: beta = |W_beta x + b_beta|.
    """
    return heaviside(jnp.abs(candidate) - jnp.abs(threshold))
