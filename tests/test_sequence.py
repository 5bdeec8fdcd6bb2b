"""Dense and Indexed, with or without a shared rest, are ways to write the same sequence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from persistor.nn.layers import LayerNorm, Linear
from persistor.nn.sequence import Dense, Indexed

VALUES, STEPS, WIDTH, ENCODING = 5, 11, 6, 4


@pytest.fixture(params=["plain", "positions", "normalised"])
def operate(request, key):
    """The operations of a block before its cell."""
    table, mix, norm, linear = jax.random.split(key, 4)
    table = jax.random.normal(table, (STEPS, ENCODING))
    mix = jax.random.normal(mix, (ENCODING, WIDTH))
    scale, shift = 1 + 0.3 * jax.random.normal(norm, (2, WIDTH))
    layer = LayerNorm(WIDTH)
    layer = jax.tree.unflatten(jax.tree.structure(layer), [scale, shift])

    def operate(xs):
        if request.param != "plain":
            xs = xs.add_positions(table, mix)
        if request.param == "normalised":
            xs = xs.normalise(layer)
        return xs.linear(Linear(WIDTH, 4, key=linear))

    return operate


@pytest.fixture(params=[None, 1, 4])
def pair(request, operate, key):
    """The same sequence in both forms, after the same operations; the rest shared, if any is."""
    rows, ids = jax.random.split(jax.random.fold_in(key, 1))
    own = STEPS if request.param is None else request.param
    indexed = Indexed(
        jax.random.normal(rows, (VALUES, WIDTH)),
        jax.random.randint(ids, (3, own), 0, VALUES, jnp.int32),
        rest=STEPS - own,
    )
    return operate(indexed), operate(Dense(indexed.dense()))


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_they_write_out_the_same(pair):
    indexed, dense = pair
    assert isinstance(indexed, Indexed)
    assert isinstance(dense, Dense)
    assert (indexed.length, indexed.batch) == (dense.length, dense.batch) == (STEPS, (3,))
    close(indexed.dense(), dense.dense())


@pytest.mark.parametrize("lengths", [None, (1, 7, STEPS)])
def test_the_last_step_is_the_same(pair, lengths):
    indexed, dense = pair
    lengths = None if lengths is None else jnp.array(lengths)
    ends = [STEPS] * 3 if lengths is None else lengths.tolist()
    expected = jnp.stack([dense.values[b, e - 1] for b, e in enumerate(ends)])[:, None]
    close(dense.last(lengths).values, expected)
    last = indexed.last(lengths).values
    if indexed.rest and lengths is None:
        assert last.shape == (1, 1, 4)  # once for all
    close(jnp.broadcast_to(last, expected.shape), expected)


def test_a_pointwise_map_is_the_same(pair):
    indexed, dense = pair
    close(indexed.map(jnp.tanh).dense(), dense.map(jnp.tanh).dense())


def test_a_norm_of_a_norm_is_the_same(pair):
    indexed, dense = pair
    close(indexed.normalise(LayerNorm(4)).dense(), dense.normalise(LayerNorm(4)).dense())


def test_a_shared_rest_is_the_same_for_all(pair):
    indexed, dense = pair
    if not indexed.rest:
        with pytest.raises(ValueError, match="its own"):
            indexed.parts()
        return
    own, rest = indexed.parts()
    close(own.dense(), dense.values[:, : own.length])
    for values in dense.values:
        close(rest.dense(), values[own.length :])
    assert not indexed.whole().rest


def test_positions_are_added_once(key):
    xs = Indexed(jnp.ones((2, 3)), jnp.zeros((4,), jnp.int32))
    table, mix = jnp.ones((4, 2)), jnp.ones((2, 3))
    with pytest.raises(ValueError, match="already"):
        xs.add_positions(table, mix).add_positions(table, mix)
