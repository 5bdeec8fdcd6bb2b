"""Sequences of numbers with something to predict, in arrays (.npz, .npy).

An error says which array, sequence or step holds what cannot be used.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor.data.contents import some, survey
from persistor.data.dataset import SPLITS
from persistor.data.prepared import DAMAGE, Arrays, read_arrays

LARGE = 1 << 30  # bytes of x beyond which a folder of .npy files is read from the disk as needed
UNLABELLED = -1  # the label of a step that has none
FEWEST = 10  # sequences: a tenth of them must be one
_PARTS = ("x", "y", "lengths", "group")
_AT_ONCE = 1 << 25  # bytes looked at together


@dataclass(frozen=True)
class Series:
    """Sequences x (N, T, F), and y: classes (N,) or (N, T), or numbers (N, O)."""

    where: Path
    x: NDArray[Any]
    y: NDArray[Any]
    sums: Mapping[str, str]  # checksums of the files or arrays it comes from
    lengths: NDArray[np.int32] | None = None
    classes: tuple[str, ...] = ()  # their names, if they have names
    names: tuple[str, ...] = ()  # of the sequences, if they have names
    files: tuple[str, ...] = ()  # checksum of the file of each sequence, if each has one
    split: NDArray[np.int64] | None = None
    groups: tuple[str, ...] | None = None
    skipped: Mapping[str, int] | None = None
    columns: tuple[str, ...] = ()

    @property
    def numbers(self) -> bool:
        """Whether numbers are to be predicted, not classes."""
        return self.y.dtype.kind == "f"

    @property
    def per_step(self) -> bool:
        """Whether every step has a class."""
        return not self.numbers and self.y.ndim == 2

    @property
    def outputs(self) -> int:
        """The number of classes, or of numbers to predict."""
        return self.y.shape[1] if self.numbers else int(self.y.max()) + 1

    @property
    def is_large(self) -> bool:
        """Whether x stays on the disk."""
        return isinstance(self.x, np.memmap)

    def labels(self) -> NDArray[np.int64]:
        """The class of each sequence; one and the same if they have none of their own."""
        if self.numbers or self.per_step:
            return np.zeros(len(self.y), np.int64)
        return self.y.astype(np.int64)

    @functools.cached_property
    def contents(self) -> tuple[str, ...]:
        """A checksum of each sequence."""
        if self.files:
            return self.files
        return tuple(
            hashlib.blake2b(row.tobytes(), digest_size=16).hexdigest()
            for _, chunk in chunks(self.x, self.lengths)
            for row in chunk
        )

    def scale(self, chosen: NDArray[np.int64]) -> tuple[list[float], list[float]]:
        """Mean and deviation of each feature over all steps of the chosen sequences."""
        is_chosen = np.zeros(len(self.x), bool)
        is_chosen[chosen] = True
        features = self.x.shape[-1]
        count, total, squares = 0, np.zeros(features), np.zeros(features)
        # Near the mean, so that squares keep their digits.
        shift = np.asarray(self.x[chosen[0]], np.float64)[0]
        for begin, chunk in chunks(self.x, self.lengths):
            rows = slice(begin, begin + len(chunk))
            steps = inside(self.lengths, rows, chunk.shape[1], len(chunk))
            values = chunk[steps & is_chosen[rows, None]].astype(np.float64)
            count += len(values)
            total += (values - shift).sum(0)
            squares += np.square(values - shift).sum(0)
        mean = total / count
        deviation = np.sqrt(np.maximum(squares / count - np.square(mean), 0))
        return (shift + mean).tolist(), np.maximum(deviation, 1e-6).tolist()


def chunks(
    x: NDArray[Any], lengths: NDArray[np.integer] | None
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Some sequences at a time in single precision, with zeros after the end of each."""
    for rows in _slices(x):
        with np.errstate(over="ignore"):
            chunk = np.asarray(x[rows]).astype(np.float32)
        if lengths is not None:
            chunk[~inside(lengths, rows, chunk.shape[1], len(chunk))] = 0
        yield rows.start, chunk


def _slices(array: NDArray[Any]) -> Iterator[slice]:
    """Pieces of the first axis that are small enough to copy."""
    count = len(array) if array.ndim else 0
    step = max(1, _AT_ONCE * count // max(1, array.nbytes))
    for begin in range(0, count, step):
        yield slice(begin, min(begin + step, count))


def inside(
    lengths: NDArray[np.integer] | None, rows: slice, steps: int, count: int
) -> NDArray[np.bool_]:
    """Which steps belong to the sequences."""
    if lengths is None:
        return np.ones((count, steps), bool)
    return np.arange(steps)[None, :] < lengths[rows, None]


# Arrays


def arrays_at(path: Path) -> Series:
    """The arrays of an .npz file, or of a folder of .npy files."""
    arrays = _read(path)
    sums = {name: _array_sum(array) for name, array in arrays.items()}
    arrays, split = _joined(path, arrays)
    x, lengths = arrays["x"], _lengths(path, arrays)
    y, classes = targets_of(path, arrays["y"], x, lengths)
    _check_finite(path, x, lengths)
    if x.nbytes < LARGE or not isinstance(x, np.memmap):
        x = np.concatenate([chunk for _, chunk in chunks(x, lengths)])
    groups = arrays.get("group")
    if groups is not None and groups.shape != (len(x),):
        raise PersistorError(f"{path}: group is {groups.shape}; {(len(x),)} is expected")
    return Series(
        path,
        x,
        y,
        sums,
        lengths,
        classes,
        split=split,
        groups=None if groups is None else tuple(map(str, groups.tolist())),
    )


def new_arrays(path: Path) -> tuple[NDArray[Any], NDArray[np.int32] | None]:
    """x (n, t, f) and lengths, to predict from; what else training may need is left alone."""
    arrays = {"x": load_npy(path)} if path.suffix == ".npy" else _read(path)
    strange = sorted(set(arrays) - {*_PARTS, "split"})
    if strange or "x" not in arrays:
        what = f"{some(strange)}, which is not understood" if strange else some(sorted(arrays))
        raise PersistorError(f"{path} holds {what}; it should hold x, and may hold lengths")
    if arrays["x"].ndim == 2:
        arrays["x"] = arrays["x"][None]
    if arrays["x"].ndim != 3:
        shape = arrays["x"].shape
        raise PersistorError(f"{path}: x has shape {shape}; (n, t, f) or (t, f) is expected")
    return arrays["x"], _lengths(path, arrays)


def _read(path: Path) -> Arrays:
    return _npy_folder(path) if path.is_dir() else read_arrays(path)


def _npy_folder(folder: Path) -> Arrays:
    """The .npy files of a folder, left on the disk."""
    names = survey(folder, (".npy",)).names
    return {name.removesuffix(".npy"): load_npy(folder / name) for name in names}


def load_npy(path: Path) -> NDArray[Any]:
    """The array in a file, left on the disk."""
    try:
        return np.load(path, "r", allow_pickle=False)
    except FileNotFoundError:
        raise PersistorError(f"{path} does not exist") from None
    except DAMAGE as error:
        reason = str(error).split("\n")[0]
        raise PersistorError(f"{path} is not a complete array: {reason}") from None


def _array_sum(array: NDArray[Any]) -> str:
    """The checksum of an array's form and content."""
    digest = hashlib.sha256(f"{array.dtype.str} {array.shape}".encode())
    for rows in _slices(array):
        digest.update(np.ascontiguousarray(array[rows]).tobytes())
    return digest.hexdigest()


def _joined(path: Path, arrays: Arrays) -> tuple[Arrays, NDArray[np.int64] | None]:
    """x, y and what else there is, one array each, and the split of each sequence if given."""
    known = {f"{part}_{split}" for part in _PARTS for split in SPLITS}
    strange = sorted(set(arrays) - {*_PARTS, "split", *known})
    if strange:
        raise PersistorError(
            f"{path} holds {some(strange)}, which is not understood; it should hold x and y, and "
            "may hold lengths, split and group, or x_train, y_train and so on"
        )
    if not known & set(arrays):
        _check_x(path, "x", arrays)
        return arrays, _given_split(path, arrays)
    together = sorted({*_PARTS, "split"} & set(arrays))
    if together:
        raise PersistorError(f"{path} holds {some(together)} beside x_train; keep one of the two")
    parts = [p for p in _PARTS if any(f"{p}_{split}" in arrays for split in SPLITS)]
    expected = dict.fromkeys(["x", "y", *parts])
    for name in (f"{part}_{split}" for split in SPLITS for part in expected):
        if name not in arrays:
            raise PersistorError(f"{path} holds no {name}, but it holds {some(sorted(arrays))}")
    for split in SPLITS:
        _check_x(path, f"x_{split}", arrays)
    try:
        joined = {p: np.concatenate([arrays[f"{p}_{split}"] for split in SPLITS]) for p in parts}
    except ValueError as error:
        raise PersistorError(f"{path}: the three splits do not fit together: {error}") from None
    sizes = [len(arrays[f"x_{split}"]) for split in SPLITS]
    return joined, np.repeat(np.arange(len(SPLITS)), sizes)


def _check_x(path: Path, name: str, arrays: Arrays) -> None:
    y = name.replace("x", "y")
    if not {name, y} <= set(arrays):
        raise PersistorError(f"{path} holds {sorted(arrays)}; it should hold {name} and {y}")
    x = arrays[name]
    if x.ndim != 3 or x.dtype.kind not in "fiu" or 0 in x.shape:
        raise PersistorError(
            f"{path}: {name} is {x.dtype} {x.shape}; numbers (N, T, F) are expected"
        )
    if not arrays[y].ndim or len(arrays[y]) != len(x):
        raise PersistorError(
            f"{path}: {y} is {arrays[y].dtype} {arrays[y].shape}; one class or number for each of "
            f"{len(x)} sequences is expected"
        )


def _given_split(path: Path, arrays: Arrays) -> NDArray[np.int64] | None:
    split = arrays.get("split")
    if split is None:
        return None
    names = split.astype(np.str_) if split.dtype.kind in "US" else np.array([])
    if names.shape != (len(arrays["x"]),) or not set(names.tolist()) <= set(SPLITS):
        raise PersistorError(
            f"{path}: split should hold 'train', 'valid' or 'test' for each of "
            f"{len(arrays['x'])} sequences"
        )
    return np.array([SPLITS.index(name) for name in names.tolist()])


def _lengths(path: Path, arrays: Arrays) -> NDArray[np.int32] | None:
    lengths, (count, steps, _) = arrays.get("lengths"), arrays["x"].shape
    if lengths is None:
        return None
    if lengths.shape != (count,) or lengths.dtype.kind not in "iu":
        raise PersistorError(
            f"{path}: lengths is {lengths.dtype} {lengths.shape}; whole numbers ({count},) are "
            "expected"
        )
    wrong = np.flatnonzero((lengths < 1) | (lengths > steps))
    if len(wrong):
        raise PersistorError(
            f"{path}: lengths is {lengths[wrong[0]]} for sequence {wrong[0]}; it must lie between "
            f"1 and {steps}"
        )
    return lengths.astype(np.int32)


def targets_of(
    path: Path, y: NDArray[Any], x: NDArray[Any], lengths: NDArray[np.int32] | None
) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Classes as numbers (N,) or (N, T), with their names if they have any; or numbers (N, O)."""
    kind, count, steps = y.dtype.kind, len(x), x.shape[1]
    if count < FEWEST:
        raise PersistorError(f"{path} holds {count} sequences; at least {FEWEST} are needed")
    if kind not in "fiubUS" or y.ndim not in (1, 2):
        raise PersistorError(
            f"{path}: y is {y.dtype} {y.shape}; one class or number for each of {count} sequences "
            "is expected, or a class for every step"
        )
    if kind == "f":
        y = y.reshape(count, -1).astype(np.float32)
        wrong = np.argwhere(~np.isfinite(y))
        if len(wrong):
            raise PersistorError(f"{path}: y is not a finite number for sequence {wrong[0][0]}")
        return y, ()
    if y.ndim == 2 and y.shape[1] != steps:
        raise PersistorError(
            f"{path}: y is {y.dtype} {y.shape}; a class for every step would be {(count, steps)}"
        )
    names: tuple[str, ...] = ()
    if kind in "US":
        found, y = np.unique(y.astype(np.str_), return_inverse=True)
        y, names = y.reshape((count, steps)[: y.ndim]), tuple(found.tolist())
    y = y.astype(np.int64)
    if y.ndim == 2 and lengths is not None:
        y = np.where(inside(lengths, slice(None), steps, count), y, UNLABELLED)
    lowest = UNLABELLED if y.ndim == 2 else 0
    if y.min() < lowest or y.max() < 1 or y.max() >= y.size or len(np.unique(y[y >= 0])) < 2:
        raise PersistorError(
            f"{path}: y should hold one class (0, 1, ...) for each sequence or step, and at least "
            "two different ones"
        )
    return y.astype(np.int32), names


def _check_finite(path: Path, x: NDArray[Any], lengths: NDArray[np.int32] | None) -> None:
    for begin, chunk in chunks(x, lengths):
        if np.isfinite(chunk).all():
            continue
        row, step, feature = np.argwhere(~np.isfinite(chunk))[0].tolist()
        raise PersistorError(
            f"{path}: x is not a finite number in sequence {begin + row}, step {step}, feature "
            f"{feature}"
        )
