"""The paper's propositions, on every cell."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from persistor import (
    CELLS,
    Dense,
    PersistorError,
    gradient_flow,
    quantisation_limit,
    state_space_form,
)

NAMES = sorted(CELLS)


@pytest.mark.parametrize("name", sorted(set(CELLS) - {"ladder"}))
def test_the_state_space_form_is_the_cell(name, key):
    """h_t = A(x_t) h_{t-1} + B(x_t) x_t gives the same states."""
    cell = CELLS[name](6, 3, key=key)
    xs = jax.random.normal(key, (10, 6))
    states, _ = cell.states(Dense(xs))
    h = cell.initial_state()
    for x, expected in zip(xs, states, strict=True):
        form = state_space_form(cell, x)
        assert form.b.shape == (3, 6)
        h = form(x, h)
        np.testing.assert_allclose(h, expected, rtol=1e-4, atol=1e-5)


def test_a_cell_that_saturates_has_no_state_space_form(key):
    with pytest.raises(PersistorError, match="Ladder saturates"):
        state_space_form(CELLS["ladder"](6, 3, key=key), jnp.ones(6))


def test_retain_mode_is_the_identity(key):
    """Remark: A = I where z = 0, diag(epsilon) where z = 1."""
    cell = CELLS["cmru"](6, 4, epsilon=0.25, key=key)
    form = state_space_form(cell, jax.random.normal(key, (200, 6)))
    assert set(np.unique(form.a)) == {0.25, 1.0}
    retained = np.asarray(form.a) == 1.0
    assert not np.asarray(form.b)[retained].any()


@pytest.mark.parametrize("name", NAMES)
def test_gradient_flow_is_the_gradient(name, key):
    cell = CELLS[name](6, 3, key=key)
    xs = jax.random.normal(key, (8, 6))
    flow = gradient_flow(cell.transition(xs))
    states, _ = cell.states(Dense(xs))
    for t in range(8):
        tail = xs[t + 1 :]
        if len(tail):
            jacobian = jax.jacobian(lambda h, x=tail: cell(x, h)[1], holomorphic=name == "lru")
            expected = np.abs(np.diag(jacobian(states[t])))
        else:
            expected = np.ones(3)
        np.testing.assert_allclose(flow[t], expected, rtol=1e-4, atol=1e-6)


def test_epsilon_one_lets_every_gradient_through(key):
    xs = jax.random.normal(key, (50, 6))
    assert (gradient_flow(CELLS["cmru"](6, 4, epsilon=1.0, key=key).transition(xs)) == 1).all()


@pytest.mark.parametrize("bits", [1, 2, 4, 7])
def test_the_quantisation_limit_is_what_the_best_quantiser_reaches(bits):
    x = np.linspace(-1, 1, 200_001)
    bins = 2**bits
    middle = (np.floor((x + 1) / 2 * bins).clip(0, bins - 1) + 0.5) * 2 / bins - 1
    np.testing.assert_allclose(np.abs(x - middle).mean(), quantisation_limit(bits), rtol=1e-3)
    assert quantisation_limit(bits) == 1 / 2 ** (bits + 1)


def test_gradient_flow_takes_batches(key):
    transitions = CELLS["lru"](6, 3, key=key).transition(jnp.ones((2, 5, 6)))
    assert gradient_flow(transitions).shape == (2, 5, 3)
