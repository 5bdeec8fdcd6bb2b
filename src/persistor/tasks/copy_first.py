"""Copy the first input: the paper's long-term memory tasks (appendix "Long-Term Memory Tasks")."""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp

from persistor.arrays import Array, Float, Int, Key
from persistor.nn.draws import randint, uniform
from persistor.nn.pooling import Pooling
from persistor.nn.sequence import Dense, Indexed
from persistor.tasks.task import (
    Batch,
    Classification,
    Distinct,
    Regression,
    Task,
    check_length,
    split_key,
)

SIZES = {"train": 10_000, "valid": 2_000, "test": 2_000}
SYMBOLS = 15
GRID = 4_096  # numbers from -1 to 1


def _then_empty(rows: Float[Array, "k i"], ids: Int[Array, " b"], length: int) -> Indexed:
    """Sequences of one first step each, followed by empty steps, which are row 0."""
    return Indexed(rows, ids[:, None], rest=length - 1)


class Symbols(eqx.Module):
    """A one-hot symbol, then zero vectors."""

    symbols: Int[Array, " n"]
    length: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        """The number of examples."""
        return self.symbols.shape[0]

    def at(self, indices: Int[Array, " b"]) -> Batch:
        """Row 0 is the empty step, row 1 + s is symbol s."""
        targets = self.symbols[indices]
        rows = jnp.eye(SYMBOLS + 1, SYMBOLS, k=-1)
        inputs = _then_empty(rows, targets + 1, self.length)
        every = _then_empty(rows, jnp.arange(1, SYMBOLS + 1, dtype=jnp.int32), self.length)
        return Batch(inputs, targets, distinct=Distinct(every, targets))


class Values(eqx.Module):
    """A number in [-1, 1], then zeros."""

    values: Float[Array, " n"]
    length: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        """The number of examples."""
        return self.values.shape[0]

    def at(self, indices: Int[Array, " b"]) -> Batch:
        """Row 0 is the empty step, row 1 + i is the value of the batch's example i."""
        targets = self.values[indices][:, None]
        rows = jnp.concatenate([jnp.zeros((1, 1)), targets])
        ids = jnp.arange(1, len(indices) + 1, dtype=jnp.int32)
        return Batch(_then_empty(rows, ids, self.length), targets)


class NoisyValues(eqx.Module):
    """A number in [-1, 1], then others that do not matter; example i is drawn from (key, i)."""

    key: Key
    length: int = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def at(self, indices: Int[Array, " b"]) -> Batch:
        """Draw each example from its own key."""
        keys = jax.vmap(lambda i: jax.random.fold_in(self.key, i))(indices)
        draw = lambda key: jax.random.uniform(key, (self.length, 1), minval=-1.0)  # noqa: E731
        values = jax.vmap(draw)(keys)
        return Batch(Dense(values), values[:, 0])


class GridValues(eqx.Module):
    """As `NoisyValues`, with every number on a grid, so that equal numbers are computed once."""

    key: Key
    length: int = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def at(self, indices: Int[Array, " b"]) -> Batch:
        """Row i is number i of the grid; each example is drawn from its own key."""
        keys = jax.vmap(lambda i: jax.random.fold_in(self.key, i))(indices)
        draw = lambda key: jax.random.randint(key, (self.length,), 0, GRID, jnp.int32)  # noqa: E731
        ids, rows = jax.vmap(draw)(keys), jnp.linspace(-1.0, 1.0, GRID)[:, None]
        return Batch(Indexed(rows, ids), rows[ids[:, 0]])


@dataclass(frozen=True)
class CopyFirstDiscrete(Task):
    """Name the symbol shown at the first step, one of 15; every other step is empty."""

    length: int = 1000

    name = "copy-first-discrete"
    summary = "name the first of L symbols, the rest being empty"
    inputs = SYMBOLS
    outputs = SYMBOLS
    objective = Classification()
    pooling = Pooling.LAST
    chance = 1 / SYMBOLS

    def __post_init__(self):
        check_length(self.length)

    def split(self, name: str) -> Symbols:
        """10,000 / 2,000 / 2,000 examples."""
        symbols = randint(split_key(name), (SIZES[name],), 0, SYMBOLS)
        return Symbols(symbols, self.length)


@dataclass(frozen=True)
class CopyFirstNumber(Task):
    """Give back the number shown at the first step; a subclass decides what the others show."""

    length: int = 1000

    inputs = 1
    outputs = 1
    objective = Regression()
    pooling = Pooling.LAST
    chance = 0.5

    def __post_init__(self):
        check_length(self.length)


@dataclass(frozen=True)
class CopyFirstClean(CopyFirstNumber):
    """Give back the number shown at the first step; every other step is zero."""

    name = "copy-first-clean"
    summary = "give back the first of L numbers, the rest being zero"

    def split(self, name: str) -> Values:
        """10,000 / 2,000 / 2,000 examples."""
        values = uniform(split_key(name), (SIZES[name],), -1.0)
        return Values(values, self.length)


@dataclass(frozen=True)
class CopyFirstNoisy(CopyFirstNumber):
    """Give back the number shown at the first step; every other step is noise."""

    name = "copy-first-noisy"
    summary = "give back the first of L numbers, the rest being noise"

    def split(self, name: str) -> NoisyValues:
        """10,000 / 2,000 / 2,000 examples."""
        return NoisyValues(split_key(name), self.length, SIZES[name])


@dataclass(frozen=True)
class CopyFirstGrid(CopyFirstNumber):
    """Copy-first-noisy with 4,096 different numbers: our variant, not a task of the paper."""

    name = "copy-first-grid"
    summary = "our variant: the first of L numbers, all of them on a grid of 4,096"
    variant_of = CopyFirstNoisy.name

    def split(self, name: str) -> GridValues:
        """10,000 / 2,000 / 2,000 examples."""
        return GridValues(split_key(name), self.length, SIZES[name])


@dataclass(frozen=True)
class CopyFirstLarge(CopyFirstNumber):
    """Copy-first-noisy for a large network: 6 blocks of 256 units, 5,000 steps."""

    length: int = 5000

    name = "copy-first-large"
    summary = "the same at large scale: 6 blocks, 256 units, 5,000 steps"

    def split(self, name: str) -> NoisyValues:
        """10,000 / 2,000 / 2,000 examples."""
        return NoisyValues(split_key(name), self.length, SIZES[name])
