"""What BMRU, CMRU and alphaCMRU share: when to update, and in which direction."""

from __future__ import annotations

import jax.numpy as jnp

from persistor.arrays import Array, Float
from persistor.surrogate import heaviside


def update_gate(
    candidate: Float[Array, "*s d"], threshold: Float[Array, "*s d"]
) -> Float[Array, "*s d"]:
    """z = H(|candidate| - |threshold|): 1 updates, 0 retains.

    The threshold is given before its absolute value: beta = |W_beta x + b_beta|.
    """
    return heaviside(jnp.abs(candidate) - jnp.abs(threshold))
