"""The ListOps of Long Range Arena (Tay et al., 2020): 96,000 + 2,000 + 2,000 expressions."""

from __future__ import annotations

import functools
from pathlib import Path

from persistor._tools.errors import PersistorError
from persistor.data import listops_grammar as grammar
from persistor.data.contents import fingerprint
from persistor.data.dataset import DataSet, File
from persistor.data.prepared import Arrays, prepared, read_arrays
from persistor.data.workers import Report

LONGEST = 2_000  # tokens
PARTS: dict[str, tuple[str, int]] = dict(
    zip(("train", "valid", "test"), grammar.LRA.files, strict=True)
)


def _make(folder: Path, report: Report) -> None:
    grammar.write(folder, report=report)


LISTOPS = DataSet(
    name="listops",
    summary="100,000 nested operations on digits, and their values",
    forms=(tuple(File(name) for name, _ in PARTS.values()),),
    places=("listops-1000", "lra_release/listops-1000"),
    make=_make,
)


def load(name: str) -> grammar.Expressions:
    """The expressions of a part."""
    path = LISTOPS.locate()[list(PARTS).index(name)]
    return _read(prepared(f"listops-{name}-{fingerprint(path)}", lambda: _collect(name, path)))


@functools.lru_cache(3)
def _read(path: Path) -> grammar.Expressions:
    return grammar.Expressions(**read_arrays(path))


def _collect(name: str, path: Path) -> Arrays:
    found = grammar.read(path)
    if len(found) != PARTS[name][1]:
        raise PersistorError(
            f"{path} has {len(found):,} expressions, expected {PARTS[name][1]:,}; get or make it "
            "again"
        )
    if found.lengths.max() > LONGEST:
        raise PersistorError(
            f"{path} has an expression of {found.lengths.max():,} tokens; the task has up to "
            f"{LONGEST:,}"
        )
    return {"tokens": found.tokens, "starts": found.starts, "values": found.values}
