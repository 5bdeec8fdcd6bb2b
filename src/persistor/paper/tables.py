"""The paper's tables of results as data: what was trained, and its mean, lowest and highest value.

The numbers are in numbers.tsv, one entry per line, digit for digit as printed. A line holds
everything needed to train the entry again: `persistor.reproduction.plan.experiment_of` turns it
into an experiment.
"""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from decimal import Decimal
from importlib.resources import files
from typing import NamedTuple

from persistor._tools.errors import PersistorError, unknown

SEEDS = 5  # in the paper, for every entry


class Published(NamedTuple):
    """An entry of a table in the units of our metrics (an accuracy is a fraction)."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Row:
    """What was trained for one entry, and the numbers in the paper."""

    task: str
    cells: tuple[str, ...]
    epsilon: float | None  # None if no cell has one, or if it is annealed
    anneal: bool
    state_size: int
    blocks: int
    length: int | None  # None if the task has one length
    published: Published | None  # None if the paper gives no number

    def options(self) -> dict[str, str]:
        """The options that distinguish rows, as text."""
        epsilon = "" if self.epsilon is None else f"{self.epsilon:g}"
        return {
            "task": self.task,
            "cell": ",".join(self.cells),
            "epsilon": "anneal" if self.anneal else epsilon,
            "state": str(self.state_size),
            "blocks": str(self.blocks),
            "length": "" if self.length is None else str(self.length),
        }


@dataclass(frozen=True)
class Table:
    """A table of the paper; `metric` is the name that the tasks' objective gives it."""

    name: str
    title: str
    metric: str
    places: int  # decimals printed
    rows: tuple[Row, ...]

    @property
    def scale(self) -> int:
        """The factor on our metric in print: accuracies are in per cent."""
        return 100 if self.metric == "accuracy" else 1

    @property
    def higher_is_better(self) -> bool:
        """Whether a higher metric is better."""
        return self.metric == "accuracy"

    def shown(self, value: float) -> str:
        """A value as the paper prints it."""
        return f"{value * self.scale:.{self.places}f}"

    def rounded(self, value: float) -> float:
        """A value with no more digits than the paper prints."""
        return round(value * self.scale, self.places)

    def label(self, row: Row) -> str:
        """The label of a row: its cell, and the options that differ in this table."""
        words = {"epsilon": "eps ", "state": "d ", "blocks": "r ", "length": "L "}
        options = row.options()
        label = [options.pop("cell")]
        for name, value in options.items():
            if value and name in self._varied:
                label.append(words.get(name, "") + value)
        return " ".join(label)

    @functools.cached_property
    def _varied(self) -> frozenset[str]:
        """The options that differ in this table."""
        rows = [row.options() for row in self.rows]
        return frozenset(name for name in rows[0] if len({row[name] for row in rows} - {""}) > 1)

    def row(self, **options: str) -> Row:
        """The one row with these options."""
        (row,) = self.only(tuple(f"{name}={value}" for name, value in options.items())).rows
        return row

    def only(self, filters: tuple[str, ...]) -> Table:
        """The table with only the rows that pass filters such as `cell=cmru,lru`, `length=100`."""
        rows = self.rows
        for choice in filters:
            name, equals, values = choice.partition("=")
            known = self.rows[0].options()
            if not equals:
                raise PersistorError(f"{choice!r} chooses no rows; write, for example, cell=cmru")
            if name not in known:
                raise unknown("column", name, known)
            existing = {row.options()[name] for row in self.rows}
            # The cells of a hybrid contain a comma.
            wanted = {values} if values in existing else set(values.split(","))
            for value in wanted - existing:
                raise unknown(name, value, existing)
            rows = tuple(row for row in rows if row.options()[name] in wanted)
        if not rows:
            raise PersistorError(f"no row of {self.name} has {' and '.join(filters)}")
        return Table(self.name, self.title, self.metric, self.places, rows)


# name: title, metric, decimals. The entries are in numbers.tsv.
_TITLES = {
    "parity": ("Parity with one unit, over epsilon", "accuracy", 2),
    "copy-first-discrete": ("Copy first, 15 symbols, over length", "accuracy", 2),
    "copy-first-clean": ("Copy first, a number then zeros, over length", "mae", 4),
    "copy-first-noisy": ("Copy first, a number then noise, over length and size", "mae", 4),
    "copy-first-large": ("Copy first, noisy, six blocks of 256 units", "mae", 4),
    "smnist-epsilon": ("sMNIST over epsilon", "accuracy", 2),
    "smnist-state": ("sMNIST over state width", "accuracy", 2),
    "annealing": ("sMNIST with epsilon 0, 1 and annealed, over state width", "accuracy", 2),
    "pmnist": ("sMNIST and three permutations, over epsilon", "accuracy", 2),
    "imdb": ("IMDb reviews by bytes, over depth", "accuracy", 2),
    "scifar10": ("sCIFAR10, over depth", "accuracy", 2),
    "listops": ("ListOps, over depth", "accuracy", 2),
    "pathfinder": ("Pathfinder", "accuracy", 2),
    "shakespeare": ("Characters of Shakespeare, with hybrids", "cross_entropy", 3),
    "kws-r1": ("Keyword spotting, one block", "accuracy", 2),
    "kws-yes": ("Keyword spotting, yes versus others", "accuracy", 2),
    "kws-r2": ("Keyword spotting, two blocks", "accuracy", 2),
}


@functools.cache
def tables() -> dict[str, Table]:
    """Every table, by its name on the command line."""
    rows: dict[str, list[Row]] = {name: [] for name in _TITLES}
    text = (files("persistor.paper") / "numbers.tsv").read_text()
    for line in csv.DictReader(text.splitlines(), delimiter="\t"):
        scale = 100 if _TITLES[line["table"]][1] == "accuracy" else 1
        rows[line["table"]].append(_row(line, scale))
    return {
        name: Table(name, title, metric, places, tuple(rows[name]))
        for name, (title, metric, places) in _TITLES.items()
    }


def table(name: str) -> Table:
    """A table by its name."""
    if name not in tables():
        raise unknown("table", name, tables())
    return tables()[name]


def _row(line: dict[str, str], scale: int) -> Row:
    numbers = [float(Decimal(line[name]) / scale) for name in ("mean", "low", "high") if line[name]]
    epsilon = line["epsilon"]
    return Row(
        task=line["task"],
        cells=tuple(line["cell"].split(",")),
        epsilon=float(epsilon) if epsilon not in ("", "anneal") else None,
        anneal=epsilon == "anneal",
        state_size=int(line["state"]),
        blocks=int(line["blocks"]),
        length=int(line["length"]) if line["length"] else None,
        published=Published(*numbers) if numbers else None,
    )
