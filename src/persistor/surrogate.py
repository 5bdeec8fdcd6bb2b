"""Heaviside and sign, with the surrogate gradient that lets them be trained.

Appendix "Training Generalities": dH(x)/dx is replaced by 1 / (1 + (pi x)^2), the surrogate's
sharpness alpha_surr being 1. The sign is S(x) = 2 H(x) - 1, so its derivative is twice that.
At zero both are one: H(0) = S(0) = 1.
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
