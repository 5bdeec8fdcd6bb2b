"""What BMRU, CMRU and alphaCMRU share: how they start, when to update, and in which direction."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp

from persistor.arrays import Array, Float, Key
from persistor.errors import PersistorError
from persistor.layers import Linear
from persistor.surrogate import heaviside


def projection(width: int, state: int, parts: int, *, hold: float, key: Key) -> Linear:
    """One linear map to candidate, threshold and what else a cell has; b_beta starts at `hold`.

    At 0, the paper's start (appendix "Training Generalities"), a unit updates on half of its inputs
    until it has learned better; well above the size of a candidate, about 1, it retains till then.
    """
    project = Linear(width, parts * state, key=key)
    bias = jnp.zeros(parts * state).at[state : 2 * state].set(checked_hold(hold))
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
