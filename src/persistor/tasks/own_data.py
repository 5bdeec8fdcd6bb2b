"""Your own data as a task: arrays, a text, or a folder of sounds, under the same protocol.

The experiment holds a digest of the files, so a run can continue only with the same data.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor._tools.files import reading
from persistor.data.contents import contents, fingerprint
from persistor.data.mfcc import COEFFICIENTS, mfcc, one_second, read_sound
from persistor.data.prepared import Arrays, prepared, read_arrays
from persistor.data.workers import in_order
from persistor.nn.pooling import Pooling
from persistor.tasks.keywords import Features
from persistor.tasks.task import (
    Classification,
    NextToken,
    Objective,
    Regression,
    Task,
    check_length,
    computed,
)
from persistor.tasks.text import Windows, windows

FEWEST = 10  # examples: a tenth of them must be one
MOST_LETTERS = 256
SEED = 0
LARGEST = 1 << 26  # bytes of a sound
TOGETHER = 64  # sounds that a process gets at a time
_SOUND = re.compile(r"([^/]+)/[^/]+\.(wav|flac)", re.IGNORECASE)


def own_task(path: Path) -> OwnData:
    """The task on your file or folder."""
    path = path.resolve()
    if not path.exists():
        raise PersistorError(
            f"{path} does not exist; give an .npz file with x and y, a text, or a folder of sounds"
        )
    if path.is_dir():
        names = _sounds(path)["classes"]
        return OwnSounds(str(path), fingerprint(path), tuple(map(str, names)))
    if path.suffix == ".npz":
        x, y = _arrays(path)
        numbers = y.dtype.kind == "f"
        outputs = y.shape[1] if numbers else int(y.max()) + 1
        return OwnArrays(str(path), _digest(path), x.shape[-1], outputs, numbers)
    return OwnText(str(path), _digest(path), "".join(sorted(set(_text(path)))))


@dataclass(frozen=True)
class OwnData(Task):
    """What tasks on your own data share: files that must not change."""

    path: str
    digest: str

    summary = "your own data"
    pooling = Pooling.MEAN

    def _unchanged(self) -> Path:
        path = Path(self.path)
        if not path.exists():
            raise PersistorError(f"{path} no longer exists; this run was started with it")
        if (fingerprint(path) if path.is_dir() else _digest(path)) != self.digest:
            raise PersistorError(
                f"{path} has changed since this run was started; start a new run with --data"
            )
        return path


@dataclass(frozen=True)
class OwnArrays(OwnData):
    """Sequences x (N, T, F) of an .npz file, and y: classes (N,), or numbers (N,) or (N, O)."""

    inputs: int
    outputs: int
    numbers: bool

    name = "own-arrays"

    @computed
    def objective(self) -> Objective:
        """Whole numbers are classes."""
        return Regression() if self.numbers else Classification()

    @computed
    def chance(self) -> float:
        """Of a guess among the classes."""
        return math.inf if self.numbers else 1 / self.outputs

    def split(self, name: str) -> Features:
        """80 / 10 / 10% of the sequences."""
        return _features(name, *_arrays(self._unchanged()))


@dataclass(frozen=True)
class OwnSounds(OwnData):
    """A folder with one folder of sounds for each class: 13 MFCCs of the first second."""

    classes: tuple[str, ...]

    name = "own-sounds"
    inputs = COEFFICIENTS
    objective = Classification()

    @computed
    def outputs(self) -> int:
        """The number of folders."""
        return len(self.classes)

    @computed
    def chance(self) -> float:
        """Of a guess among the classes."""
        return 1 / self.outputs

    def split(self, name: str) -> Features:
        """80 / 10 / 10% of the sounds."""
        sounds = _sounds(self._unchanged())
        return _features(name, sounds["x"], sounds["y"])


@dataclass(frozen=True)
class OwnText(OwnData):
    """The next character of a text, at every step."""

    alphabet: str
    length: int = 256

    name = "own-text"
    objective = NextToken()
    pooling = Pooling.NONE

    def __post_init__(self):
        check_length(self.length)

    @computed
    def letters(self) -> tuple[str, ...]:
        """The characters that occur in the text."""
        return tuple(self.alphabet)

    @computed
    def inputs(self) -> int:
        """The number of different characters."""
        return len(self.alphabet)

    @computed
    def outputs(self) -> int:
        """The same number."""
        return len(self.alphabet)

    @computed
    def chance(self) -> float:
        """Of a guess among the characters."""
        return math.log(self.inputs)

    def split(self, name: str) -> Windows:
        """90 / 5 / 5% of the text, in one piece each."""
        numbers = {letter: i for i, letter in enumerate(self.alphabet)}
        ids = np.array([numbers[letter] for letter in _text(self._unchanged())], np.uint8)
        return windows(name, ids, len(self.alphabet), self.length)


def _digest(path: Path) -> str:
    with reading(path) as file:
        return hashlib.sha256(file.read()).hexdigest()[:16]


def _arrays(path: Path) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """x as (N, T, F) and y as classes (N,) or numbers (N, O); an error if they are not."""
    arrays = read_arrays(path)
    if not {"x", "y"} <= set(arrays):
        raise PersistorError(f"{path} holds {sorted(arrays)}; it should hold x and y")
    x, y = arrays["x"], arrays["y"]
    if x.ndim != 3 or x.dtype.kind not in "fiu" or 0 in x.shape:
        raise PersistorError(f"{path}: x is {x.dtype} {x.shape}; numbers (N, T, F) are expected")
    if y.dtype.kind not in "fiu" or y.ndim not in (1, 2) or len(y) != len(x):
        raise PersistorError(
            f"{path}: y is {y.dtype} {y.shape}; one class or number for each of {len(x)} sequences "
            "is expected"
        )
    x = x.astype(np.float32)
    if not np.isfinite(x).all() or not np.isfinite(y).all():
        raise PersistorError(f"{path} holds a value that is not a finite number")
    if len(x) < FEWEST:
        raise PersistorError(f"{path} holds {len(x)} sequences; at least {FEWEST} are needed")
    if y.dtype.kind == "f":
        return x, y.astype(np.float32).reshape(len(y), -1)
    if y.ndim != 1 or y.min() < 0 or len(np.unique(y)) < 2 or y.max() >= len(y):
        raise PersistorError(f"{path}: y should hold one class (0, 1, ...) for each sequence")
    return x, y.astype(np.int32)


def _features(name: str, x: NDArray[Any], y: NDArray[Any]) -> Features:
    order = np.random.RandomState(SEED).permutation(len(x))
    ends = {"train": (0, 8), "valid": (8, 9), "test": (9, 10)}
    begin, end = (i * len(x) // 10 for i in ends[name])
    seen = x[order[: 8 * len(x) // 10]]
    return Features.scaled_as(seen, x[order[begin:end]], y[order[begin:end]])


def _text(path: Path) -> str:
    with reading(path) as file:
        content = file.read()
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise PersistorError(f"{path} is not a text in UTF-8: {error}") from None
    letters = len(set(text))
    if not 2 <= letters <= MOST_LETTERS:
        raise PersistorError(
            f"{path} has {letters} different characters; 2 to {MOST_LETTERS} are expected"
        )
    return text


def _sounds(folder: Path) -> Arrays:
    """Features, classes and their names, computed once and kept."""
    return read_arrays(prepared(f"sounds-{fingerprint(folder)}", lambda: _sound_features(folder)))


def _sound_features(folder: Path) -> Arrays:
    names, features = [], []
    sounds = contents(folder, lambda name: bool(_SOUND.fullmatch(name)), LARGEST)
    batches = iter(lambda: list(itertools.islice(sounds, TOGETHER)), [])
    for batch in in_order(_features_of_each, batches):
        for name, x in batch:
            names.append(name.split("/")[0])
            features.append(x)
    classes = sorted(set(names))
    if len(classes) < 2 or len(names) < FEWEST:
        raise PersistorError(
            f"{folder} holds {len(names)} sounds of {len(classes)} classes; it should have one "
            f"folder of .wav or .flac files per class, and at least 2 classes and {FEWEST} sounds"
        )
    return {
        "x": np.stack(features).astype(np.float16),
        "y": np.array([classes.index(name) for name in names], np.int32),
        "classes": np.array(classes),
    }


def _features_of_each(sounds: list[tuple[str, bytes]]) -> list[tuple[str, NDArray[np.float32]]]:
    return [(name, mfcc(one_second(read_sound(content, name)))) for name, content in sounds]


OWN_DATA: tuple[type[OwnData], ...] = (OwnArrays, OwnSounds, OwnText)
