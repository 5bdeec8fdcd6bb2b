"""Random words: those of `jax.random`, bit for bit, natively where that can be.

In XLA the twenty rounds of a draw are a dozen small programs that take a tenth of a second to
compile, and a batch draws several times. A key of this kind (`NATIVE`) gives the same numbers.
"""

from __future__ import annotations

import math

import jax
import jax.extend.random
import jax.numpy as jnp

from persistor.arrays import Array
from persistor.kernels.engine import runs_natively
from persistor.kernels.loader import refusal

PLAIN = jax.extend.random.threefry_prng_impl


def _pairs(key: Array, first: Array, count: int) -> tuple[Array, Array]:
    """What a key makes of the pairs (0, first), (0, first + 1), ..; `count` of them."""
    words = jax.ShapeDtypeStruct((count,), jnp.uint32)
    call = jax.ffi.ffi_call("persistor_threefry", (words, words), vmap_method="broadcast_all")
    x, y = call(key, first)
    return x, y


def _runs(key: Array, count: int) -> bool:
    """Whether the kernel can draw so many words in JAX's order."""
    usual = jax.config.jax_threefry_partitionable  # pyright: ignore[reportAttributeAccessIssue]
    return usual and 0 < count < 2**32 and runs_natively(lambda: refusal(key))


def _split(key: Array, shape: tuple[int, ...]) -> Array:
    count = math.prod(shape)
    if not _runs(key, count):
        return PLAIN.split(key, shape)
    return jnp.stack(_pairs(key, jnp.uint32(0), count), -1).reshape(*shape, 2)


def _random_bits(key: Array, bit_width: int, shape: tuple[int, ...]) -> Array:
    count = math.prod(shape)
    if bit_width != 32 or not _runs(key, count):
        return PLAIN.random_bits(key, bit_width, shape)
    x, y = _pairs(key, jnp.uint32(0), count)
    return (x ^ y).reshape(shape)


def _fold_in(key: Array, number: Array | int) -> Array:
    if not _runs(key, 1):
        return PLAIN.fold_in(key, number)  # pyright: ignore[reportArgumentType]
    return jnp.concatenate(_pairs(key, jnp.asarray(number).astype(jnp.uint32), 1))


NATIVE = jax.extend.random.define_prng_impl(
    key_shape=PLAIN.key_shape,
    seed=PLAIN.seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="persistor_threefry2x32",
    tag="pfry",
)
