"""Epsilon: the fraction of its state that a cumulative cell keeps in an update."""

from __future__ import annotations

import jax.core
import jax.numpy as jnp
import numpy as np

from persistor._tools.errors import PersistorError
from persistor.arrays import Array, Float


def checked_epsilon(
    epsilon: float | Array, state_size: int
) -> Float[Array, ""] | Float[Array, " d"]:
    """Epsilon as an array: one number or one per unit, in [-1, 1]; traced values pass unread."""
    array = jnp.asarray(epsilon, jnp.float32)
    if array.shape not in ((), (state_size,)):
        raise PersistorError(
            f"epsilon has shape {array.shape}; give one number or one per unit, ({state_size},)"
        )
    if not isinstance(array, jax.core.Tracer) and not np.all(np.abs(np.asarray(array)) <= 1):
        raise PersistorError(f"epsilon is {epsilon}; it must lie in [-1, 1]")
    return array


def update_decay(
    z: Float[Array, "*s d"], epsilon: Float[Array, ""] | Float[Array, " d"]
) -> Float[Array, "*s d"]:
    """1 - z + epsilon z: the diagonal of A(x_t) in the selective state-space form."""
    kept = epsilon.reshape((1,) * (z.ndim - epsilon.ndim) + epsilon.shape)
    return 1.0 - z + kept * z
