"""Sequences that do work once per distinct input, and only where somebody reads.

A step of most tasks is one of few values: 2 bits, 16 symbols, 256 grey levels. What acts on each
step by itself depends on the value alone, the positional part depends on the position alone, and a
linear map of a sum is a sum. So a sequence is either

- `Dense(values)`: every step written out, or
- `Indexed`: step t of sequence b is `rows[ids[b, t]] + codes[t] @ mix`.

A norm of that sum still separates, but for one number per value and position:
LayerNorm(u + v) = ((u - mean u) + (v - mean v)) / sigma(u, v), and the variance needs only the
lengths of u and v and the angle between them. So after a norm, step t is
`gain[ids[b, t], t] * (rows[ids[b, t]] + codes[t] @ mix) + shift`.

Where sequences differ in their first steps alone, as in copy-first, and row 0 follows to the end,
`rest` says how often, and what these steps do to a state is computed once for the batch.

Both kinds answer to the same methods, so a model is written once, and nothing of size (b, t, m)
exists until something else mixes values and positions nonlinearly.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from persistor.arrays import Array, Bool, Float, Int
from persistor.nn.layers import LayerNorm, Linear, over

Pointwise = Callable[[Array], Array]


class Dense(eqx.Module):
    """A sequence written out: `values[..., t, :]` is step t."""

    values: Float[Array, "*b t m"]

    @property
    def dtype(self) -> jnp.dtype:
        """The type of its numbers."""
        return self.values.dtype

    @property
    def length(self) -> int:
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

    def add_positions(self, codes: Float[Array, "t w"], mix: Float[Array, "w m"]) -> Dense:
        """Add `codes[t] @ mix` to step t."""
        return Dense(self.values + _over_batch(codes @ mix, self.batch))

    def scaled(self, factors: Sequence) -> Dense:
        """Multiply each step by a number, that of a sequence with one feature."""
        return Dense(self.values * factors.dense())

    def head(self, length: int) -> Dense:
        """The first steps."""
        return Dense(self.values[..., :length, :])

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

    codes: Float[Array, "t w"]
    mix: Float[Array, "w m"]
    gain: Float[Array, "k own"] | None = None  # at the steps that are not shared
    shift: Float[Array, " m"] | None = None
    rest_gain: Float[Array, "1 s"] | None = None  # of row 0, at the steps that all share

    def split(self, own: int) -> tuple[Positions, Positions]:
        """The parts of the first steps and of those that all share."""
        early, late = self.codes[:own], self.codes[own:]
        return (
            Positions(early, self.mix, self.gain, self.shift),
            Positions(late, self.mix, self.rest_gain, self.shift),
        )

    def whole(self) -> Positions:
        """The same with the gain of all steps in `gain`."""
        if self.gain is None or self.rest_gain is None:
            return self
        rest = jnp.broadcast_to(self.rest_gain, (len(self.gain), self.rest_gain.shape[1]))
        gain = jnp.concatenate([self.gain, rest], axis=1)  # of row 0 alone is read there
        return Positions(self.codes, self.mix, gain, self.shift)


class Indexed(eqx.Module):
    """A sequence of few distinct values: step t of sequence b is made from `rows[ids[b, t]]`.

    After the steps of `ids` come `rest` more that all sequences share, made from row 0.
    """

    rows: Float[Array, "k m"]
    ids: Int[Array, "*b t"]
    positions: Positions | None = None
    rest: int = eqx.field(static=True, default=0)

    @property
    def dtype(self) -> jnp.dtype:
        """The type of its numbers."""
        return self.rows.dtype

    @property
    def length(self) -> int:
        """The number of steps, padding included."""
        return self.ids.shape[-1] + self.rest

    @property
    def batch(self) -> tuple[int, ...]:
        """The leading axes."""
        return self.ids.shape[:-1]

    def map(self, f: Pointwise) -> Dense | Indexed:
        """Apply `f`, which acts on each step by itself: once per row while positions are apart."""
        if self.positions is not None:
            return Dense(self.dense()).map(f)
        return self._with(f(self.rows), None)

    def linear(self, layer: Linear) -> Indexed:
        """Apply a linear layer: to the rows and to the positions' mix, whatever the length."""
        positions = self.positions
        if positions is None:
            return self._with(layer(self.rows), None)
        mix = positions.mix @ layer.weight
        if positions.shift is None:
            return self._with(layer(self.rows), Positions(positions.codes, mix))
        shifted = dataclasses.replace(positions, mix=mix, shift=layer(positions.shift))
        return self._with(self.rows @ layer.weight, shifted)

    def normalise(self, layer: LayerNorm) -> Dense | Indexed:
        """Apply a layer norm: one number per value and position, all else as before."""
        positions = self.positions
        if positions is None or positions.gain is not None:
            return self.map(layer)
        codes, own = positions.codes, self.ids.shape[-1]
        rows = self.rows - self.rows.mean(-1, keepdims=True)
        mix = positions.mix - positions.mix.mean(-1, keepdims=True)
        of_rows = jnp.square(rows).mean(-1)[:, None]
        of_positions = ((codes @ (mix @ mix.T)) * codes).sum(-1)[None, :] / rows.shape[-1]
        angles = rows @ mix.T

        def gain(values: slice, times: slice) -> Float[Array, "k s"]:
            of_both = angles[values] @ codes[times].T / rows.shape[-1]
            variance = of_rows[values] + of_positions[:, times] + 2 * of_both
            return jax.lax.rsqrt(jnp.maximum(variance, 0.0) + layer.epsilon)

        rest = gain(slice(0, 1), slice(own, None)) if self.rest else None
        mix = mix * over(layer.scale, mix)
        scaled = Positions(codes, mix, gain(slice(None), slice(0, own)), layer.shift, rest)
        return self._with(rows * over(layer.scale, rows), scaled)

    def add_positions(self, codes: Float[Array, "t w"], mix: Float[Array, "w m"]) -> Indexed:
        """Add `codes[t] @ mix` to step t, without writing it out."""
        if self.positions is not None:
            raise ValueError("this sequence has its positions already")
        return self._with(self.rows, Positions(codes, mix))

    def scaled(self, factors: Sequence) -> Dense | Indexed:
        """Multiply each step by a number, that of a sequence of the same values."""
        positions = self.positions
        if not isinstance(factors, Indexed) or positions is None or positions.gain is not None:
            return Dense(self.dense()).scaled(factors)
        own, rows = self.ids.shape[-1], factors.rows
        gain = jnp.broadcast_to(rows, (len(rows), own))
        rest = jnp.broadcast_to(rows[:1], (1, self.rest)) if self.rest else None
        shift = jnp.zeros(positions.mix.shape[-1], self.rows.dtype)
        return self._with(self.rows, Positions(positions.codes, positions.mix, gain, shift, rest))

    def head(self, length: int) -> Indexed:
        """The first steps, of a sequence that has no positions yet."""
        if self.positions is not None:
            raise ValueError("this sequence has its positions already")
        return Indexed(self.rows, self.whole().ids[..., :length])

    def whole(self) -> Indexed:
        """The same with the ids of all steps in `ids`."""
        if not self.rest:
            return self
        rest = jnp.zeros((*self.batch, self.rest), self.ids.dtype)
        positions = None if self.positions is None else self.positions.whole()
        return Indexed(self.rows, jnp.concatenate([self.ids, rest], axis=-1), positions)

    def parts(self) -> tuple[Indexed, Indexed]:
        """The steps of each sequence, and the rest that all share, which has no leading axes."""
        if not self.rest:
            raise ValueError("every step of this sequence is its own")
        early, late = None, None
        if self.positions is not None:
            early, late = self.positions.split(self.ids.shape[-1])
        rest = jnp.zeros(self.rest, self.ids.dtype)
        return Indexed(self.rows, self.ids, early), Indexed(self.rows[:1], rest, late)

    def last(self, lengths: Int[Array, "*b"] | None) -> Dense:
        """The last step of each sequence, as a sequence of one step.

        Where all share it, it is given once: leading axes of size one.
        """
        if self.rest:
            if lengths is not None:
                return self.whole().last(lengths)
            last = self.parts()[1].last(None).values
            return Dense(last.reshape((1,) * len(self.batch) + last.shape))
        if lengths is None:
            lengths = jnp.full(self.batch, self.length, self.ids.dtype)
        index = (lengths - 1)[..., None]
        ids = jnp.take_along_axis(self.ids, index, axis=-1)
        if self.positions is None:
            return Dense(self.rows[ids])
        return Dense(self._sum(ids, self.positions.codes[index] @ self.positions.mix, index))

    def dense(self) -> Float[Array, "*b t m"]:
        """Every step written out."""
        if self.rest:
            return self.whole().dense()
        if self.positions is None:
            return self.rows[self.ids]
        offsets = _over_batch(self.positions.codes @ self.positions.mix, self.batch)
        index = jnp.arange(self.length).reshape((1,) * len(self.batch) + (self.length,))
        return self._sum(self.ids, offsets, index)

    def _with(self, rows: Float[Array, "k n"], positions: Positions | None) -> Indexed:
        """The same steps, made from other rows and positions."""
        return Indexed(rows, self.ids, positions, self.rest)

    def _sum(self, ids: Array, offsets: Array, index: Array) -> Array:
        """The steps with these ids and positions, written out."""
        total = self.rows[ids] + offsets
        positions = self.positions
        if positions is None or positions.gain is None or positions.shift is None:
            return total
        return positions.gain[ids, index][..., None] * total + over(positions.shift, total)


Sequence = Dense | Indexed


def in_type_of(inputs: Sequence, y: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """Outputs in the type of the inputs, which may be another than that of the parameters."""
    return y.astype(inputs.dtype) if jnp.issubdtype(inputs.dtype, jnp.floating) else y


def in_pieces(f: Callable[[Any], Any], arrays: Any, count: int) -> Any:
    """f(arrays), of arrays with the same first axis, on `count` parts of it one after the other."""
    size = jax.tree.leaves(arrays)[0].shape[0]
    each = -(-size // count)
    if each == size:
        return f(arrays)
    parts = -(-size // each)
    which = jnp.minimum(jnp.arange(parts * each, dtype=jnp.int32), size - 1).reshape(parts, each)
    results = jax.lax.map(lambda part: f(jax.tree.map(lambda a: a[part], arrays)), which)
    return jax.tree.map(lambda a: a.reshape((-1, *a.shape[2:]))[:size], results)


def inside(lengths: Int[Array, "*b"], length: int) -> Bool[Array, "*b t"]:
    """Which steps belong to their sequence; the others are padding."""
    index = jnp.arange(length, dtype=lengths.dtype)
    return index.reshape((1,) * lengths.ndim + index.shape) < lengths[..., None]


def _over_batch(offsets: Float[Array, "t m"], batch: tuple[int, ...]) -> Float[Array, "*b t m"]:
    """Offsets for every sequence of a batch.

    Written as a product, so that its gradient is one too: XLA's sum over a leading axis is slow on
    CPUs. The copies are never in memory.
    """
    ones = jnp.ones((math.prod(batch), 1), offsets.dtype)
    return (ones @ offsets.reshape((1, -1))).reshape((*batch, *offsets.shape))
