"""Heaviside and sign: exact forward, surrogate backward."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from persistor.surrogate import heaviside, sign

numbers = st.floats(-50, 50, width=32)


@given(numbers)
def test_values_and_slopes(x):
    value = jnp.float32(x)
    assert heaviside(value) == (1.0 if x >= 0 else 0.0)
    assert sign(value) == (1.0 if x >= 0 else -1.0)
    slope = 1 / (1 + (np.pi * x) ** 2)
    np.testing.assert_allclose(jax.grad(heaviside)(value), slope, rtol=1e-5)
    np.testing.assert_allclose(jax.grad(sign)(value), 2 * slope, rtol=1e-5)


def test_forward_and_reverse_mode_agree():
    x = jnp.linspace(-2, 2, 9)
    forward = jax.jacfwd(sign)(x)
    np.testing.assert_allclose(forward, jax.jacrev(sign)(x), rtol=1e-6)
