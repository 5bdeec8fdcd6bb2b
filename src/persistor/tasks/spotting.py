"""Keyword spotting with the publisher's own lists of speakers to validate and to test on.

`kws-12` is the usual benchmark of tiny devices (Warden, 2018; MLPerf Tiny): ten words, silence, and
any other word. Training clips vary every time that they are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor.arrays import Array, Float, Int, Key
from persistor.data import mfcc, speech
from persistor.data.dataset import split_number
from persistor.nn.sequence import Dense
from persistor.tasks.keywords import SEED, Features, SpokenWords
from persistor.tasks.task import Batch, computed, split_key

COMMANDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
VARIANTS = 1_000  # of every training clip, on average
BANDS = 32  # of the smooth spectra in which noise is added


@dataclass(frozen=True)
class Variation:
    """How much a clip varies when it is drawn, up to."""

    tempo: float = 0.12  # faster or slower, as a logarithm
    shift: float = 12.0  # frames earlier or later
    loudness: float = 10.0  # decibels louder or softer
    noise: tuple[float, float] = (20.0, 65.0)  # decibels below the loudest frame, from and to
    gap: float = 12.0  # frames that are lost


class Varied(Features):
    """Clips to learn from, every class as often. Example i is drawn from (key, i).

    It is a clip of class i modulo the number of classes, with another tempo, place and loudness,
    with noise, and with a gap. Noise is added in smooth spectra, which are what 13 coefficients
    keep of a sound.
    """

    noise: Float[Array, "k t c"] = field(kw_only=True)
    begins: Int[Array, " classes"] = field(kw_only=True)  # of a class, among the examples
    counts: Int[Array, " classes"] = field(kw_only=True)
    key: Key = field(kw_only=True)
    variation: Variation = eqx.field(kw_only=True, static=True)

    @property
    def size(self) -> int:
        """The number of different examples."""
        return VARIANTS * len(self.features)

    def at(self, indices: Int[Array, " b"]) -> Batch:
        """Draw each example from its own key."""
        keys = jax.vmap(lambda i: jax.random.fold_in(self.key, i))(indices)
        draw = jax.vmap(lambda key: jax.random.uniform(key, (8,)))(keys).T
        classes = indices % len(self.begins)
        which = self.begins[classes] + _below(self.counts[classes], draw[0])
        tempo, shift, louder = (
            most * (2 * uniform - 1)
            for most, uniform in zip(
                (self.variation.tempo, self.variation.shift, self.variation.loudness),
                (draw[1], draw[2], draw[5]),
                strict=True,
            )
        )
        clips = _moved(self.features[which].astype(jnp.float32), jnp.exp(tempo), shift)
        noise = self.noise[_below(len(self.noise), draw[3])].astype(jnp.float32)
        nearest, farthest = self.variation.noise
        x = _with_noise(clips, noise, nearest + (farthest - nearest) * draw[4], louder)
        scaled = (x - self.mean[None, None, :]) / self.deviation[None, None, :]
        x = _with_gap(scaled, draw[6], self.variation.gap * draw[7])
        return Batch(Dense(x), self.targets[which])


def _below(count: Int[Array, " b"] | int, draw: Float[Array, " b"]) -> Int[Array, " b"]:
    """An index below a count."""
    scaled = draw * jnp.asarray(count, draw.dtype)
    return jnp.minimum(scaled.astype(jnp.int32), count - 1)


def _moved(
    x: Float[Array, "b t c"], tempo: Float[Array, " b"], shift: Float[Array, " b"]
) -> Float[Array, "b t c"]:
    """Clips played faster about their middle, and later; the first and last frames go on."""
    last = x.shape[1] - 1
    steps = jnp.arange(last + 1, dtype=x.dtype)[None, :] - last / 2 - shift[:, None]
    places = jnp.clip(steps * tempo[:, None] + last / 2, 0, last)
    before = jnp.minimum(places.astype(jnp.int32), last - 1)
    share = (places - before.astype(x.dtype))[:, :, None]
    rows = jnp.arange(len(x))[:, None]
    return (1 - share) * x[rows, before] + share * x[rows, before + 1]


def _with_noise(
    x: Float[Array, "b t c"],
    noise: Float[Array, "b t c"],
    distance: Float[Array, " b"],
    louder: Float[Array, " b"],
) -> Float[Array, "b t c"]:
    """Clips with noise some decibels below their loudest frame, both made louder."""
    angles = np.pi * np.outer(np.arange(BANDS) + 0.5, np.arange(mfcc.COEFFICIENTS)) / BANDS
    waves = np.cos(angles) * np.where(np.arange(mfcc.COEFFICIENTS), 1.0, np.sqrt(0.5))
    to_levels = jnp.asarray(np.sqrt(2 / mfcc.BANDS) * waves.T, jnp.float32)
    to_coefficients = jnp.asarray(np.sqrt(2 * mfcc.BANDS) / BANDS * waves, jnp.float32)
    level, added = x @ to_levels, noise @ to_levels
    wanted = level.mean(-1).max(-1) - distance
    added = added + (wanted - added.mean((-2, -1)))[:, None, None]
    decibels = 10 / np.log(10)
    both = decibels * jnp.logaddexp(level / decibels, added / decibels)
    return (both + louder[:, None, None]) @ to_coefficients


def _with_gap(
    x: Float[Array, "b t c"], begin: Float[Array, " b"], size: Float[Array, " b"]
) -> Float[Array, "b t c"]:
    """Scaled clips with the mean in place of `size` frames."""
    steps = jnp.arange(x.shape[1], dtype=x.dtype)[None, :] - begin[:, None] * x.shape[1]
    lost = (steps >= 0) & (steps < size[:, None])
    return jnp.where(lost[:, :, None], 0.0, x)


@dataclass(frozen=True)
class ListedWords(SpokenWords):
    """Words in classes, with the published lists. A subclass decides which words are in a class.

    A class of a single word has all its clips; `sampled` classes have a tenth as many as all others
    together when they are validated and tested on, drawn with a fixed seed.
    """

    sampled: ClassVar[tuple[int, ...]] = ()
    variation: ClassVar[Variation] = Variation()

    def split(self, name: str) -> Features:
        """The published split; to train, clips that vary."""
        clips = self.clips()
        groups = self.groups(clips.words)
        train = _of_split(clips, groups, "train")
        chosen = train if name == "train" else self._drawn(_of_split(clips, groups, name))
        targets = np.repeat(np.arange(len(chosen), dtype=np.int32), [len(c) for c in chosen])
        seen, kept = (clips.features[np.concatenate(of)] for of in (train, chosen))
        features = Features.scaled_as(seen, kept, targets)
        if name != "train":
            return features
        (noise,) = _of_split(clips, [{speech.NOISE: 1.0}], name)
        counts = np.array([len(indices) for indices in chosen], np.int32)
        return Varied(
            features.features,
            features.targets,
            features.mean,
            features.deviation,
            noise=jnp.asarray(clips.features[noise]),
            begins=jnp.asarray(np.cumsum(counts, dtype=np.int32) - counts),
            counts=jnp.asarray(counts),
            key=split_key(name),
            variation=self.variation,
        )

    def _drawn(self, chosen: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """The clips of every class, fewer of the sampled ones."""
        others = sum(len(c) for i, c in enumerate(chosen) if i not in self.sampled)
        rng = np.random.RandomState(SEED)
        return [
            np.sort(rng.permutation(c)[: max(1, others // 10)]) if i in self.sampled else c
            for i, c in enumerate(chosen)
        ]


@dataclass(frozen=True)
class KWS12(ListedWords):
    """Which of ten commands was spoken? Or was it another word, or silence?"""

    name = "kws-12"
    summary = "name the command, of ten, or silence, or another word"
    classes = (*COMMANDS, "silence", "unknown")
    sampled = (10, 11)
    outputs = 12
    chance = 1 / 12

    def groups(self, words: tuple[str, ...]) -> list[dict[str, float]]:
        """The ten commands, background noise, and all other words."""
        others = [word for word in words if word not in (*COMMANDS, speech.NOISE)]
        single = [{word: 1.0} for word in (*COMMANDS, speech.NOISE)]
        return [*single, dict.fromkeys(others, 1 / max(1, len(others)))]


@dataclass(frozen=True)
class KWSWords(ListedWords):
    """Which word was spoken? One of 35, or of the 30 of version 0.01."""

    name = "kws-words"
    summary = "name the spoken word, of 35, with the published lists"
    outputs = computed(lambda task: speech.WORDS[task.version])
    chance = computed(lambda task: 1 / task.outputs)

    def groups(self, words: tuple[str, ...]) -> list[dict[str, float]]:
        """Every word is a class; noise is left out."""
        return self.every_word(words)


def _of_split(
    clips: speech.Clips, groups: list[dict[str, float]], name: str
) -> list[NDArray[np.int64]]:
    """The clips of every class in a split."""
    if clips.splits is None:
        raise PersistorError(
            f"the features in {speech.SPEECH.name} do not say which clips the publisher lists; "
            "give the original archive or folder instead"
        )
    chosen = []
    for group in groups:
        numbers = [clips.words.index(word) for word in group if word in clips.words]
        of_class = np.isin(clips.labels, numbers) & (clips.splits == split_number(name))
        if not of_class.any():
            raise PersistorError(
                f"there are no clips of {'/'.join(group) or 'other words'} in {name}"
            )
        chosen.append(np.flatnonzero(of_class))
    return chosen
