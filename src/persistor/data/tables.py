"""Time series in tables (.csv, .parquet): one table, or a folder with one for each sequence.

An error says which file, column or row holds what cannot be used.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor._tools.files import reading
from persistor.data.contents import checksum, survey
from persistor.data.series import UNLABELLED, Series, targets_of
from persistor.data.splits import own_folders

TABLES = (".csv", ".parquet")
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
    names, rows = _by_sequence(ids)
    y, classes = _table_targets(path, names, [[labels[i] for i in of_one] for of_one in rows])
    x, lengths = padded([values[of_one] for of_one in rows])
    sums = {"table": checksum(content)}
    y, _ = targets_of(path, y, x, lengths)
    return Series(path, x, y, sums, lengths, classes, names, columns=tuple(columns))


def _by_sequence(ids: Sequence[str]) -> tuple[tuple[str, ...], list[NDArray[np.int64]]]:
    """The sequences that a column names, in the order in which they begin, and the rows of each."""
    names = tuple(dict.fromkeys(ids))
    number = {name: i for i, name in enumerate(names)}
    owner = np.array([number[name] for name in ids], np.int64)
    order = np.argsort(owner, kind="stable")
    return names, np.split(order, np.cumsum(np.bincount(owner))[:-1])


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
    y, _ = targets_of(folder, y, x, lengths)
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


def new_sequences(
    path: Path, columns: Sequence[str], sequence: str = ""
) -> dict[str, NDArray[np.float32]]:
    """The sequences (rows, columns) in one table, to predict from, by name.

    If the table has the column `sequence`, that says which rows belong together; otherwise all do,
    and the sequence has no name.
    """
    table = _table(path, _bytes(path))
    values = _matrix(path, table, _columns(path, table, columns, ()))
    if not sequence or sequence not in table:
        return {"": values}
    names, rows = _by_sequence([str(value) for value in table[sequence]])
    return {name: values[of_one] for name, of_one in zip(names, rows, strict=True)}


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
