"""Heaviside, sign and saturation, with the surrogate gradients that let them be trained.

Appendix "Training Generalities": dH(x)/dx is replaced by 1 / (1 + (pi x)^2), the surrogate's
sharpness alpha_surr being 1. The sign is S(x) = 2 H(x) - 1, so its derivative is twice that.
At zero both are one: H(0) = S(0) = 1. Saturation is ours: the paper's states have no ends.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from persistor.arrays import Array, Float


def surrogate_slope(x: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """The derivative used in place of Heaviside's: 1 / (1 + (pi x)^2)."""
    return 1.0 / (1.0 + jnp.square(jnp.pi * x))


@jax.custom_jvp
def heaviside(x: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """H(x): 1 where x >= 0, else 0; differentiated as `surrogate_slope`."""
    return (x >= 0).astype(x.dtype)


@heaviside.defjvp
def _(primals, tangents):
    (x,), (dx,) = primals, tangents
    return heaviside(x), surrogate_slope(x) * dx


def sign(x: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """S(x) = 2 H(x) - 1: never zero; differentiated as twice `surrogate_slope`."""
    return 2.0 * heaviside(x) - 1.0


@jax.custom_jvp
def saturate(
    x: Float[Array, "*s"], low: Float[Array, "*s"], high: Float[Array, "*s"]
) -> Float[Array, "*s"]:
    """x, held between low and high; differentiated as if it were x.

    The true derivative is 0 beyond the ends: a unit that is pushed against one at every step would
    never learn to let go.
    """
    return jnp.clip(x, low, high)


@saturate.defjvp
def _(primals, tangents):
    return saturate(*primals), tangents[0]
