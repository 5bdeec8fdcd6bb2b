"""Sequences that do work once per distinct input, and only where somebody reads.

A step of most tasks is one of few values: 2 bits, 16 symbols, 256 grey levels. What acts on each
step by itself depends on the value alone, the positional part depends on the position alone, and a
linear map of a sum is a sum. So a sequence is either

- `Dense(values)`: every step written out, or
- `Indexed`: step t of sequence b is `rows[ids[b, t]] + table[t] @ mix`.

A norm of that sum still separates, but for one number per value and position:
LayerNorm(u + v) = ((u - mean u) + (v - mean v)) / sigma(u, v), and the variance needs only the
lengths of u and v and the angle between them. So after a norm, step t is
`gain[ids[b, t], t] * (rows[ids[b, t]] + table[t] @ mix) + shift`.

Both kinds answer to the same methods, so a model is written once, and nothing of size (b, t, m)
exists until something else mixes values and positions nonlinearly.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from persistor.arrays import Array, Bool, Float, Int
from persistor.layers import EPSILON, LayerNorm, Linear, over

Pointwise = Callable[[Array], Array]


class Dense(eqx.Module):
    """A sequence written out: `values[..., t, :]` is step t."""

    values: Float[Array, "*b t m"]

    @property
    def steps(self) -> int:
        """The number of steps, padding included."""
        return self.values.shape[-2]

    @property
    def batch(self) -> tuple[int, ...]:
        """The leading axes."""
        return self.values.shape[:-2]

    def map(self, f: Pointwise) -> Dense:
        """Apply `f`, which acts on each step by itself."""
        return Dense(f(self.values))

    def linear(self, layer: Linear) -> Dense:
        """Apply a linear layer to each step."""
        return Dense(layer(self.values))

    def normalise(self, layer: LayerNorm) -> Dense:
        """Apply a layer norm to each step."""
        return Dense(layer(self.values))

    def add_positions(self, table: Float[Array, "t w"], mix: Float[Array, "w m"]) -> Dense:
        """Add `table[t] @ mix` to step t."""
        return Dense(self.values + _over_batch(table @ mix, self.batch))

    def head(self, steps: int) -> Dense:
        """The first steps."""
        return Dense(self.values[..., :steps, :])

    def last(self, lengths: Int[Array, "*b"] | None) -> Dense:
        """The last step of each sequence, as a sequence of one step."""
        if lengths is None:
            return Dense(self.values[..., -1:, :])
        index = (lengths - 1)[..., None, None]
        return Dense(jnp.take_along_axis(self.values, index, axis=-2))

    def dense(self) -> Float[Array, "*b t m"]:
        """Every step written out."""
        return self.values


class Positions(eqx.Module):
    """The positional part of an indexed sequence, and the norm of the sum if there was one."""

    table: Float[Array, "t w"]
    mix: Float[Array, "w m"]
    gain: Float[Array, "k t"] | None = None
    shift: Float[Array, " m"] | None = None


class Indexed(eqx.Module):
    """A sequence of few distinct values: step t of sequence b is made from `rows[ids[b, t]]`."""

    rows: Float[Array, "k m"]
    ids: Int[Array, "*b t"]
    positions: Positions | None = None

    @property
    def steps(self) -> int:
        """The number of steps, padding included."""
        return self.ids.shape[-1]

    @property
    def batch(self) -> tuple[int, ...]:
        """The leading axes."""
        return self.ids.shape[:-1]

    def map(self, f: Pointwise) -> Dense | Indexed:
        """Apply `f`, which acts on each step by itself: once per row while positions are apart."""
        if self.positions is not None:
            return Dense(self.dense()).map(f)
        return Indexed(f(self.rows), self.ids)

    def linear(self, layer: Linear) -> Indexed:
        """Apply a linear layer: to the rows and to the positions' mix, whatever the length."""
        positions = self.positions
        if positions is None:
            return Indexed(layer(self.rows), self.ids)
        mix = positions.mix @ layer.weight
        if positions.shift is None:
            return Indexed(layer(self.rows), self.ids, Positions(positions.table, mix))
        shifted = Positions(positions.table, mix, positions.gain, layer(positions.shift))
        return Indexed(self.rows @ layer.weight, self.ids, shifted)

    def normalise(self, layer: LayerNorm) -> Dense | Indexed:
        """Apply a layer norm: one number per value and position, the rest as before."""
        positions = self.positions
        if positions is None or positions.gain is not None:
            return self.map(layer)
        table = positions.table
        rows = self.rows - self.rows.mean(-1, keepdims=True)
        mix = positions.mix - positions.mix.mean(-1, keepdims=True)
        of_rows = jnp.square(rows).mean(-1)[:, None]
        of_positions = ((table @ (mix @ mix.T)) * table).sum(-1)[None, :] / rows.shape[-1]
        of_both = (rows @ mix.T) @ table.T / rows.shape[-1]
        variance = jnp.maximum(of_rows + of_positions + 2 * of_both, 0.0)
        gain = jax.lax.rsqrt(variance + EPSILON)
        scaled = Positions(table, mix * over(layer.scale, mix), gain, layer.shift)
        return Indexed(rows * over(layer.scale, rows), self.ids, scaled)

    def add_positions(self, table: Float[Array, "t w"], mix: Float[Array, "w m"]) -> Indexed:
        """Add `table[t] @ mix` to step t, without writing it out."""
        if self.positions is not None:
            raise ValueError("this sequence has its positions already")
        return Indexed(self.rows, self.ids, Positions(table, mix))

    def head(self, steps: int) -> Indexed:
        """The first steps, of a sequence that has no positions yet."""
        if self.positions is not None:
            raise ValueError("this sequence has its positions already")
        return Indexed(self.rows, self.ids[..., :steps])

    def last(self, lengths: Int[Array, "*b"] | None) -> Dense:
        """The last step of each sequence, as a sequence of one step."""
        if lengths is None:
            lengths = jnp.full(self.batch, self.steps, self.ids.dtype)
        index = (lengths - 1)[..., None]
        ids = jnp.take_along_axis(self.ids, index, axis=-1)
        if self.positions is None:
            return Dense(self.rows[ids])
        return Dense(self._sum(ids, self.positions.table[index] @ self.positions.mix, index))

    def dense(self) -> Float[Array, "*b t m"]:
        """Every step written out."""
        if self.positions is None:
            return self.rows[self.ids]
        offsets = _over_batch(self.positions.table @ self.positions.mix, self.batch)
        index = jnp.arange(self.steps).reshape((1,) * len(self.batch) + (self.steps,))
        return self._sum(self.ids, offsets, index)

    def _sum(self, ids: Array, offsets: Array, index: Array) -> Array:
        """The steps with these ids and positions, written out."""
        total = self.rows[ids] + offsets
        positions = self.positions
        if positions is None or positions.gain is None or positions.shift is None:
            return total
        return positions.gain[ids, index][..., None] * total + over(positions.shift, total)


Sequence = Dense | Indexed


def inside(lengths: Int[Array, "*b"], steps: int) -> Bool[Array, "*b t"]:
    """Which steps belong to their sequence; the others are padding."""
    index = jnp.arange(steps, dtype=lengths.dtype)
    return index.reshape((1,) * lengths.ndim + index.shape) < lengths[..., None]


def _over_batch(offsets: Float[Array, "t m"], batch: tuple[int, ...]) -> Float[Array, "*b t m"]:
    """Offsets for every sequence of a batch.

    Written as a product, so that its gradient is one too: XLA's sum over a leading axis is slow on
    CPUs. The copies are never in memory.
    """
    ones = jnp.ones((math.prod(batch), 1), offsets.dtype)
    return (ones @ offsets.reshape((1, -1))).reshape((*batch, *offsets.shape))
