"""Speech Commands (Warden, 2018): one-second clips of spoken words, as 13 MFCCs at 101 steps."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor.data.contents import contents, fingerprint
from persistor.data.dataset import DataSet, File
from persistor.data.mfcc import COEFFICIENTS, SAMPLE_RATE, STEPS, mfcc
from persistor.data.prepared import Arrays, prepared, read_arrays
from persistor.data.sounds import one_second, read_sound
from persistor.data.splits import LISTS, listed_splits
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
    """Features of clips, and the word of each; background noise counts as a word.

    `splits` says where the publisher's lists put a clip: 0 to train, 1 to validate, 2 to test, 3
    nowhere. Features that were stored without it have None.
    """

    features: NDArray[np.float16]  # (n, 101, 13)
    labels: NDArray[np.uint8]
    words: tuple[str, ...]
    splits: NDArray[np.uint8] | None = None


def version(data: DataSet = SPEECH) -> str:
    """The version of the stored data; the newer one if there are none."""
    stored = data.found()
    return "0.01" if stored and "v0.01" in stored[0][0].name else "0.02"


def load(data: DataSet = SPEECH, report: Report = silent) -> Clips:
    """The features of all clips, computed once and kept."""
    (path,) = data.locate()
    if path.suffix != ".npz":
        key = f"{path.name.removesuffix('.tar.gz')}_mfcc{COEFFICIENTS}-lists-{fingerprint(path)}"
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
    splits = arrays.get("split")
    if splits is not None and (splits.dtype != np.uint8 or splits.shape != label.shape):
        raise PersistorError(f"{path}: split must have a byte for every label")
    return Clips(x, label, tuple(map(str, words)), splits)


def _compute(path: Path, report: Report) -> Arrays:
    features, names, files = [], [], []
    lists: dict[str, str] = {}
    clips = _clips(path, lists)
    batches = iter(lambda: list(itertools.islice(clips, TOGETHER)), [])
    for batch in in_order(_features, batches):
        for file, x in batch:
            files.append(file)
            names.append(file.name.split("/")[0])
            features.append(x)
        report(len(names), 0)
    words = sorted(set(names) - {NOISE}) + [NOISE] * (NOISE in names)
    if not names:
        raise PersistorError(f"{path} holds no clips; get it again from {SPEECH.files[0].url}")
    number = {word: i for i, word in enumerate(words)}
    arrays = {
        "x": np.stack(features).astype(np.float16),
        "label": np.array([number[name] for name in names], np.uint8),
        "words": np.array(words),
    }
    if set(lists) == set(LISTS.values()):
        listed = listed_splits(path, lists)
        splits = [f.split if f.split is not None else listed.get(f.name, 0) for f in files]
        arrays["split"] = np.array(splits, np.uint8)
    return arrays


class _Piece(NamedTuple):
    """A clip, or a piece of background noise and the split of that piece."""

    name: str
    split: int | None = None


def _clips(path: Path, lists: dict[str, str]) -> Iterator[tuple[str, str, bytes]]:
    """Name below the folder, whole name and content of every clip; the lists go into `lists`."""

    def wanted(name: str) -> bool:
        return bool(_CLIP.fullmatch(name)) or name in LISTS.values()

    for name, content in contents(path, wanted, LARGEST):
        if name in LISTS.values():
            lists[name] = content.decode(errors="replace")
        else:
            yield name, f"{path}/{name}", content


def _features(clips: list[tuple[str, str, bytes]]) -> list[tuple[_Piece, NDArray[np.float32]]]:
    """Features of some clips; a noise file is cut into clips."""
    named = []
    for name, whole, content in clips:
        signal = read_sound(content, whole)
        if not name.startswith(NOISE):
            named.append((_Piece(name), mfcc(one_second(signal))))
            continue
        for start in range(0, max(1, len(signal) - SAMPLE_RATE + 1), NOISE_EVERY):
            piece = _Piece(name, _noise_split(start, len(signal)))
            named.append((piece, mfcc(one_second(signal[start:]))))
    return named


def _noise_split(start: int, size: int) -> int:
    """The first 80% of a noise file are to train, then two tenths; 3 if a clip is in two parts."""
    end = min(start + SAMPLE_RATE, size)
    parts = [(10 * place >= 8 * size) + (10 * place >= 9 * size) for place in (start, end - 1)]
    return parts[0] if parts[0] == parts[1] else 3
