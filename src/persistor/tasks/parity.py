"""Parity of a bit string (appendix "Modular Arithmetic Tasks")."""

from __future__ import annotations

from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp

from persistor._tools.errors import PersistorError
from persistor.arrays import Array, Int, Key
from persistor.nn.pooling import Pooling
from persistor.nn.sequence import Indexed
from persistor.tasks.task import Batch, Classification, Task, check_length, split_key

TEST_SIZE = 3_200  # the paper's percentages are multiples of 1/32: 50 batches of 64


class Bits(eqx.Module):
    """Padded strings of uniform bits and uniform lengths; example i is drawn from (key, i)."""

    key: Key
    shortest: int = eqx.field(static=True)
    longest: int = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def at(self, indices: Int[Array, " b"]) -> Batch:
        """Draw each example from its own key."""
        bits, lengths = jax.vmap(self._draw)(indices)
        rows = jnp.array([[0.0], [1.0]])
        return Batch(Indexed(rows, bits), bits.sum(-1) % 2, lengths)

    def _draw(self, index: Int[Array, ""]) -> tuple[Int[Array, " t"], Int[Array, ""]]:
        one, two = jax.random.split(jax.random.fold_in(self.key, index))
        length = jax.random.randint(one, (), self.shortest, self.longest + 1, jnp.int32)
        bits = jax.random.bernoulli(two, 0.5, (self.longest,))
        return (bits & (jnp.arange(self.longest) < length)).astype(jnp.int32), length


@dataclass(frozen=True)
class Parity(Task):
    """Is the number of ones odd? Trained on short strings, tested on longer ones."""

    train_lengths: tuple[int, int] = (50, 400)
    test_lengths: tuple[int, int] = (50, 1000)

    name = "parity"
    summary = "is the number of ones odd, on longer strings than in training"
    inputs = 1
    outputs = 2
    objective = Classification()
    pooling = Pooling.LAST
    chance = 0.5

    def __post_init__(self):
        for shortest, longest in (self.train_lengths, self.test_lengths):
            if not 1 <= shortest <= longest:
                raise PersistorError(
                    f"lengths are {shortest} to {longest}; they must be at least 1, shortest first"
                )

    def split(self, name: str) -> Bits:
        """New strings in training and validation, 3,200 fixed ones in the test."""
        shortest, longest = self.test_lengths if name == "test" else self.train_lengths
        size = TEST_SIZE if name == "test" else 2**31 - 1
        return Bits(split_key(name), shortest, longest, size)

    def with_length(self, length: int) -> Parity:
        """The same task, tested on strings of one length."""
        check_length(length)
        return replace(self, test_lengths=(length, length))
