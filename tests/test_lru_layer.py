"""The native layer of linear recurrent units computes what states and their read-out compute."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from persistor.cells import LRU
from persistor.kernels import library
from persistor.kernels.engine import engine
from persistor.nn.sequence import Dense

pytestmark = pytest.mark.skipif(library().variant is None, reason=library().reason)

SIZES = [(1, 1, 1, 1), (2, 65, 5, 3), (17, 64, 16, 20), (3, 130, 70, 33)]  # b, t, m, d


def normal(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def limits_of(kind, b, t):
    rng = np.random.default_rng(3)
    lengths = jnp.asarray(rng.integers(0, t + 1, b), jnp.int32)
    resets = jnp.asarray(rng.random((b, t)) < 0.1)
    return {"lengths": lengths, "resets": resets} if kind == "limits" else {}


def problem(b, t, m, d):
    """A layer, its inputs and a first state."""
    cell = LRU(m, d, key=jax.random.key(0))
    return cell, normal(1, b, t, m), jax.lax.complex(normal(2, b, d), normal(4, b, d))


def value_and_gradients(name, cell, x, first, limits):
    def number(arguments):
        cell, x, first = arguments
        with engine(name):
            ys, last = cell(x, first, **limits)
        return jnp.sum(jnp.sin(ys)) + jnp.sum(last.real * jnp.cos(last.imag)), (ys, last)

    (_, results), gradients = eqx.filter_value_and_grad(number, has_aux=True)((cell, x, first))
    return jax.tree.leaves((results, gradients))


def assert_same(one, two, tolerance=1e-5):
    assert len(one) == len(two)
    for a, b in zip(one, two, strict=True):
        scale = max(1.0, float(jnp.abs(b).max()))
        np.testing.assert_allclose(a / scale, b / scale, rtol=0, atol=tolerance)


@pytest.mark.parametrize("limits", ["whole", "limits"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_native_equals_plain_with_gradients(size, limits):
    case = (*problem(*size), limits_of(limits, *size[:2]))
    found, expected = (value_and_gradients(name, *case) for name in ("native", "sequential"))
    assert_same(found, expected)


def test_it_equals_the_states_and_their_read_out():
    cell, x, first = problem(5, 70, 6, 9)
    with engine("native"):
        states, last = cell.states(Dense(x), first)
        assert_same([cell.read(states, Dense(x)), last], cell(x, first))


def test_same_bits_whatever_the_number_of_threads(monkeypatch):
    case = (*problem(33, 100, 8, 20), {})
    results = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("PERSISTOR_THREADS", threads)
        results.append(value_and_gradients("native", *case))
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_vmap_over_sequences_and_layers_is_one_call():
    cells = eqx.filter_vmap(lambda key: LRU(3, 4, key=key))(jax.random.split(jax.random.key(0), 2))
    x = normal(1, 2, 5, 66, 3)

    def gradients(name):
        def loss(cell, x):
            with engine(name):
                return jnp.sum(jnp.sin(cell(x)[0]))

        one = eqx.filter_grad(loss)
        return eqx.filter_vmap(eqx.filter_vmap(one, in_axes=(None, 0)))(cells, x)

    assert_same(*(jax.tree.leaves(gradients(name)) for name in ("native", "sequential")))
    with engine("native"):
        cell = LRU(3, 4, key=jax.random.key(0))
        text = jax.jit(jax.vmap(lambda x: cell(x)[0])).lower(x[0]).as_text()
    assert text.count("persistor_lru_layer_forward") == 1
    assert "while" not in text
