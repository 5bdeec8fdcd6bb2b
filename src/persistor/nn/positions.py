"""The sinusoidal positional encoding (Vaswani et al., 2017), and how a block takes it in."""

from __future__ import annotations

import functools
import os

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load, save

from persistor._tools import programs
from persistor._tools.machine import processors
from persistor.arrays import Array, Float, Int, Key
from persistor.nn.draws import part, split, times
from persistor.nn.layers import Linear, LinearStart
from persistor.nn.sequence import Sequence

ROUNDING = {"float32": 1e-7, "float64": 1e-16}  # root mean square error of an entry of PE
LARGEST = 2**21  # bytes of a table that is kept for the next command
BASE = 10_000.0  # of the slowest wavelength: that of the work that the paper cites


def sinusoid(positions: Int[Array, " t"], width: int, base: float = BASE) -> Float[Array, "t w"]:
    """PE(t): sines then cosines of t * base^(-2 i / width), for i = 0 .. width / 2 - 1."""
    angles = positions.astype(float)[:, None] * frequencies(width, base)[None, :]
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


def frequencies(width: int, base: float = BASE) -> Float[Array, " h"]:
    """base^(-2 i / width), for i = 0 .. width / 2 - 1: radians a step."""
    return base ** (-jnp.arange(0, width, 2, dtype=float) / width)


_sinusoids = jax.jit(sinusoid, static_argnums=(1, 2))


class Encoding(eqx.Module):
    """PE of some steps: `codes`, or `codes @ basis` in fewer coordinates."""

    codes: Float[Array, "t r"]
    basis: Float[Array, "r w"] | None = None

    @property
    def length(self) -> int:
        """The number of steps."""
        return self.codes.shape[0]

    def head(self, length: int) -> Encoding:
        """PE of the first steps."""
        return Encoding(self.codes[:length], self.basis)

    def astype(self, dtype: jnp.dtype) -> Encoding:
        """The same in another precision."""
        basis = None if self.basis is None else self.basis.astype(dtype)
        return Encoding(self.codes.astype(dtype), basis)

    def through(self, mix: Float[Array, "w m"]) -> Float[Array, "r m"]:
        """What turns rows of `codes` into PE(t) @ mix."""
        return mix if self.basis is None else self.basis @ mix


def compact_encoding(length: int, width: int, base: float = BASE) -> Encoding:
    """PE of the first `length` positions, equal to rounding, in as few coordinates as that takes.

    Over t steps all sinusoids with a wavelength well beyond t look alike: of 256 columns, 784
    steps need about 100 and 10,000 steps 170. What costs t w^2 (the variance in a norm) then
    costs a seventh or a half.
    """
    return _compact(length, width, base, jax.dtypes.canonicalize_dtype(float).name)


@functools.lru_cache(maxsize=4)
def _compact(length: int, width: int, base: float, dtype: str) -> Encoding:
    """The same for a type of numbers, which is the default one: double where that is enabled."""
    path = programs.place("positions", str((length, width, base, dtype)), *_linear_algebra())
    data = programs.recall(path)
    if data is None:
        codes, basis = _compacted(length, width, base, dtype)
        data = save({"codes": codes, "basis": basis})
        programs.keep(path if len(data) <= LARGEST else None, data)
    with jax.ensure_compile_time_eval():
        return Encoding(**{name: jax.device_put(array) for name, array in load(data).items()})


def _compacted(length: int, width: int, base: float, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Codes and basis."""
    steps = np.arange(length, dtype=np.int32)
    sinusoids = np.asarray(_sinusoids.lower(steps, width, base).compile()(steps), np.float64)
    weights, axes = np.linalg.eigh(sinusoids.T @ sinusoids)
    left_out = np.cumsum(np.maximum(weights, 0.0))  # squared error without the smallest ones
    axes = axes[:, np.searchsorted(left_out, ROUNDING[dtype] ** 2 * sinusoids.size) :]
    return (sinusoids @ axes).astype(dtype), np.ascontiguousarray(axes.T.astype(dtype))


def _linear_algebra() -> tuple[str, ...]:
    """What the last bits of eigenvectors depend on: versions, and how many threads there are."""
    threads = (f"{k}={v}" for k, v in sorted(os.environ.items()) if k.endswith("_NUM_THREADS"))
    return np.__version__, jax.__version__, str(processors()), *threads


class AddPosition(eqx.Module):
    """Appendix "Positional Encoding": Linear([x_t; PE(t)]), back to the width of x_t.

    A linear map of a concatenation is a sum of two linear maps, so the positional part stays
    apart from the values and costs nothing per sequence.
    """

    values: Linear
    positions: Float[Array, "w m"]

    def __init__(
        self,
        width: int,
        encoding: int,
        *,
        scale: float = 1.0,
        start: LinearStart = "lecun",
        key: Key,
    ):
        both = Linear(width + encoding, width, start=start, key=split(key)[0])
        self.values = eqx.tree_at(lambda layer: layer.weight, both, part(both.weight, slice(width)))
        self.positions = times(scale, part(both.weight, slice(width, None)))

    def __call__(self, xs: Sequence, encoding: Encoding) -> Sequence:
        """Step t becomes Linear([x_t; PE(t)])."""
        xs = xs.linear(self.values)
        if not self.positions.shape[0]:
            return xs
        encoding = encoding.astype(self.positions.dtype)
        return xs.add_positions(encoding.codes, encoding.through(self.positions))
