"""Epsilon: the fraction of its state that a cumulative cell keeps in an update."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from persistor._tools.errors import PersistorError
from persistor._tools.options import Option
from persistor.arrays import Array, Float

EPSILON = Option(
    "epsilon", 1.0, "Share of the state kept in an update.", -1.0, 1.0, word="eps", always=True
)
LEARN_EPSILON = Option(
    "learn_epsilon", False, "Learn epsilon, one per unit; --epsilon is where it starts."
)

# One number or one per unit. Python's numbers are constants; an array is learned, or changes.
Epsilon = float | tuple[float, ...] | Float[Array, ""] | Float[Array, " d"]


@runtime_checkable
class Cumulative(Protocol):
    """A cell that has an epsilon."""

    epsilon: Epsilon


def checked_epsilon(epsilon: Epsilon, state_size: int, *, learn: bool = False) -> Epsilon:
    """Epsilon as a cell keeps it: in [-1, 1], one number or one per unit.

    An epsilon that is to be learned becomes an array, and a traced one stays as it is. Otherwise it
    is a Python number, which no optimiser takes for a parameter.
    """
    if isinstance(epsilon, jax.core.Tracer):
        if epsilon.shape not in ((), (state_size,)):
            raise _wrong_shape(epsilon.shape, state_size)
        return jnp.broadcast_to(epsilon, (state_size,)) if learn else epsilon
    try:
        numbers = np.asarray(epsilon, float)
    except (TypeError, ValueError):
        raise PersistorError(f"epsilon is {epsilon!r}; it must be a number") from None
    if numbers.shape not in ((), (state_size,)):
        raise _wrong_shape(numbers.shape, state_size)
    for number in numbers.ravel().tolist():
        EPSILON.checked(number)
    if learn:
        return jnp.asarray(np.broadcast_to(numbers, (state_size,)), jnp.zeros(()).dtype)
    return tuple(numbers.tolist()) if numbers.ndim else float(numbers)


def _wrong_shape(shape: tuple[int, ...], state_size: int) -> PersistorError:
    return PersistorError(
        f"epsilon has shape {shape}; give one number or one per unit, ({state_size},)"
    )


def by_unit(epsilon: Epsilon, state_size: int, dtype: jnp.dtype) -> Float[Array, " d"]:
    """Epsilon as an array, one number per unit."""
    return jnp.broadcast_to(jnp.asarray(epsilon, dtype), (state_size,))


def update_decay(z: Float[Array, "*s d"], epsilon: Epsilon) -> Float[Array, "*s d"]:
    """1 - z + epsilon z: the diagonal of A(x_t) in the selective state-space form."""
    kept = by_unit(epsilon, z.shape[-1], z.dtype)
    return 1.0 - z + kept.reshape((1,) * (z.ndim - 1) + kept.shape) * z
