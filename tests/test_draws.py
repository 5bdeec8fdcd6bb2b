"""Random numbers are those of `jax.random`, bit for bit, and so are the weights of every model."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import persistor
from persistor import ARCHITECTURES, CELLS, ModelSpec, Pooling
from persistor.nn import draws

SEEDS = st.integers(0, 2**32 - 1)
SHAPES = st.sampled_from([(1,), (3, 5), (1, 700), (257, 129), (0, 4)])


def same(ours, theirs):
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


def words(key):
    return np.asarray(jax.random.key_data(key)).tolist()


@given(SEEDS, st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_keys(seed, count, number):
    key = jax.random.key(np.uint32(seed))
    assert words(draws.first_key(seed)) == words(key)
    assert [words(k) for k in draws.split(key, count)] == words(jax.random.split(key, count))
    folded = jax.random.fold_in(key, np.uint32(number))
    assert words(draws.fold_in(key, number)) == words(folded)


@given(SEEDS, SHAPES)
def test_numbers(seed, shape):
    key = draws.first_key(seed)
    same(draws.normal(key, shape), jax.random.normal(key, shape))
    same(draws.uniform(key, shape), jax.random.uniform(key, shape))
    wide = jax.random.uniform(key, shape, minval=0.81, maxval=6.3)
    same(draws.uniform(key, shape, 0.81, 6.3), wide)
    if len(shape) == 2:
        same(draws.lecun_normal(key, shape), jax.nn.initializers.lecun_normal()(key, shape))


@given(SEEDS, st.integers(-(2**30), 2**30), st.sampled_from([1, 2, 15, 40_000, 100_003, 2**30]))
def test_whole_numbers(seed, low, span):
    key = draws.first_key(seed)
    theirs = jax.random.randint(key, (2, 9), low, low + span, jnp.int32)
    same(draws.randint(key, (2, 9), low, low + span), theirs)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("cell", CELLS)
def test_the_weights_of_a_model_are_those_that_plain_jax_draws(cell, architecture):
    """Under `vmap` keys are traced, and plain JAX computes one operation after the other."""
    spec = ModelSpec((cell,), state_size=3, width=16, architecture=ARCHITECTURES[architecture])

    def weights(key):
        return eqx.filter(spec.build(2, 3, Pooling.LAST, key=key), eqx.is_array)

    key = draws.first_key(11)
    plain = jax.vmap(weights)(key[None])
    jax.tree.map(lambda ours, theirs: same(ours, theirs[0]), weights(key), plain)


def test_a_model_can_be_built_in_a_compiled_function():
    spec = ModelSpec(("lru",), state_size=3, width=16)

    @jax.jit
    def total(key):
        return spec.build(2, 3, Pooling.LAST, key=key).decoder.linear.weight.sum()

    assert np.isfinite(total(draws.first_key(0)))


def test_in_double_precision_and_with_other_generators_it_is_plain_jax():
    key = jax.random.key(3, impl="rbg")
    same(draws.normal(key, (3,)), jax.random.normal(key, (3,)))
    with jax.enable_x64(True):
        key = jax.random.key(3)
        ours = draws.normal(key, (3,))
        assert ours.dtype == jnp.float64
        same(ours, jax.random.normal(key, (3,)))
        assert draws.ones(2).dtype == jnp.float64


def test_copies_do_not_share_memory():
    array = draws.ones(3)
    (copy,) = draws.copies((array,))
    assert copy.unsafe_buffer_pointer() != array.unsafe_buffer_pointer()
    same(draws.put(array, slice(1), 5.0), jnp.array([5.0, 1.0, 1.0]))
    same(array, jnp.ones(3))


DRAWS = {
    "bits": lambda key: jax.random.bits(key, (5, 3)),
    "bytes": lambda key: jax.random.bits(key, (7,), "uint8"),
    "nothing": lambda key: jax.random.bits(key, (0, 4)),
    "uniform": lambda key: jax.random.uniform(key, (257,), minval=-2.0),
    "normal": lambda key: jax.random.normal(key, (129, 2)),
    "bernoulli": lambda key: jax.random.bernoulli(key, 0.3, (999,)),
    "randint": lambda key: jax.random.randint(key, (65,), -3, 1000),
    "split": lambda key: jax.random.key_data(jax.random.split(key, (2, 3))),
    "fold in": lambda key: jax.random.key_data(jax.random.fold_in(key, 2**32 - 1)),
    "keys": lambda key: jax.vmap(lambda k: jax.random.uniform(k, (4,)))(jax.random.split(key, 9)),
    "deep": lambda key: jax.vmap(
        lambda i: jax.vmap(jax.random.bits)(jax.random.split(jax.random.fold_in(key, i), 3))
    )(jnp.arange(5)),
}


@pytest.mark.parametrize("engine", ["auto", "sequential"])
@pytest.mark.parametrize("draw", DRAWS)
def test_a_native_key_draws_the_same(draw, engine):
    """Also where it is traced, by the kernel and without it."""
    key = jax.random.fold_in(jax.random.key(7), 1)
    with persistor.engine(engine):
        found = jax.jit(DRAWS[draw])(draws.native(key))
    same(found, DRAWS[draw](key))


def test_a_native_key_is_split_and_folded_like_another():
    key = draws.native(draws.first_key(3))
    assert [words(k) for k in draws.split(key, 3)] == words(jax.random.split(key, 3))
    assert words(draws.fold_in(key, 5)) == words(jax.random.fold_in(key, 5))
    same(draws.randint(key, (9,), 0, 77), jax.random.randint(key, (9,), 0, 77))
