"""Laws of the surrogates, and of transitions that saturate, whose states meet bounds exactly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from persistor.kernels.engine import engine
from persistor.recurrence.surrogate import heaviside, saturate, sign
from persistor.recurrence.transition import Affine, Saturating
from persistor.recurrence.unroll import composed, unroll

STEPS, UNITS = 24, 3


def transitions(seed, *, resets=True):
    """Whole drives and bounds, some identities, some resets: all sums are exact."""
    rng = np.random.default_rng(seed)
    drive = rng.integers(-2, 3, (STEPS, UNITS)).astype(np.float32)
    low = rng.integers(-3, 2, drive.shape).astype(np.float32)
    high = low + rng.integers(0, 4, drive.shape).astype(np.float32)
    keep, reset = jnp.asarray(rng.random((2, *drive.shape)) < [[[0.7]], [[0.15]]])
    maps = Saturating(
        Affine(jnp.ones(drive.shape), jnp.asarray(drive)), *map(jnp.asarray, (low, high))
    )
    return (maps.reset_where(reset) if resets else maps).keep_where(keep)


def step(maps, t):
    return jax.tree.map(lambda a: a[t], maps)


@given(st.integers(0, 2**16))
def test_composition_is_one_map_after_the_other(seed):
    maps = transitions(seed)
    a, b, c = (step(maps, t) for t in range(3))
    for h in (-5.0, -1.0, 0.0, 0.5, 3.0):
        state = jnp.full(UNITS, h)
        expected = c(b(a(state)))
        np.testing.assert_array_equal(a.then(b).then(c)(state), expected)
        np.testing.assert_array_equal(a.then(b.then(c))(state), expected)


@given(st.integers(0, 2**16), st.integers(1, STEPS))
def test_all_of_a_sequence_composed_is_one_map_after_the_other(seed, steps):
    maps = jax.tree.map(lambda a: a[:steps], transitions(seed))
    for h in (-5.0, 0.5, 3.0):
        state = jnp.full(UNITS, h)
        np.testing.assert_array_equal(composed(maps)(state), unroll(maps, state)[1])


@given(st.integers(0, 2**16))
def test_the_identity_is_neutral_and_a_reset_ignores_the_past(seed):
    a = step(transitions(seed, resets=False), 0)
    nothing = a.keep_where(jnp.zeros(UNITS, bool))
    fresh = a.reset_where(jnp.ones(UNITS, bool))
    for h in (-5.0, 0.0, 3.0):
        state = jnp.full(UNITS, h)
        np.testing.assert_array_equal(nothing(state), state)
        for both in (a.then(nothing), nothing.then(a)):
            np.testing.assert_array_equal(both(state), a(state))
        for past in (fresh, a.then(fresh), nothing.then(fresh), fresh.then(nothing)):
            np.testing.assert_array_equal(past(state), a(jnp.zeros(UNITS)))


@given(st.integers(0, 2**16))
def test_engines_agree_on_states_and_gradients_to_the_last_bit(seed):
    maps, first = transitions(seed), jnp.array([0.0, -2.0, 1.0])
    weights = jnp.round(3 * jax.random.normal(jax.random.key(seed), (STEPS, UNITS)))

    def loss(drive, first, name):
        given_ = Saturating(Affine(maps.affine.decay, drive), maps.low, maps.high)
        with engine(name):
            states, _ = unroll(given_, first)
        return (states * weights).sum(), states

    gradients = jax.jit(jax.grad(loss, argnums=(0, 1), has_aux=True), static_argnums=2)
    one, two = (gradients(maps.affine.drive, first, name) for name in ("sequential", "parallel"))
    jax.tree.map(np.testing.assert_array_equal, one, two)


@pytest.mark.parametrize(
    ("h", "decay", "drive"), [(0.0, 1.0, 1.0), (1.0, 1.0, 1.0), (2.0, 0.0, 2.0), (-4.0, 0.0, 0.0)]
)
def test_around_a_state_it_is_affine(h, decay, drive):
    """One up, between 0 and 2: free, arriving at the top, held there, and lifted to the bottom."""
    one, low, high = (jnp.array([x]) for x in (1.0, 0.0, 2.0))
    affine = Saturating(Affine(one, one), low, high).at(jnp.array([h]))
    assert (float(affine.decay[0]), float(affine.drive[0])) == (decay, drive)


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
