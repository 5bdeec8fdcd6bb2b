"""The numbers of `jax.random`, bit for bit, without compiling anything for their shapes.

In JAX each operation on a new shape is a program that must be compiled, and a model has weights of
many shapes: compiling took seconds, drawing takes milliseconds. Number i of an array depends on the
key and on i alone. So one program draws a block of any array of real numbers, NumPy draws keys and
whole numbers, and NumPy does what else a start needs (parts, factors).

Where a key or an array is traced, all of this is plain JAX, so models can be built inside `jit` and
`vmap`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.core
import jax.extend.random
import jax.numpy as jnp
import numpy as np

from persistor.arrays import Array, Float, Int, Key
from persistor.kernels.threefry import NATIVE

KINDS = ("threefry2x32", NATIVE)  # of keys that give the same numbers
BLOCK = 1 << 14  # numbers that a call draws
ROTATIONS = np.array([[13, 15, 26, 6], [17, 29, 16, 24]], np.uint32)
PARITY = np.uint32(0x1BD11BDA)  # with the rotations: Threefry-2x32 (Salmon et al., 2011)
ROOT = np.float32(np.sqrt(2))
CUT = np.float32(2)  # deviations at which LeCun normal weights are cut
Shape = tuple[int, ...]
Index = Any  # whatever indexes an array


def first_key(seed: int) -> Key:
    """`jax.random.key(seed)`, for the 2^32 seeds that it tells apart."""
    if not _counts_one_by_one():
        return jax.random.key(seed)
    return _key_of(np.array([0, seed], np.uint32))


def native(key: Key) -> Key:
    """A key that draws the same numbers natively, also where its use is traced."""
    return jax.random.wrap_key_data(jax.random.key_data(key), impl=NATIVE) if _is_ours(key) else key


def split(key: Key, count: int = 2) -> list[Key]:
    """`jax.random.split`: that many keys."""
    if not _is_ours(key):
        return list(jax.random.split(key, count))
    return [_derived(key, number) for number in range(count)]


def fold_in(key: Key, number: int) -> Key:
    """`jax.random.fold_in`: the key with a number folded into it."""
    return _derived(key, number) if _is_ours(key) else jax.random.fold_in(key, number)


def uniform(key: Key, shape: Shape, low: float = 0.0, high: float = 1.0) -> Float[Array, "..."]:
    """`jax.random.uniform`: between two bounds."""
    if not _is_ours(key):
        return jax.random.uniform(key, shape, minval=low, maxval=high)
    return _drawn(_uniform_block, key, shape, np.float32(low), np.float32(high))


def randint(key: Key, shape: Shape, low: int, high: int) -> Int[Array, "..."]:
    """`jax.random.randint`: whole numbers from `low` to below `high`."""
    if not _is_ours(key):
        return jax.random.randint(key, shape, low, high, jnp.int32)
    high_bits, low_bits = (_bits(k, math.prod(shape)) for k in split(key))
    span = np.uint32(high - low)
    carry = np.uint32((2**16 % (high - low)) ** 2 % 2**32 % (high - low))  # as JAX rounds it
    numbers = (high_bits % span * carry + low_bits % span) % span
    return jax.device_put((numbers.astype(np.int32) + np.int32(low)).reshape(shape))


def normal(key: Key, shape: Shape) -> Float[Array, "..."]:
    """`jax.random.normal`: mean 0, variance 1."""
    if not _is_ours(key):
        return jax.random.normal(key, shape)
    low = np.nextafter(np.float32(-1), np.float32(0))
    return _drawn(_normal_block, key, shape, low, np.float32(1), np.float32(np.inf))


def lecun_normal(key: Key, shape: tuple[int, int]) -> Float[Array, "i o"]:
    """LeCun normal weights: a normal cut at two deviations, with variance 1 / inputs."""
    if not _is_ours(key):
        return jax.nn.initializers.lecun_normal()(key, shape)
    deviation = np.sqrt(np.float32(1 / max(1, shape[0]))) / np.float32(0.87962566103423978)
    high = np.float32(math.erf(CUT / ROOT))
    inside = np.nextafter(CUT, np.float32(0))
    return times(deviation, _drawn(_normal_block, key, shape, -high, high, inside))


def zeros(*shape: int) -> Float[Array, "..."]:
    """As many zeros."""
    return jax.device_put(np.zeros(shape, jax.dtypes.canonicalize_dtype(float)))


def ones(*shape: int) -> Float[Array, "..."]:
    """As many ones."""
    return jax.device_put(np.ones(shape, jax.dtypes.canonicalize_dtype(float)))


def times(
    factor: float | np.floating | np.ndarray, array: Float[Array, "*s"]
) -> Float[Array, "*s"]:
    """The array times a factor."""
    if isinstance(array, jax.core.Tracer):
        return jnp.asarray(factor, array.dtype) * array
    values = np.asarray(array)
    return jax.device_put(values.dtype.type(factor) * values)


def part(array: Array, index: Index) -> Array:
    """`array[index]`."""
    return array[index] if isinstance(array, jax.core.Tracer) else _copied(array, index)


def put(array: Array, index: Index, value: Any) -> Array:
    """The array with another value at an index."""
    if isinstance(array, jax.core.Tracer) or isinstance(value, jax.core.Tracer):
        return array.at[index].set(value)
    values = np.array(array)
    values[index] = value
    return jax.device_put(values)


def _copied(array: Array, index: Index = ...) -> Array:
    """A part of an array in memory of its own."""
    return jax.device_put(np.array(np.asarray(array)[index]))


def copies(tree: Any) -> Any:
    """The same pytree with a copy of every array."""
    return jax.tree.map(lambda x: _copied(x) if isinstance(x, jax.Array) else x, tree)


def _is_ours(key: Key) -> bool:
    """Whether this module can draw from a key."""
    if isinstance(key, jax.core.Tracer) or not _counts_one_by_one():
        return False
    return key.shape == () and jax.random.key_impl(key) in KINDS


def _counts_one_by_one() -> bool:
    """Whether JAX is set as usual: number i of an array follows from i, in single precision."""
    usual = jax.config.jax_default_prng_impl == "threefry2x32"  # pyright: ignore[reportAttributeAccessIssue]
    return usual and jax.config.jax_threefry_partitionable and not jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]


def _derived(key: Key, number: int) -> Key:
    """The key with a number folded in, which is also the split key with that number."""
    words = _threefry(_data(key), np.array([number], np.uint32))
    return _key_of(np.concatenate(words))


def _key_of(words: np.ndarray) -> Key:
    return jax.random.wrap_key_data(jax.device_put(words))


def _data(key: Key) -> np.ndarray:
    return np.asarray(jax.random.key_data(key))


def _threefry(key: np.ndarray, low: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Threefry-2x32 of the pairs (0, low): twenty rounds, and the key again after every four."""
    one, two = key[:1], key[1:]
    schedule = (one, two, one ^ two ^ PARITY)
    x, y = np.broadcast_to(one, low.shape), low + two
    for group in range(5):
        for turn in ROTATIONS[group % 2]:
            x = x + y
            y = (y << turn | y >> 32 - turn) ^ x
        x = x + schedule[(group + 1) % 3]
        y = y + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


def _bits(key: Key, size: int) -> np.ndarray:
    """Random words."""
    x, y = _threefry(_data(key), np.arange(size, dtype=np.uint32))
    return x ^ y


def _drawn(
    block: Callable[..., Array], key: Key, shape: Shape, *arguments: np.float32
) -> Float[Array, "..."]:
    """An array, drawn block by block."""
    size, data = math.prod(shape), _data(key)
    with jax.ensure_compile_time_eval():
        blocks = [block(data, np.uint32(n), *arguments) for n in range(0, size, BLOCK)]
    numbers = np.concatenate([np.zeros(0, np.float32), *map(np.asarray, blocks)])
    return jax.device_put(numbers[:size].reshape(shape))


def _mantissas(data: Array, begin: Array) -> Float[Array, " n"]:
    """Uniform numbers in [0, 1), as many as a block has, from number `begin` on."""
    count = begin + np.arange(BLOCK, dtype=np.uint32)
    counts = jax.lax.concatenate([np.zeros(BLOCK, np.uint32), count], 0)
    pairs = jax.extend.random.threefry_2x32(data, counts)
    bits = pairs[:BLOCK] ^ pairs[BLOCK:]
    floats = jax.lax.shift_right_logical(bits, np.uint32(9)) | np.uint32(0x3F800000)
    return jax.lax.bitcast_convert_type(floats, jnp.float32) - np.float32(1)


def _between(low: Any, high: Any, data: Array, begin: Array) -> Float[Array, " n"]:
    """A block of uniform numbers between two bounds."""
    return jnp.maximum(low, _mantissas(data, begin) * (high - low) + low)


@jax.jit
def _uniform_block(data: Array, begin: Array, low: Array, high: Array) -> Float[Array, " n"]:
    return _between(low, high, data, begin)


@jax.jit
def _normal_block(
    data: Array, begin: Array, low: Array, high: Array, cut: Array
) -> Float[Array, " n"]:
    """Normal numbers, of uniform ones between low and high, and not beyond a cut."""
    normals = ROOT * jax.lax.erf_inv(_between(low, high, data, begin))
    return jnp.clip(normals, -cut, cut)
