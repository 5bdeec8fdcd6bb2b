"""Sequences of numbers with something to predict: arrays (.npz, .npy) and tables (.csv, .parquet).

An error says which array, file, row or step holds what cannot be used.
"""

from __future__ import annotations

import csv
import functools
import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor._tools.files import reading
from persistor.data.contents import checksum, some, survey
from persistor.data.dataset import SPLITS
from persistor.data.prepared import DAMAGE, Arrays, read_arrays
from persistor.data.splits import own_folders

LARGE = 1 << 30  # bytes of x beyond which a folder of .npy files is read from the disk as needed
TABLES = (".csv", ".parquet")
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
            steps = _inside(self.lengths, rows, chunk.shape[1], len(chunk))
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
            chunk[~_inside(lengths, rows, chunk.shape[1], len(chunk))] = 0
        yield rows.start, chunk


def _slices(array: NDArray[Any]) -> Iterator[slice]:
    """Pieces of the first axis that are small enough to copy."""
    count = len(array) if array.ndim else 0
    step = max(1, _AT_ONCE * count // max(1, array.nbytes))
    for begin in range(0, count, step):
        yield slice(begin, min(begin + step, count))


def _inside(
    lengths: NDArray[np.integer] | None, rows: slice, steps: int, count: int
) -> NDArray[np.bool_]:
    """Which steps belong to the sequences."""
    if lengths is None:
        return np.ones((count, steps), bool)
    return np.arange(steps)[None, :] < lengths[rows, None]


# Arrays


def arrays_at(path: Path) -> Series:
    """The arrays of an .npz file, or of a folder of .npy files."""
    arrays = _npy_folder(path) if path.is_dir() else read_arrays(path)
    sums = {name: _array_sum(array) for name, array in arrays.items()}
    arrays, split = _joined(path, arrays)
    x, lengths = arrays["x"], _lengths(path, arrays)
    y, classes = _targets(path, arrays["y"], x, lengths)
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


def _npy_folder(folder: Path) -> Arrays:
    """The .npy files of a folder, left on the disk."""
    arrays = {}
    for name in survey(folder, (".npy",)).names:
        try:
            arrays[name.removesuffix(".npy")] = np.load(folder / name, "r", allow_pickle=False)
        except DAMAGE as error:
            reason = str(error).split("\n")[0]
            raise PersistorError(f"{folder / name} is not a complete array: {reason}") from None
    return arrays


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


def _targets(
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
        y = np.where(_inside(lengths, slice(None), steps, count), y, UNLABELLED)
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


# Tables

Table = dict[str, list[Any]]  # columns by name; values as they were read


def table_at(path: Path, columns: Sequence[str], target: str, sequence: str) -> Series:
    """A table with a column that names the sequence, or a folder with a table for each sequence."""
    if path.is_dir():
        return _table_folder(path, columns, target)
    return _one_table(path, columns, target, sequence)


def _one_table(path: Path, columns: Sequence[str], target: str, sequence: str) -> Series:
    if not sequence or not target:
        raise PersistorError(
            f"{path} is one table: give the column that names the sequence, --sequence COLUMN, and "
            "the column to predict, --target COLUMN"
        )
    content = _bytes(path)
    table = _table(path, content)
    labels = _column(path, table, target)
    ids = [str(value) for value in _column(path, table, sequence)]
    columns = _columns(path, table, columns, (target, sequence))
    values = _matrix(path, table, columns)
    names = tuple(dict.fromkeys(ids))
    number = {name: i for i, name in enumerate(names)}
    owner = np.array([number[name] for name in ids], np.int64)
    order = np.argsort(owner, kind="stable")
    ends = np.cumsum(np.bincount(owner))[:-1]
    y, classes = _table_targets(
        path, names, [[labels[i] for i in rows] for rows in np.split(order, ends)]
    )
    x, lengths = padded(np.split(values[order], ends))
    sums = {"table": checksum(content)}
    y, _ = _targets(path, y, x, lengths)
    return Series(path, x, y, sums, lengths, classes, names, columns=tuple(columns))


def _table_folder(folder: Path, columns: Sequence[str], target: str) -> Series:
    found = survey(folder, TABLES)
    depth = 1 if own_folders(found.names) else 0
    names = tuple(n for n in found.names if target or len(n.split("/")) >= depth + 2)
    skipped = dict(found.skipped)
    if len(names) < len(found.names):
        skipped["outside a folder of a class"] = len(found.names) - len(names)
    if not names:
        raise PersistorError(f"{folder} should have one folder of tables for each class")
    values, labels, sums = [], [], {}
    for name in names:
        content = _bytes(folder / name)
        table = _table(folder / name, content)
        columns = _columns(folder / name, table, columns, (target,))
        values.append(_matrix(folder / name, table, columns))
        sums[name] = checksum(content)
        label = [name.split("/")[depth]] if not target else _column(folder / name, table, target)
        labels.append(label * len(values[-1]) if not target else label)
    y, classes = _table_targets(folder, names, labels)
    x, lengths = padded(values)
    y, _ = _targets(folder, y, x, lengths)
    files = tuple(sums[name] for name in names)
    return Series(
        folder,
        x,
        y,
        sums,
        lengths,
        classes,
        names,
        files,
        skipped=skipped,
        columns=tuple(columns),
    )


def padded(values: Sequence[NDArray[np.float32]]) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Sequences of many lengths in one array, with zeros after the end of each."""
    lengths = np.array([len(value) for value in values], np.int32)
    x = np.zeros((len(values), int(lengths.max()), values[0].shape[1]), np.float32)
    for row, value in zip(x, values, strict=True):
        row[: len(value)] = value
    return x, lengths


def read_table(path: Path, columns: Sequence[str]) -> NDArray[np.float32]:
    """The numbers (rows, columns) of one table."""
    table = _table(path, _bytes(path))
    return _matrix(path, table, _columns(path, table, columns, ()))


def _bytes(path: Path) -> bytes:
    with reading(path) as file:
        return file.read()


def _table(path: Path, content: bytes) -> Table:
    table = _parquet(path, content) if path.suffix.lower() == ".parquet" else _csv(path, content)
    if not table or not len(next(iter(table.values()))):
        raise PersistorError(f"{path} holds no rows below a line of column names")
    return table


def _csv(path: Path, content: bytes) -> Table:
    try:
        text = content.decode("utf-8-sig")
        rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise PersistorError(f"{path} is not a table in CSV: {error}") from None
    header = [name.strip() for name in rows[0]] if rows else []
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise PersistorError(f"{path}: two columns are called {twice!r}")
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(header):
            raise PersistorError(
                f"{path}, row {number}: {len(row)} values for {len(header)} columns"
            )
    columns = zip(*rows[1:], strict=True) if len(rows) > 1 else [[] for _ in header]
    return {name: list(column) for name, column in zip(header, columns, strict=True)}


def _parquet(path: Path, content: bytes) -> Table:
    try:
        import pyarrow  # pyright: ignore[reportMissingImports]
        import pyarrow.parquet  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise PersistorError(
            "reading Parquet needs pyarrow; install it with: pip install 'persistor[tables]'"
        ) from None
    try:
        return pyarrow.parquet.read_table(pyarrow.BufferReader(content)).to_pydict()
    except (pyarrow.ArrowException, OSError) as error:
        raise PersistorError(f"{path} is not a complete Parquet file: {error}") from None


def _column(path: Path, table: Table, name: str) -> list[Any]:
    if name not in table:
        raise PersistorError(f"{path} has no column {name!r}; it has {', '.join(table)}")
    return table[name]


def _columns(
    path: Path, table: Table, chosen: Sequence[str], others: tuple[str, ...]
) -> Sequence[str]:
    """The chosen columns, or all that have no other use."""
    columns = chosen or [name for name in table if name not in others]
    for name in columns:
        _column(path, table, name)
    if not columns:
        raise PersistorError(f"{path} has no column for the inputs; choose some with --columns")
    return columns


def _matrix(path: Path, table: Table, columns: Sequence[str]) -> NDArray[np.float32]:
    """The numbers of some columns (rows, columns); an error says where there is none."""
    return np.stack([_numbers(path, name, table[name]) for name in columns], 1)


def _numbers(path: Path, name: str, values: list[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        try:
            numbers = np.array(values, np.float64).astype(np.float32)
        except (ValueError, TypeError):
            numbers = np.array([_number(value) for value in values], np.float32)
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if len(wrong):
        row = int(wrong[0])
        raise PersistorError(
            f"{path}, row {row + 2}: {name} is {values[row]!r}, not a finite number; mend it, or "
            "choose other --columns"
        )
    return numbers


def _number(value: Any) -> float:
    try:
        return float(value)
    except (ValueError, TypeError):
        return float("nan")


def _table_targets(
    path: Path, names: Sequence[str], labels: Sequence[Sequence[Any]]
) -> tuple[NDArray[Any], tuple[str, ...]]:
    """One number or class for each sequence; a class for each step if it changes in a sequence."""
    texts = [["" if v is None else str(v).strip() for v in of_one] for of_one in labels]
    for name, of_one in zip(names, texts, strict=True):
        if "" in of_one:
            raise PersistorError(f"{path}: a label of sequence {name} is empty")
    distinct = sorted({text for of_one in texts for text in of_one})
    values = [_number(text) for text in distinct]
    varies = next((n for n, of in zip(names, texts, strict=True) if len(set(of)) > 1), None)
    if all(map(np.isfinite, values)) and any(value % 1 for value in values):
        if varies is not None:
            raise PersistorError(
                f"{path}: the number to predict changes within sequence {varies}; one number for "
                "each sequence is expected"
            )
        return np.array([float(of_one[0]) for of_one in texts]), ()
    if all(map(np.isfinite, values)):
        distinct = sorted(distinct, key=float)
    number = {text: i for i, text in enumerate(distinct)}
    if varies is None:
        return np.array([number[of_one[0]] for of_one in texts]), tuple(distinct)
    y = np.full((len(texts), max(map(len, texts))), UNLABELLED)
    for row, of_one in zip(y, texts, strict=True):
        row[: len(of_one)] = [number[text] for text in of_one]
    return y, tuple(distinct)
