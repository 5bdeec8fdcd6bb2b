"""Texts: film reviews byte by byte, and Shakespeare character by character
(appendix "Natural Language Processing Tasks")."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor.arrays import Array, Int, UInt
from persistor.data import DataSet, imdb, shakespeare
from persistor.nn.pooling import Pooling
from persistor.nn.sequence import Indexed
from persistor.tasks.task import (
    Batch,
    Bucket,
    Classification,
    NextToken,
    Task,
    check_length,
)

BUCKETS = 4  # with about the same number of sequences; a step is compiled once for each


class Ragged(eqx.Module):
    """Token sequences of many lengths, one after another in memory, and their classes.

    They are sorted by length (`of` does this). A batch is as long as the longest sequence may be;
    the rest of a sequence is padding.
    """

    tokens: UInt[Array, " all"]
    starts: Int[Array, " n"]
    lengths: Int[Array, " n"]
    targets: Int[Array, " n"]
    kinds: int = eqx.field(static=True)
    longest: int = eqx.field(static=True)
    buckets: tuple[Bucket, ...] = eqx.field(static=True)

    @classmethod
    def of(
        cls,
        tokens: NDArray[np.uint8],
        starts: NDArray[np.integer],
        lengths: NDArray[np.integer],
        targets: NDArray[Any],
        *,
        kinds: int,
        longest: int,
    ) -> Ragged:
        """From sequences in any order, cut after `longest` tokens."""
        lengths = np.minimum(lengths, longest)
        order = np.argsort(lengths, kind="stable")
        ends = sorted({len(order) * i // BUCKETS for i in range(1, BUCKETS + 1)} - {0})
        return cls(
            tokens=jnp.asarray(tokens),
            starts=jnp.asarray(starts[order], jnp.int32),
            lengths=jnp.asarray(lengths[order], jnp.int32),
            targets=jnp.asarray(targets[order], jnp.int32),
            kinds=kinds,
            longest=longest,
            buckets=tuple(
                Bucket(begin, end, int(lengths[order[end - 1]]))
                for begin, end in itertools.pairwise([0, *ends])
            ),
        )

    @property
    def size(self) -> int:
        """The number of examples."""
        return self.starts.shape[0]

    def at(self, indices: Int[Array, " b"]) -> Batch:
        """One-hot rows: the encoder's linear map is then a learned embedding."""
        times = jnp.arange(self.longest, dtype=jnp.int32)[None, :]
        lengths = self.lengths[indices]
        places = self.starts[indices][:, None] + times
        ids = self.tokens.at[places].get(mode="clip").astype(jnp.int32)
        ids = jnp.where(times < lengths[:, None], ids, 0)
        return Batch(Indexed(jnp.eye(self.kinds), ids), self.targets[indices], lengths)


@dataclass(frozen=True)
class IMDb(Task):
    """Is the review favourable? The first `length` of its bytes, one by one."""

    length: int = 4000

    name = "imdb"
    summary = "is a film review favourable, byte by byte"
    inputs = 256
    outputs = 2
    objective = Classification()
    pooling = Pooling.MEAN
    chance = 0.5
    source = imdb.IMDB
    data = source.name
    letters = tuple(bytes(range(256)).decode("latin-1"))
    classes = ("unfavourable", "favourable")

    def __post_init__(self):
        check_length(self.length)

    def split(self, name: str) -> Ragged:
        """40,000 / 5,000 / 5,000 reviews."""
        reviews, chosen = imdb.load(self.source), imdb.split(name, self.source)
        return Ragged.of(
            reviews.text,
            reviews.starts[chosen],
            np.diff(reviews.starts)[chosen],
            reviews.favourable[chosen],
            kinds=256,
            longest=self.length,
        )


class Windows(eqx.Module):
    """Pieces of one long text: `length` characters each, and the characters that follow them."""

    text: UInt[Array, " all"]
    kinds: int = eqx.field(static=True)
    length: int = eqx.field(static=True)
    apart: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        """The number of examples."""
        return (self.text.shape[0] - self.length - 1) // self.apart + 1

    def at(self, indices: Int[Array, " b"]) -> Batch:
        """Piece i begins at character i * apart."""
        times = jnp.arange(self.length + 1, dtype=jnp.int32)[None, :]
        ids = self.text[indices[:, None] * self.apart + times].astype(jnp.int32)
        return Batch(Indexed(jnp.eye(self.kinds), ids[:, :-1]), ids[:, 1:])


def windows(name: str, text: NDArray[np.uint8], kinds: int, length: int) -> Windows:
    """The first 90%, the next 5% or the last 5% of a text.

    Training sees pieces from anywhere; validation and test go through theirs once.
    """
    begin, end = {"train": (0.0, 0.9), "valid": (0.9, 0.95), "test": (0.95, 1.0)}[name]
    chosen = text[int(begin * len(text)) : int(end * len(text))]
    if len(chosen) <= length:
        raise PersistorError(
            f"a text of {len(text):,} characters is too short: a twentieth of it must be longer "
            f"than a sequence of {length:,}"
        )
    return Windows(jnp.asarray(chosen), kinds, length, 1 if name == "train" else length)


def _numbered(text: bytes) -> NDArray[np.uint8]:
    """Shakespeare's characters as indices into the alphabet."""
    numbers = np.zeros(256, np.uint8)
    numbers[np.frombuffer(shakespeare.ALPHABET, np.uint8)] = np.arange(len(shakespeare.ALPHABET))
    return numbers[np.frombuffer(text, np.uint8)]


@dataclass(frozen=True)
class NextLetter(Task):
    """What is the next character? Asked after every character of a text that a subclass names."""

    length: int = 256

    inputs = len(shakespeare.ALPHABET)
    outputs = len(shakespeare.ALPHABET)
    objective = NextToken()
    pooling = Pooling.NONE
    chance = math.log(len(shakespeare.ALPHABET))
    letters = tuple(shakespeare.ALPHABET.decode())

    source: ClassVar[DataSet]

    def __post_init__(self):
        check_length(self.length)

    def split(self, name: str) -> Windows:
        """90 / 5 / 5% of the text, in one piece each."""
        return windows(name, _numbered(shakespeare.load(self.source)), self.inputs, self.length)


@dataclass(frozen=True)
class Shakespeare(NextLetter):
    """What is the next character? Asked after every character of the complete works."""

    name = "shakespeare"
    summary = "the next character of Shakespeare's complete works"
    source = shakespeare.SHAKESPEARE
    data = source.name


@dataclass(frozen=True)
class TinyShakespeare(NextLetter):
    """What is the next character? Asked after every character of a million from Shakespeare."""

    name = "tinyshakespeare"
    summary = "the next character of an excerpt of Shakespeare"
    source = shakespeare.TINY
    data = source.name
