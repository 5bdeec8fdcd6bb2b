"""From a file to what a model reads: kept with a model, so that no training data are needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor._tools.files import reading
from persistor.data.mfcc import SAMPLE_RATE
from persistor.data.series import load_npy, new_arrays
from persistor.data.sounds import ENDINGS, Sound, clip_features, decoded
from persistor.data.tables import TABLES, new_sequences

Kind = Literal["sounds", "pixels", "arrays", "table", "text"]
Answer = Literal["class", "numbers", "steps", "next"]
ARRAYS = (".npy", ".npz")
PICTURES = (".png", ".jpg", ".jpeg", ".npy")
FILES: dict[str, tuple[str, ...]] = {
    "sounds": ENDINGS,
    "pixels": PICTURES,
    "arrays": ARRAYS,
    "table": TABLES,
    "text": (".txt",),
}


class Example(NamedTuple):
    """A sequence to predict something about, (t, i), and its name."""

    name: str
    x: NDArray[np.float32]


@dataclass(frozen=True)
class Preparation:
    """How a file becomes a sequence of numbers, and what the outputs of a model mean.

    | kind | files | what the model reads |
    |---|---|---|
    | sounds | whatever `persistor.data.sounds` reads | scaled MFCCs of the first `clip` seconds |
    | pixels | pictures of `height` by `width` | grey levels or colours in [0, 1], in an `order` |
    | arrays | .npy (t, i) or (n, t, i); x, and lengths, in .npz or a folder | scaled numbers |
    | table | .csv, .parquet: one sequence, or those of the column `sequence` | scaled `columns` |
    | text | UTF-8 | one-hot `letters`, at most `longest` |

    The answer is a `class`, some `numbers`, a class at all `steps`, or the `next` letter.
    """

    kind: Kind
    answer: Answer = "class"
    classes: tuple[str, ...] = ()
    inputs: int = 1
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    clip: float = 0.0
    height: int = 0
    width: int = 0
    order: tuple[int, ...] = ()
    columns: tuple[str, ...] = ()
    sequence: str = ""
    letters: tuple[str, ...] = ()
    longest: int = 0

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Preparation:
        """The preparation that `to_json` described."""
        known = {field.name for field in fields(Preparation)}
        if not isinstance(value, Mapping) or set(value) - known:
            raise PersistorError("the description of its inputs is damaged")
        settings: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in value.items()
        }
        if settings.get("kind") not in get_args(Kind):
            raise PersistorError(f"its inputs are {settings.get('kind')!r}; update persistor")
        return Preparation(**settings)

    def to_json(self) -> dict[str, Any]:
        """Plain values, without those that say nothing."""
        values = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
        return {k: v for k, v in values.items() if v or k == "kind"}

    def names(self, outputs: int) -> tuple[str, ...]:
        """What the outputs are called; one without a name has its number."""
        names = self.letters if self.answer == "next" else self.classes
        return names + tuple(map(str, range(len(names), outputs)))

    def read(self, path: Path) -> list[Example]:
        """The sequences in a file: mostly one."""
        if self.kind == "arrays":
            return self._arrays(path)
        if self.kind == "table":
            return self._table(path)
        read = {"sounds": self._sound, "pixels": self._picture}
        sequence = read.get(self.kind, self._text)(path)
        return [Example(str(path), sequence)]

    def given(self, x: Any, name: str = "the input") -> Example:
        """A sequence of numbers (t, i), or samples of a sound at 16 kHz (n,), made ready."""
        array = np.asarray(x)
        if array.dtype.kind not in "fiub":
            raise PersistorError(f"{name} is {array.dtype}; numbers are expected")
        if self.kind == "sounds" and array.ndim == 1:
            return Example(name, self.heard(Sound(_samples(array, name), SAMPLE_RATE)))
        if array.ndim != 2 or array.shape[1] != self.inputs or not len(array):
            raise PersistorError(
                f"{name} has shape {array.shape}; (t, {self.inputs}) is expected, with a step"
            )
        array = _single(array)
        if not np.isfinite(array).all():
            step, feature = np.argwhere(~np.isfinite(array))[0].tolist()
            raise PersistorError(f"{name} is not a finite number at step {step}, feature {feature}")
        return Example(name, self._scaled(array))

    def heard(self, sound: Sound) -> NDArray[np.float32]:
        """What the model reads of a sound: features in half precision, as in training, scaled."""
        return self._scaled(clip_features(sound, self.clip).astype(np.float16).astype(np.float32))

    def _scaled(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        if not self.mean:
            return x
        mean, deviation = np.array([self.mean, self.deviation], np.float32)
        return (x - mean) / deviation

    def _sound(self, path: Path) -> NDArray[np.float32]:
        with reading(path) as file:
            content = file.read()
        try:
            sound = decoded(content)
        except ValueError as error:
            raise PersistorError(f"{path} {error}") from None
        if not len(sound.signal):
            raise PersistorError(f"{path} holds no sound")
        return self.heard(sound)

    def _picture(self, path: Path) -> NDArray[np.float32]:
        picture = load_npy(path) if path.suffix == ".npy" else _image(path)
        if picture.dtype.kind in "iu":
            picture = picture.astype(np.float32) / np.float32(255)
        if self.inputs == 1 and picture.ndim == 3:
            picture = picture[..., :3].mean(-1)
        expected = (self.height, self.width, *([self.inputs] if self.inputs > 1 else []))
        if picture.shape != expected:
            raise PersistorError(f"{path} is a picture of {picture.shape}; {expected} is expected")
        x = self.given(picture.reshape(-1, self.inputs), str(path)).x
        return x[list(self.order)] if self.order else x

    def _table(self, path: Path) -> list[Example]:
        found = new_sequences(path, self.columns, self.sequence)
        names = [str(path) if len(found) == 1 else f"{path}[{name}]" for name in found]
        return [self.given(x, name) for x, name in zip(found.values(), names, strict=True)]

    def _text(self, path: Path) -> NDArray[np.float32]:
        with reading(path) as file:
            content = file.read()
        try:
            return self.spelled(content.decode(), str(path))
        except UnicodeDecodeError as error:
            raise PersistorError(f"{path} is not a text in UTF-8: {error}") from None

    def spelled(self, text: str, name: str = "the text") -> NDArray[np.float32]:
        """What the model reads of a text: a row for each letter, or for each word if spaced."""
        spaced = all(letter.endswith(" ") for letter in self.letters)
        parts: Sequence[str] = [f"{word} " for word in text.split()] if spaced else text
        if len(self.letters) == 256:  # bytes
            parts = text.encode().decode("latin-1")
        number = {letter: i for i, letter in enumerate(self.letters)}
        strange = sorted(set(parts) - set(number))
        if strange or not parts:
            what = f"has {strange[0]!r}, which was not in training" if strange else "is empty"
            raise PersistorError(f"{name} {what}")
        ids = [number[part] for part in parts]
        ids = ids[-self.longest :] if self.answer == "next" else ids[: self.longest or None]
        return np.eye(len(self.letters), dtype=np.float32)[ids]

    def _arrays(self, path: Path) -> list[Example]:
        x, lengths = new_arrays(path)
        ends = [x.shape[1]] * len(x) if lengths is None else lengths.tolist()
        names = [str(path) if len(x) == 1 else f"{path}[{i}]" for i in range(len(x))]
        return [self.given(row[:end], name) for row, end, name in zip(x, ends, names, strict=True)]


def _samples(array: NDArray[Any], name: str) -> NDArray[np.float32]:
    """The samples of a sound in [-1, 1]."""
    if array.dtype == np.int16:
        return array.astype(np.float32) / np.float32(2**15)
    if array.dtype.kind != "f":
        raise PersistorError(
            f"{name} is {array.dtype}; samples of a sound are fractions in [-1, 1], or int16"
        )
    signal = _single(array)
    wrong = np.flatnonzero(~np.isfinite(signal))
    if len(wrong):
        raise PersistorError(f"{name} is not a finite number at sample {wrong[0]}")
    if not len(signal):
        raise PersistorError(f"{name} holds no samples")
    return signal


def _single(array: NDArray[Any]) -> NDArray[np.float32]:
    """In single precision, where too large a number is infinite."""
    with np.errstate(over="ignore"):
        return array.astype(np.float32)


def _image(path: Path) -> NDArray[Any]:
    from matplotlib.image import imread

    try:
        with reading(path) as file:
            return imread(file, path.suffix[1:])
    except (ValueError, OSError, SyntaxError) as error:
        raise PersistorError(f"{path} is not a picture: {error}") from None


def pcm(content: bytes) -> Sound:
    """A sound at 16 kHz from samples of 16 bits, low byte first."""
    samples = np.frombuffer(content[: len(content) // 2 * 2], "<i2").astype(np.float32)
    return Sound(samples / np.float32(2**15), SAMPLE_RATE)


SECOND = 2 * SAMPLE_RATE  # bytes of a second of PCM
