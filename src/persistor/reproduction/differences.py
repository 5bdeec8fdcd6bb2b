"""Why our results differ from the paper's: the remarks in differences.toml, beside the runs.

The file has remarks for each table of the paper. `entries` lists labels of rows; it is empty for a
remark on the whole table:

    [[smnist-epsilon]]
    entries = ["cmru eps 1"]
    text = "..."
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from persistor._tools.errors import PersistorError, unknown
from persistor._tools.files import reading
from persistor.paper.tables import tables
from persistor.reproduction.comparison import Comparison, Entry

FILE = "differences.toml"


@dataclass(frozen=True)
class Difference:
    """A remark on some entries of a table."""

    entries: tuple[str, ...]
    text: str


def read_differences(folder: Path) -> dict[str, list[Difference]]:
    """The remarks of a folder of runs, by table; none if there is no file."""
    path = folder / FILE
    if not path.exists():
        return {}
    with reading(path) as file:
        try:
            return {name: _remarks(name, items) for name, items in tomllib.load(file).items()}
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise PersistorError(f"{path} is not TOML: {error}") from None
        except PersistorError as error:
            raise PersistorError(f"{path}: {error}") from None


def _remarks(name: str, items: object) -> list[Difference]:
    if name not in tables():
        raise unknown("table", name, tables())
    try:
        return [Difference(tuple(map(str, d["entries"])), d["text"].strip()) for d in items]  # pyright: ignore
    except (AttributeError, KeyError, TypeError):
        raise PersistorError(f"[[{name}]] needs entries and text") from None


def check_explained(comparison: Comparison, differences: Iterable[Difference]) -> None:
    """Raise if a result outside the paper's range has no remark, or if a remark is out of date."""
    name = comparison.table.name
    measured = {comparison.table.label(e.row): e for e in comparison.measured}
    explained = {label for difference in differences for label in difference.entries}
    for label in sorted(explained - measured.keys()):
        raise PersistorError(f"{FILE} explains {label!r} of {name}, which is not measured")
    unexplained = [
        repr(label)
        for label, entry in measured.items()
        if label not in explained and _surprises(comparison, entry)
    ]
    if unexplained:
        raise PersistorError(
            f"these entries of {name} are outside the paper's range at full budget: "
            f"{', '.join(unexplained)}; explain them in {FILE}, beside the runs"
        )


def _surprises(comparison: Comparison, entry: Entry) -> bool:
    """Whether a result at full budget is outside the paper's range; or worse, with what is beside.

    The other architecture is not the paper's, so that it need not be explained where it is better.
    """
    if entry.budget == 1 and comparison.verdict(entry) in ("better", "worse"):
        return True
    if comparison.beside is None:
        return False
    other = comparison.beside.same(entry)
    return other.budget == 1 and comparison.beside.verdict(other) == "worse"
