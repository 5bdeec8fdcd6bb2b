"""Spoken words (appendix "Audio Classification Tasks"): 13 MFCCs at 101 steps."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor.arrays import Array, Float, Int
from persistor.data import speech
from persistor.data.preparation import Preparation
from persistor.nn.pooling import Pooling
from persistor.nn.sequence import Dense
from persistor.tasks.task import Batch, Classification, Task

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
OTHERS = (speech.NOISE, "no", "up", "down", "left", "right")
SEED = 0


class Features(eqx.Module):
    """Features in half precision, scaled to mean 0 and deviation 1 when they are used."""

    features: Float[Array, "n t c"]
    targets: Int[Array, " n"] | Int[Array, "n t"] | Float[Array, "n o"]
    mean: Float[Array, " c"]
    deviation: Float[Array, " c"]
    lengths: Int[Array, " n"] | None = None

    @classmethod
    def scaled_as(
        cls, seen: NDArray[np.floating], features: NDArray[np.floating], targets: NDArray[Any]
    ) -> Features:
        """Features on the scale of those in the training set."""
        seen = seen.astype(np.float32)
        mean, deviation = seen.mean((0, 1)), np.maximum(seen.std((0, 1)), 1e-6)
        return cls(*map(jnp.asarray, (features, targets, mean, deviation)))

    @property
    def size(self) -> int:
        """The number of examples."""
        return self.features.shape[0]

    def at(self, indices: Int[Array, " b"]) -> Batch:
        """Features with every coefficient scaled as in training."""
        x = self.features[indices].astype(jnp.float32)
        scaled = (x - self.mean[None, None, :]) / self.deviation[None, None, :]
        lengths = None if self.lengths is None else self.lengths[indices]
        return Batch(Dense(scaled), self.targets[indices], lengths)


@dataclass(frozen=True)
class SpokenWords(Task):
    """Which class of words was spoken? A subclass decides which words are in which class."""

    version: str = field(default_factory=speech.version)

    inputs = speech.COEFFICIENTS
    objective = Classification()
    pooling = Pooling.MEAN
    source = speech.SPEECH
    data = source.name
    fixed_length = f"a clip has {speech.STEPS} steps"

    def __post_init__(self):
        if self.version not in speech.WORDS:
            raise PersistorError(f"version is {self.version}; it must be 0.01 or 0.02")

    @abstractmethod
    def groups(self, words: tuple[str, ...]) -> list[dict[str, float]]:
        """For each class, its words and the share of the class that each word makes up."""

    def clips(self) -> speech.Clips:
        """All clips; raise if they are of another version."""
        clips = speech.load(self.source)
        if speech.version(self.source) != self.version:
            raise PersistorError(
                f"this run uses version {self.version} of Speech Commands, but the data folder has "
                f"version {speech.version(self.source)}"
            )
        return clips

    def every_word(self, words: tuple[str, ...]) -> list[dict[str, float]]:
        """A class for each word but noise; raise if some are missing."""
        spoken = [word for word in words if word != speech.NOISE]
        if len(spoken) != speech.WORDS[self.version]:
            raise PersistorError(
                f"there are clips of {len(spoken)} words, but version {self.version} of Speech "
                f"Commands has {speech.WORDS[self.version]}"
            )
        return [{word: 1.0} for word in spoken]

    def preparation(self) -> Preparation:
        """A second of sound; its MFCCs are scaled as in training."""
        clips, train = speech.load(self.source), self.split("train")
        words = tuple("/".join(group) for group in self.groups(clips.words))
        return replace(
            super().preparation(),
            kind="sounds",
            classes=self.classes or words,
            clip=1.0,
            mean=tuple(train.mean.tolist()),
            deviation=tuple(train.deviation.tolist()),
        )

    def split(self, name: str) -> Features:
        """80 / 10 / 10% of the clips, the same number of every class."""
        clips = self.clips()
        classes = balanced(clips, self.groups(clips.words))
        train, chosen = (_of_split(classes, split) for split in ("train", name))
        targets = np.repeat(np.arange(len(chosen), dtype=np.int32), [len(c) for c in chosen])
        seen, kept = (clips.features[np.concatenate(of)] for of in (train, chosen))
        return Features.scaled_as(seen, kept, targets)


@dataclass(frozen=True)
class KWSDigits(SpokenWords):
    """Which digit was spoken, or was it background noise?"""

    name = "kws-digits"
    summary = "name the spoken digit, or background noise"
    classes = (*DIGITS, "noise")
    outputs = 11
    chance = 1 / 11

    def groups(self, words: tuple[str, ...]) -> list[dict[str, float]]:
        """One class for each digit, and one for noise."""
        return [{word: 1.0} for word in (*DIGITS, speech.NOISE)]


@dataclass(frozen=True)
class KWSYes(SpokenWords):
    """Was it `yes`, or one of six others?"""

    name = "kws-yes"
    summary = "was the spoken word yes, or one of six others"
    classes = ("other", "yes")
    outputs = 2
    chance = 0.5

    def groups(self, words: tuple[str, ...]) -> list[dict[str, float]]:
        """Each of the others makes up a sixth of its class."""
        return [dict.fromkeys(OTHERS, 1 / len(OTHERS)), {"yes": 1.0}]


@dataclass(frozen=True)
class KWSAll(SpokenWords):
    """Which word was spoken? One of 35; version 0.01 has only 30 of them."""

    name = "kws-all"
    summary = "name the spoken word, of 35"
    outputs = 35
    chance = 1 / 35

    def groups(self, words: tuple[str, ...]) -> list[dict[str, float]]:
        """Every word is a class; noise is left out."""
        return self.every_word(words)


def balanced(clips: speech.Clips, groups: list[dict[str, float]]) -> list[list[NDArray[np.int64]]]:
    """Clips of every class in a fixed random order, in one list per word; classes are equal."""
    rng = np.random.RandomState(SEED)
    by_word = {}
    for word in sorted({word for group in groups for word in group}):
        if word not in clips.words:
            raise PersistorError(f"there are no clips of {word!r} in {speech.SPEECH.name}")
        by_word[word] = rng.permutation(np.flatnonzero(clips.labels == clips.words.index(word)))
    unit = 10 * max(len(group) for group in groups)  # so that every split has equal shares
    most = min(len(by_word[word]) / share for group in groups for word, share in group.items())
    count = int(most) // unit * unit
    if not count:
        raise PersistorError(f"{int(most)} clips of a class are too few; {unit} are needed")
    return [[by_word[word][: round(count * g[word])] for word in g] for g in groups]


def _of_split(classes: list[list[NDArray[np.int64]]], name: str) -> list[NDArray[np.int64]]:
    """The clips of every class in a split."""
    begin, end = {"train": (0, 8), "valid": (8, 9), "test": (9, 10)}[name]
    tenth = [[len(order) // 10 for order in orders] for orders in classes]
    return [
        np.concatenate([order[begin * n : end * n] for order, n in zip(orders, ns, strict=True)])
        for orders, ns in zip(classes, tenth, strict=True)
    ]
