"""Speech Commands (Warden, 2018): one-second clips of spoken words, as 13 MFCCs at 101 steps."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor.data.contents import contents, fingerprint
from persistor.data.dataset import DataSet, File
from persistor.data.mfcc import COEFFICIENTS, SAMPLE_RATE, STEPS, mfcc
from persistor.data.prepared import Arrays, prepared, read_arrays
from persistor.data.sounds import one_second, read_sound
from persistor.data.workers import Report, in_order, silent

_FROM = "https://storage.googleapis.com/download.tensorflow.org/data/"
SPEECH = DataSet(
    name="speech-commands",
    summary="one-second clips of 35 spoken words (version 0.02) or 30 (0.01)",
    forms=(
        (
            File(
                "speech_commands_v0.02.tar.gz",
                _FROM + "speech_commands_v0.02.tar.gz",
                "sha256:af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58",
                2_428_923_189,
            ),
        ),
        (File("speech_commands_v0.02_mfcc13.npz"),),
        (File("speech_commands_v0.02"),),
        (File("speech_commands_v0.01_mfcc13.npz"),),
        (
            File(
                "speech_commands_v0.01.tar.gz",
                _FROM + "speech_commands_v0.01.tar.gz",
                "sha256:743935421bb51cccdb6bdd152e04c5c70274e935c82119ad7faeec31780d811d",
                1_489_096_277,
            ),
        ),
        (File("speech_commands_v0.01"),),
    ),
    places=("SpeechCommands",),
)

WORDS = {"0.01": 30, "0.02": 35}  # how many there are, by version
PUBLISHED = "0.02"  # the version in the paper, with 35 words
NOISE = "_background_noise_"
NOISE_EVERY = 1_600  # samples between the starts of two noise clips
TOGETHER = 256  # clips that a process gets at a time
LARGEST = 1 << 23  # bytes; the longest noise file has 3 million
_CLIP = re.compile(rf"([a-z]+|{NOISE})/[^/]+\.wav")


@dataclass(frozen=True)
class Clips:
    """Features of clips, and the word of each; background noise counts as a word."""

    features: NDArray[np.float16]  # (n, 101, 13)
    labels: NDArray[np.uint8]
    words: tuple[str, ...]


def version(data: DataSet = SPEECH) -> str:
    """The version of the stored data; the newer one if there are none."""
    stored = data.found()
    return "0.01" if stored and "v0.01" in stored[0][0].name else "0.02"


def load(data: DataSet = SPEECH, report: Report = silent) -> Clips:
    """The features of all clips, computed once and kept."""
    (path,) = data.locate()
    if path.suffix != ".npz":
        key = f"{path.name.removesuffix('.tar.gz')}_mfcc{COEFFICIENTS}-{fingerprint(path)}"
        path = prepared(key, lambda: _compute(path, report))
    return _read(path)


@functools.lru_cache(1)
def _read(path: Path) -> Clips:
    return _checked(path, read_arrays(path))


def _checked(path: Path, arrays: Arrays) -> Clips:
    missing = {"x", "label", "words"} - set(arrays)
    if missing:
        raise PersistorError(f"{path} has no {sorted(missing)[0]}; it should hold x, label, words")
    x, label, words = arrays["x"], arrays["label"], arrays["words"]
    if label.dtype != np.uint8 or label.ndim != 1 or words.ndim != 1 or words.dtype.kind != "U":
        raise PersistorError(f"{path}: label must be bytes and words must be text")
    expected = (len(label), STEPS, COEFFICIENTS)
    if x.shape != expected or x.dtype != np.float16:
        raise PersistorError(f"{path}: x is {x.dtype} {x.shape}, expected float16 {expected}")
    if not len(label) or label.max() >= len(words) or not np.isfinite(x).all():
        raise PersistorError(f"{path} has a label without a word, or a feature that is not finite")
    return Clips(x, label, tuple(map(str, words)))


def _compute(path: Path, report: Report) -> Arrays:
    features, names = [], []
    clips = _clips(path)
    batches = iter(lambda: list(itertools.islice(clips, TOGETHER)), [])
    for batch in in_order(_features, batches):
        for name, x in batch:
            names.append(name)
            features.append(x)
        report(len(names), 0)
    words = sorted(set(names) - {NOISE}) + [NOISE] * (NOISE in names)
    if not names:
        raise PersistorError(f"{path} holds no clips; get it again from {SPEECH.files[0].url}")
    number = {word: i for i, word in enumerate(words)}
    return {
        "x": np.stack(features).astype(np.float16),
        "label": np.array([number[name] for name in names], np.uint8),
        "words": np.array(words),
    }


def _clips(path: Path) -> Iterator[tuple[str, str, bytes]]:
    """Word, file name and content of every clip."""
    for name, content in contents(path, lambda name: bool(_CLIP.fullmatch(name)), LARGEST):
        yield name.split("/")[0], f"{path}/{name}", content


def _features(clips: list[tuple[str, str, bytes]]) -> list[tuple[str, NDArray[np.float32]]]:
    """Features of some clips; a noise file is cut into clips."""
    named = []
    for word, name, content in clips:
        signal = read_sound(content, name)
        starts = (
            range(0, max(1, len(signal) - SAMPLE_RATE + 1), NOISE_EVERY) if word == NOISE else [0]
        )
        for start in starts:
            named.append((word, mfcc(one_second(signal[start:]))))
    return named
