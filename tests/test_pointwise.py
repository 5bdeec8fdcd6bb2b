"""The native layer norm and gated linear unit compute what plain JAX computes, gradients too."""

import os
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from persistor.kernels import glu, layer_norm, library
from persistor.kernels.engine import engine
from persistor.model.backbone import Residual
from persistor.nn.layers import NORM_EPSILON, Linear, over

pytestmark = pytest.mark.skipif(library().variant is None, reason=library().reason)

SHAPES = [(4,), (3, 7), (5, 20), (2, 3, 256), (200, 12)]  # the last axis is the layer's


def normal(seed, shape):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def norm_native(x, scale, shift):
    with engine("native"):
        return layer_norm(x, scale, shift, NORM_EPSILON)


def norm_plain(x, scale, shift):
    centred = x - x.mean(-1, keepdims=True)
    deviation = jnp.sqrt(jnp.square(centred).mean(-1, keepdims=True) + NORM_EPSILON)
    return over(scale, x) * (centred / deviation) + over(shift, x)


def glu_native(x, bias):
    with engine("native"):
        return glu(x, bias)


def norm_operands(shape, seed=0):
    return 3 * normal(seed, shape) + 1, normal(1, shape[-1:]) + 2, normal(2, shape[-1:])


def glu_plain(x, bias):
    return jax.nn.glu(x + over(bias, x))


def glu_operands(shape, seed=0):
    wide = (*shape[:-1], 2 * shape[-1])
    return 4 * normal(seed, wide), normal(1, wide[-1:])


LAYERS = {
    "norm": (norm_native, norm_plain, norm_operands),
    "glu": (glu_native, glu_plain, glu_operands),
}


def result_and_gradients(f, operands):
    result, pull = jax.vjp(f, *operands)
    return result, *pull(normal(9, result.shape))


def assert_same(one, two):
    for a, b in zip(one, two, strict=True):
        assert a.shape == b.shape
        scale = max(1.0, float(jnp.abs(b).max()))
        np.testing.assert_allclose(a / scale, b / scale, rtol=0, atol=3e-6)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_native_is_plain(name, shape):
    native, plain, operands = LAYERS[name]
    given = operands(shape)
    assert_same(result_and_gradients(native, given), result_and_gradients(plain, given))


@pytest.mark.parametrize("name", LAYERS)
def test_a_mapped_call_is_the_calls_one_by_one(name):
    native, _, operands = LAYERS[name]
    several = [operands((4, 6), seed) for seed in range(3)]
    together = tuple(map(jnp.stack, zip(*several, strict=True)))
    mapped = jax.vmap(lambda *given: result_and_gradients(native, given))(*together)
    alone = [result_and_gradients(native, given) for given in several]
    assert_same(mapped, tuple(map(jnp.stack, zip(*alone, strict=True))))


def test_large_inputs_stay_finite():
    x = jnp.asarray([[1e4, -1e4, 88.0, -88.0]])
    assert bool(jnp.isfinite(glu(x, jnp.zeros(4))).all())
    operands = (x, jnp.ones(4), jnp.zeros(4))
    assert_same([norm_native(*operands)], [norm_plain(*operands)])


@pytest.mark.slow
def test_the_number_of_threads_does_not_change_a_bit():
    code = """if True:
        import hashlib, jax, jax.numpy as jnp, numpy as np
        from persistor.kernels import glu, layer_norm
        x = jnp.asarray(np.random.default_rng(0).normal(size=(3000, 40)), jnp.float32)
        f = lambda x, s, b: (layer_norm(x, s, s, 1e-6) ** 2).sum() + (glu(x, b) ** 2).sum()
        gradients = jax.grad(f, (0, 1, 2))(x, jnp.ones(40), jnp.zeros(40))
        print(hashlib.sha256(b"".join(np.asarray(g).tobytes() for g in gradients)).hexdigest())
    """
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PERSISTOR_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    }
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("scale", "shift", "wrong"),
    [((5,), (5,), "width"), ((6,), (5,), "shift"), ((2, 6), (2, 6), "ranks")],
)
def test_wrong_shapes_are_refused_before_memory_is_touched(scale, shift, wrong):
    result = jax.ShapeDtypeStruct((2, 6), jnp.float32)
    call = jax.ffi.ffi_call("persistor_norm_forward", result)
    with pytest.raises(Exception, match=f"persistor: wrong {wrong}"):
        call(jnp.ones((2, 6)), jnp.ones(scale), jnp.ones(shift), epsilon=np.float32(1e-6))


def test_two_linear_maps_are_one(key):
    one, two = Linear(3, 5, key=key), Linear(5, 4, key=jax.random.key(1))
    biases = lambda layer: layer.bias  # noqa: E731
    one = eqx.tree_at(biases, one, normal(2, (5,)))
    two = eqx.tree_at(biases, two, normal(3, (4,)))
    x = normal(4, (6, 3))
    np.testing.assert_allclose(one.then(two)(x), two(one(x)), atol=1e-5)


@pytest.mark.parametrize("rows", [1, 40], ids=["apart", "composed"])
def test_an_encoder_that_composes_its_maps_is_the_same_function(rows, key):
    layer = Residual(3, 16, hidden=64, key=key)
    x = normal(0, (rows, 3))

    def plainly(layer, x):
        y = layer.linear(x)
        return y + layer.mlp(y)

    gradient = lambda f: eqx.filter_grad(lambda both: jnp.sin(f(*both)).sum())((layer, x))  # noqa: E731
    np.testing.assert_allclose(layer(x), plainly(layer, x), atol=1e-5)
    one, two = gradient(lambda layer, x: layer(x)), gradient(plainly)
    assert_same(jax.tree.leaves(one), jax.tree.leaves(two))
