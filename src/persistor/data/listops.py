"""The ListOps of Long Range Arena (Tay et al., 2020): 96,000 + 2,000 + 2,000 expressions."""

from __future__ import annotations

import functools
from pathlib import Path

from persistor._tools.errors import PersistorError
from persistor.data import listops_grammar as grammar
from persistor.data.contents import fingerprint
from persistor.data.dataset import SPLITS, DataSet, File
from persistor.data.prepared import Arrays, prepared, read_arrays
from persistor.data.workers import Report

LONGEST = 2_000  # tokens


def _make(folder: Path, report: Report) -> None:
    grammar.write(folder, report=report)


LISTOPS = DataSet(
    name="listops",
    summary="100,000 nested operations on digits, and their values",
    forms=(tuple(File(name) for name, _ in grammar.LRA.files),),
    places=("listops-1000", "lra_release/listops-1000"),
    make=_make,
    sizes=(96_000, 2_000, 2_000),
)


def load(name: str, data: DataSet = LISTOPS) -> grammar.Expressions:
    """The expressions of a split."""
    path, size = data.locate()[SPLITS.index(name)], data.size(name)
    return _read(prepared(f"listops-{name}-{fingerprint(path)}", lambda: _collect(path, size)))


@functools.lru_cache(3)
def _read(path: Path) -> grammar.Expressions:
    return grammar.Expressions(**read_arrays(path))


def _collect(path: Path, size: int) -> Arrays:
    expressions = grammar.read(path)
    if len(expressions) != size:
        raise PersistorError(
            f"{path} has {len(expressions):,} expressions, expected {size:,}; get or make it again"
        )
    if expressions.lengths.max() > LONGEST:
        raise PersistorError(
            f"{path} has an expression of {expressions.lengths.max():,} tokens; the task allows up "
            f"to {LONGEST:,}"
        )
    return {
        "tokens": expressions.tokens,
        "starts": expressions.starts,
        "values": expressions.values,
    }
