"""Ours beside the paper's: mean [min; max], the difference, and whether ours lies in its range."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import comb
from typing import Any

from persistor.errors import PersistorError
from persistor.experiment import Experiment
from persistor.paper.outcomes import Outcome, at_full_budget
from persistor.paper.tables import SEEDS, Published, Row, Table


@dataclass(frozen=True)
class Entry:
    """A row of a table with what we measured for it, a value a seed."""

    row: Row
    values: tuple[float, ...]
    budget: float | None  # share of the paper's steps; none where nothing was run

    @property
    def ours(self) -> Published | None:
        """Mean, lowest and highest of our seeds."""
        if not self.values:
            return None
        return Published(statistics.fmean(self.values), min(self.values), max(self.values))


@dataclass(frozen=True)
class Comparison:
    """A table of the paper beside ours."""

    table: Table
    entries: tuple[Entry, ...]

    def verdict(self, entry: Entry) -> str:
        """Whether our mean lies in the paper's range, or on which side of it, to its digits."""
        ours, paper = entry.ours, entry.row.published
        if ours is None or paper is None:
            return ""
        mean, low, high = (self.table.rounded(x) for x in (ours.mean, paper.low, paper.high))
        if low <= mean <= high:
            return "inside"
        return "better" if (mean > high) == self.table.higher_is_better else "worse"

    def chance(self, entry: Entry) -> float | None:
        """Where all of ours lie beyond the paper's range: how often that would happen by chance.

        If our n seeds and the paper's 5 were draws of the same thing, every order of all of them
        would be as likely as any other, so that ours are all above, or all below, two times in
        C(n + 5, n). With one seed that is a third: nothing to be read from.
        """
        ours, paper = entry.ours, entry.row.published
        if ours is None or paper is None:
            return None
        lowest, highest = self.table.rounded(ours.low), self.table.rounded(ours.high)
        beyond = lowest > self.table.rounded(paper.high) or highest < self.table.rounded(paper.low)
        return 2 / comb(len(entry.values) + SEEDS, SEEDS) if beyond else None

    def summary(self) -> str:
        """In a line, how much was measured and how well it agrees."""
        measured = [entry for entry in self.entries if entry.values]
        full = [entry for entry in measured if entry.budget == 1 and self.verdict(entry)]
        good = sum(self.verdict(entry) in ("inside", "better") for entry in full)
        text = f"{len(measured)} of {len(self.entries)} entries measured"
        if full:
            text += f", {len(full)} at full budget: {good} in the paper's range or better"
        return text

    def cells(self, entry: Entry) -> list[str]:
        """The entry as text, a column each."""
        ours, paper = entry.ours, entry.row.published
        difference = ""
        if ours is not None and paper is not None:
            difference = f"{(ours.mean - paper.mean) * self.table.scale:+.{self.table.places}f}"
        return [
            self.table.label(entry.row),
            self._numbers(ours, len(entry.values)),
            str(len(entry.values)),
            self._numbers(paper, SEEDS),
            difference,
            self.verdict(entry),
            _budget(entry.budget),
        ]

    def _numbers(self, numbers: Published | None, count: int) -> str:
        if numbers is None:
            return "-"
        mean, low, high = map(self.table.shown, numbers)
        return mean if count == 1 else f"{mean} [{low}; {high}]"

    @property
    def heading(self) -> str:
        """The title, and the unit."""
        unit = "%" if self.table.scale == 100 else "lower is better"
        return f"{self.table.title} ({self.table.metric.replace('_', '-')}, {unit})"

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "table": self.table.name,
            "title": self.table.title,
            "metric": self.table.metric,
            "entries": [
                {
                    "row": self.table.label(entry.row),
                    **entry.row.options(),
                    "budget": entry.budget,
                    "values": list(entry.values),
                    "ours": entry.ours and entry.ours._asdict(),
                    "paper": entry.row.published and entry.row.published._asdict(),
                    "verdict": self.verdict(entry) or None,
                    "chance": self.chance(entry),
                }
                for entry in self.entries
            ],
        }


COLUMNS = ["", "ours [min; max]", "n", "paper [min; max]", "difference", "mean is", "budget"]


def compare(
    table: Table, outcomes: Iterable[Outcome], *, budget: float | None = None
) -> Comparison:
    """A table with the outcomes that belong to it: of a given budget, else of each row's largest.

    An outcome belongs to a row if its experiment is the row's but for seed and budget.
    """
    by_row: dict[Experiment, list[Outcome]] = {}
    for outcome in outcomes:
        key = dataclasses.replace(at_full_budget(outcome.experiment), seed=0)
        by_row.setdefault(key, []).append(outcome)
    return Comparison(table, tuple(_entry(row, by_row, budget) for row in table.rows))


def _entry(row: Row, by_row: dict[Experiment, list[Outcome]], budget: float | None) -> Entry:
    try:
        found = by_row.get(row.experiment(), [])
    except PersistorError:  # a task that is not registered, or has no data here
        return Entry(row, (), None)
    if budget is not None:
        steps = row.experiment(budget=budget).training.steps
        found = [o for o in found if o.experiment.training.steps == steps]
    most = max((o.experiment.training.steps for o in found), default=0)
    chosen = sorted(
        (o for o in found if o.experiment.training.steps == most), key=lambda o: o.experiment.seed
    )
    share = most / row.experiment().training.steps if chosen else None
    return Entry(row, tuple(o.value for o in chosen), share)


def _budget(share: float | None) -> str:
    if share is None:
        return ""
    return "full" if share == 1 else f"{100 * share:.2g}%"


def as_text(comparison: Comparison) -> str:
    """For a terminal: aligned columns."""
    lines = [COLUMNS, *map(comparison.cells, comparison.entries)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(COLUMNS))]
    aligned = [
        "  ".join(
            cell.ljust(width) if i in (0, 5, 6) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    name = f"{comparison.table.name}: {comparison.heading}"
    return "\n".join([name, *aligned, comparison.summary()])


def as_markdown(comparison: Comparison) -> str:
    """A Markdown table under its heading."""
    lines = [COLUMNS, ["---"] * len(COLUMNS), *map(comparison.cells, comparison.entries)]
    rows = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([f"### {comparison.heading}", "", *rows, "", f"{comparison.summary()}."])


def as_latex(comparison: Comparison) -> str:
    """A table for LaTeX with booktabs."""
    head, *body = (
        "    " + " & ".join(map(_escaped, line)) + r" \\"
        for line in [COLUMNS, *map(comparison.cells, comparison.entries)]
    )
    caption = _escaped(f"{comparison.heading}. {comparison.summary()}.")
    return "\n".join(
        [
            r"\begin{table}",
            rf"  \caption{{{caption}}}",
            r"  \begin{tabular}{lrrrrll}",
            r"    \toprule",
            head,
            r"    \midrule",
            *body,
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
        ]
    )


def _escaped(text: str) -> str:
    return text.replace("%", r"\%").replace("_", r"\_")


FORMATS: dict[str, Callable[[Comparison], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "latex": as_latex,
}
