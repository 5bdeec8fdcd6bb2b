"""Spoken words (appendix "Audio Classification Tasks"): 13 MFCCs at 101 steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor.arrays import Array, Float, Int
from persistor.data import speech
from persistor.nn.pooling import Pooling
from persistor.nn.sequence import Dense
from persistor.tasks.task import Batch, Classification, Objective

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
OTHERS = (speech.NOISE, "no", "up", "down", "left", "right")
SEED = 0


class Features(eqx.Module):
    """Features in half precision, made to have mean 0 and deviation 1 when they are used."""

    features: Float[Array, "n t c"]
    targets: Int[Array, " n"] | Float[Array, "n o"]
    mean: Float[Array, " c"]
    deviation: Float[Array, " c"]

    @classmethod
    def scaled_as(
        cls, seen: NDArray[np.floating], features: NDArray[np.floating], targets: NDArray[Any]
    ) -> Features:
        """Features on the scale of those seen in training."""
        seen = seen.astype(np.float32)
        mean, deviation = seen.mean((0, 1)), np.maximum(seen.std((0, 1)), 1e-6)
        return cls(*map(jnp.asarray, (features, targets, mean, deviation)))

    @property
    def size(self) -> int:
        """The number of examples."""
        return self.features.shape[0]

    def at(self, indices: Int[Array, " b"]) -> Batch:
        """Every coefficient on the scale that it has in training."""
        x = self.features[indices].astype(jnp.float32)
        scaled = (x - self.mean[None, None, :]) / self.deviation[None, None, :]
        return Batch(Dense(scaled), self.targets[indices])


@dataclass(frozen=True)
class KWSDigits:
    """Which digit was spoken, or was it background noise?"""

    version: str = field(default_factory=speech.version)

    summary: ClassVar[str] = "name the spoken digit, or background noise"
    inputs: ClassVar[int] = speech.COEFFICIENTS
    outputs: ClassVar[int] = 11
    objective: ClassVar[Objective] = Classification()
    pooling: ClassVar[Pooling] = Pooling.MEAN
    steps: ClassVar[int] = 35_000
    state: ClassVar[int] = 4
    blocks: ClassVar[int] = 1
    chance: ClassVar[float] = 1 / 11
    data: ClassVar[str | None] = "speech-commands"
    classes: ClassVar[tuple[str, ...]] = (*DIGITS, "noise")

    def __post_init__(self):
        if self.version not in speech.WORDS:
            raise PersistorError(f"version is {self.version}; it is 0.01 or 0.02")

    def groups(self) -> list[dict[str, float]]:
        """The words of each class, and the share of the class that each makes up."""
        return [{word: 1.0} for word in (*DIGITS, speech.NOISE)]

    def split(self, name: str) -> Features:
        """80 / 10 / 10% of as many clips of every class."""
        clips = speech.load()
        if speech.version() != self.version:
            raise PersistorError(
                f"this run is on version {self.version} of Speech Commands; version "
                f"{speech.version()} is there"
            )
        classes = balanced(clips, self.groups())
        train, chosen = (_part(classes, part) for part in ("train", name))
        targets = np.repeat(np.arange(len(chosen), dtype=np.int32), [len(c) for c in chosen])
        seen, kept = (clips.features[np.concatenate(part)] for part in (train, chosen))
        return Features.scaled_as(seen, kept, targets)

    def with_length(self, length: int) -> KWSDigits:
        """A clip has the length it has."""
        raise PersistorError(f"a clip has {speech.STEPS} steps, not {length}; leave the length out")


@dataclass(frozen=True)
class KWSYes(KWSDigits):
    """Was it `yes`, or one of six others?"""

    summary: ClassVar[str] = "was the spoken word yes, or one of six others"
    classes: ClassVar[tuple[str, ...]] = ("other", "yes")
    outputs: ClassVar[int] = 2
    chance: ClassVar[float] = 0.5

    def groups(self) -> list[dict[str, float]]:
        """The others make up a sixth of their class each."""
        return [dict.fromkeys(OTHERS, 1 / len(OTHERS)), {"yes": 1.0}]


@dataclass(frozen=True)
class KWSAll(KWSDigits):
    """Which word was spoken? One of 35; version 0.01 has only 30 of them."""

    summary: ClassVar[str] = "name the spoken word, of 35"
    outputs: ClassVar[int] = 35
    classes: ClassVar[tuple[str, ...]] = ()
    chance: ClassVar[float] = 1 / 35

    def groups(self) -> list[dict[str, float]]:
        """Every word that there is; noise is none."""
        words = [word for word in speech.load().words if word != speech.NOISE]
        if len(words) != speech.WORDS[self.version]:
            raise PersistorError(
                f"there are clips of {len(words)} words, but version {self.version} of Speech "
                f"Commands has {speech.WORDS[self.version]}"
            )
        return [{word: 1.0} for word in words]


def balanced(clips: speech.Clips, groups: list[dict[str, float]]) -> list[list[NDArray[np.int64]]]:
    """Clips of every class in a fixed random order: lists by word, of the same total each."""
    rng = np.random.RandomState(SEED)
    by_word = {}
    for word in sorted({word for group in groups for word in group}):
        if word not in clips.words:
            raise PersistorError(f"there are no clips of {word!r} in {speech.SPEECH.name}")
        by_word[word] = rng.permutation(np.flatnonzero(clips.labels == clips.words.index(word)))
    unit = 10 * max(len(group) for group in groups)  # every part gets the same of every word
    most = min(len(by_word[word]) / share for group in groups for word, share in group.items())
    count = int(most) // unit * unit
    if not count:
        raise PersistorError(f"{int(most)} clips of a class are too few; {unit} are needed")
    return [[by_word[word][: round(count * g[word])] for word in g] for g in groups]


def _part(classes: list[list[NDArray[np.int64]]], name: str) -> list[NDArray[np.int64]]:
    """The clips of every class in a part."""
    begin, end = {"train": (0, 8), "valid": (8, 9), "test": (9, 10)}[name]
    tenth = [[len(order) // 10 for order in orders] for orders in classes]
    return [
        np.concatenate([order[begin * n : end * n] for order, n in zip(orders, ns, strict=True)])
        for orders, ns in zip(classes, tenth, strict=True)
    ]
