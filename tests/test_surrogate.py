"""Heaviside, sign and saturation: exact forward, surrogate backward."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from persistor.recurrence.surrogate import heaviside, saturate, sign

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


@given(numbers)
def test_saturation_holds_values_and_lets_gradients_pass(x):
    given_ = (jnp.float32(x), jnp.float32(-1.5), jnp.float32(2.0))
    assert saturate(*given_) == min(max(np.float32(x), -1.5), 2.0)
    assert jax.grad(saturate, argnums=(0, 1, 2))(*given_) == (1.0, 0.0, 0.0)
