"""Our results beside the paper's: mean [min; max], the difference, and whether they agree."""

from __future__ import annotations

import dataclasses
import functools
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from math import comb, sqrt
from typing import Any

from persistor.data import speech
from persistor.experiment import Experiment
from persistor.model import PAPER, ROBUST, Architecture
from persistor.paper.tables import SEEDS, Published, Row, Table
from persistor.reproduction.outcomes import Outcome, at_full_budget
from persistor.reproduction.plan import experiment_of
from persistor.tasks import TASKS
from persistor.training.provenance import in_words

FEWEST_TESTED = 2_000  # examples in the smallest test set on which a model may only guess
GOOD = ("inside", "at chance", "better")  # verdicts that are no worse than the paper


@dataclass(frozen=True)
class Entry:
    """A row of a table with our measurements, one value for each seed."""

    row: Row
    values: tuple[float, ...]
    budget: float | None  # fraction of the paper's steps; None if there is no run
    version: str | None = None  # of the data, if it is not the paper's
    outcomes: tuple[Outcome, ...] = ()  # the runs that gave the values

    @property
    def ours(self) -> Published | None:
        """The mean, lowest and highest value over our seeds."""
        if not self.values:
            return None
        return Published(statistics.fmean(self.values), min(self.values), max(self.values))


@dataclass(frozen=True)
class Comparison:
    """A table of the paper with our results."""

    table: Table
    entries: tuple[Entry, ...]
    architecture: Architecture = PAPER  # of our runs
    beside: Comparison | None = None  # the same table with another architecture

    def verdict(self, entry: Entry) -> str:
        """Whether our mean is in the paper's range or on which side of it, to the printed digits.

        The verdict is `at chance` if every seed, ours and the paper's, is a blind guess: which of
        them guessed better is luck.
        """
        ours, paper = entry.ours, entry.row.published
        if ours is None or paper is None:
            return ""
        if all(self._guessed(entry.row, x) for x in (ours.low, ours.high, paper.low, paper.high)):
            return "at chance"
        mean, low, high = (self.table.rounded(x) for x in (ours.mean, paper.low, paper.high))
        if low <= mean <= high:
            return "inside"
        return "better" if (mean > high) == self.table.higher_is_better else "worse"

    def _guessed(self, row: Row, value: float) -> bool:
        """Whether a blind guess may score this, up to three standard errors of a small test set."""
        chance = TASKS[row.task].chance if row.task in TASKS else None
        if chance is None or self.table.metric not in ("accuracy", "mae"):
            return False
        # A guess is right or wrong; for a number, its error is uniform in [0, 2 chance].
        spread = (
            sqrt(chance * (1 - chance)) if self.table.metric == "accuracy" else chance / sqrt(3)
        )
        return abs(value - chance) <= 3 * spread / sqrt(FEWEST_TESTED)

    def coincidence(self, entry: Entry) -> float | None:
        """If all our seeds are outside the paper's range: how often that would happen by chance.

        If our n seeds and the paper's 5 came from one distribution, every order of them would be
        equally likely, so ours would be all above or all below 2 times in C(n + 5, n). With one
        seed this is one third, which means nothing.
        """
        ours, paper = entry.ours, entry.row.published
        if ours is None or paper is None:
            return None
        lowest, highest = self.table.rounded(ours.low), self.table.rounded(ours.high)
        beyond = lowest > self.table.rounded(paper.high) or highest < self.table.rounded(paper.low)
        return 2 / comb(len(entry.values) + SEEDS, SEEDS) if beyond else None

    def summary(self) -> str:
        """How much was measured and how well it agrees, in one line."""
        measured = [entry for entry in self.entries if entry.values]
        full = [entry for entry in measured if entry.budget == 1 and self.verdict(entry)]
        good = sum(self.verdict(entry) in GOOD for entry in full)
        text = f"{len(measured)} of {len(self.entries)} entries measured"
        if full:
            text += f", {len(full)} at full budget: {good} as in the paper or better"
        return text

    @property
    def titles(self) -> list[str]:
        """The headings of the columns."""
        if self.beside is None:
            return list(COLUMNS)
        name = self.beside.architecture.name
        return [*COLUMNS, f"{name} [min; max]", f"n ({name})", f"{name} is", f"budget ({name})"]

    @property
    def measured(self) -> list[Entry]:
        """The entries for which there is a run, with this architecture or the one beside it."""
        there = {e.row for e in self.beside.entries if e.values} if self.beside else set()
        return [entry for entry in self.entries if entry.values or entry.row in there]

    def same(self, entry: Entry) -> Entry:
        """The entry of the same row."""
        return next(own for own in self.entries if own.row == entry.row)

    def columns(self, entry: Entry) -> list[str]:
        """The entry as texts, one for each column."""
        return [*self._columns(entry), *(self.beside._short(entry) if self.beside else [])]

    def _short(self, entry: Entry) -> list[str]:
        """Our numbers of the same row as texts: what stands beside another architecture's."""
        _, ours, count, _, _, verdict, budget = self._columns(self.same(entry))
        return [ours, count, verdict, budget]

    def _columns(self, entry: Entry) -> list[str]:
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
            self._judged(entry),
            _budget(entry),
        ]

    def _judged(self, entry: Entry) -> str:
        """The verdict, and how often it would happen by chance."""
        verdict, odds = self.verdict(entry), self.coincidence(entry)
        if odds is None or verdict == "at chance" or entry.budget != 1:
            return verdict
        return f"{verdict} (1 in {1 / odds:.0f})"

    def _numbers(self, numbers: Published | None, count: int) -> str:
        if numbers is None:
            return "-"
        mean, low, high = map(self.table.shown, numbers)
        return mean if count == 1 else f"{mean} [{low}; {high}]"

    @property
    def heading(self) -> str:
        """The title, and the unit."""
        unit = "%" if self.table.scale == 100 else "lower is better"
        metric = self.table.metric.replace("_", "-")
        reading = "" if self.architecture == PAPER else f", architecture {self.architecture.name}"
        return f"{self.table.title} ({metric}, {unit}{reading})"

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        beside = {} if self.beside is None else {"beside": self.beside.to_json()}
        return {
            "table": self.table.name,
            "title": self.table.title,
            "metric": self.table.metric,
            "entries": [
                {
                    "row": self.table.label(entry.row),
                    **entry.row.options(),
                    "budget": entry.budget,
                    "version": entry.version,
                    "values": list(entry.values),
                    "ours": entry.ours and entry.ours._asdict(),
                    "paper": entry.row.published and entry.row.published._asdict(),
                    "verdict": self.verdict(entry) or None,
                    "chance": self.coincidence(entry),
                }
                for entry in self.entries
            ],
            "architecture": self.architecture.name,
            **beside,
        }


COLUMNS = ["", "ours [min; max]", "n", "paper [min; max]", "difference", "mean is", "budget"]


def compare(
    table: Table,
    outcomes: Iterable[Outcome],
    *,
    budget: float | None = None,
    architecture: Architecture = PAPER,
) -> Comparison:
    """A table with its outcomes, at one budget or, by default, at the largest of each row.

    An outcome belongs to a row if its experiment differs only in seed, budget and version of the
    data. The outcomes of an entry share one budget and one version.
    """
    by_row: dict[Experiment, list[Outcome]] = {}
    for outcome in outcomes:
        by_row.setdefault(_as_published(outcome.experiment), []).append(outcome)
    entries = tuple(_entry(row, by_row, budget, architecture) for row in table.rows)
    return Comparison(table, entries, architecture)


def compare_both(table: Table, outcomes: Iterable[Outcome], **chosen: Any) -> Comparison:
    """A table with the runs of the paper's reading and, if there are any, those of `robust`."""
    outcomes = list(outcomes)
    robust = compare(table, outcomes, architecture=ROBUST, **chosen)
    there = any(entry.values for entry in robust.entries)
    paper = compare(table, outcomes, **chosen)
    return dataclasses.replace(paper, beside=robust) if there else paper


@functools.cache
def _as_published(experiment: Experiment) -> Experiment:
    """The experiment as published: seed 0, the paper's steps and its version of the data."""
    task: Any = experiment.task
    if task.version:
        task = dataclasses.replace(task, version=speech.PUBLISHED)
    return dataclasses.replace(at_full_budget(experiment), task=task, seed=0)


def _entry(
    row: Row,
    by_row: dict[Experiment, list[Outcome]],
    budget: float | None,
    architecture: Architecture,
) -> Entry:
    if row.task not in TASKS:
        return Entry(row, (), None)
    experiment = experiment_of(row, architecture=architecture)
    outcomes, full = by_row.get(_as_published(experiment), []), experiment.training.steps
    if budget is not None:
        steps = experiment_of(row, budget=budget).training.steps
        outcomes = [o for o in outcomes if o.experiment.training.steps == steps]
    # A run that trained longer than the paper's does not measure its entry.
    outcomes = [o for o in outcomes if o.experiment.training.steps <= full]
    if not outcomes:
        return Entry(row, (), None)
    steps, version = max(map(_kind, outcomes))
    chosen = sorted(
        (o for o in outcomes if _kind(o) == (steps, version)), key=lambda o: o.experiment.seed
    )
    return Entry(
        row,
        tuple(o.value for o in chosen),
        steps / full,
        version if version not in ("", speech.PUBLISHED) else None,
        tuple(chosen),
    )


def origins(comparison: Comparison) -> dict[str, dict[str, str]]:
    """The provenance of every measured value of a table, by entry and by run."""
    both = [c for c in (comparison, comparison.beside) if c is not None]
    return {
        comparison.table.label(entry.row): {
            outcome.experiment.name: in_words(outcome.experiment, outcome.record.result)
            for c in both
            for outcome in c.same(entry).outcomes
            if outcome.record is not None
        }
        for entry in comparison.measured
    }


def _kind(outcome: Outcome) -> tuple[int, str]:
    """What the outcomes of one entry must share: steps, and the version of the data."""
    return outcome.experiment.training.steps, outcome.experiment.task.version


def _budget(entry: Entry) -> str:
    if entry.budget is None:
        return ""
    share = "full" if entry.budget == 1 else f"{100 * entry.budget:.2g}%"
    return share if entry.version is None else f"{share}, data {entry.version}"


def overall(compared: Iterable[Comparison]) -> list[str]:
    """How much of the paper was repeated, and how well, in a few sentences.

    Tables share entries; an entry with the same options and the same numbers counts once.
    """
    compared = list(compared)
    published = _published(compared)
    full = [(c, entry) for c, entry in published.values() if entry.budget == 1]
    several = [(c, entry) for c, entry in full if len(entry.values) > 1]
    single = [(c, entry) for c, entry in full if len(entry.values) == 1]
    reduced = sum(e.budget is not None and e.budget < 1 for _, e in published.values())
    text = [
        f"Of {len(published)} different entries that the paper publishes, {len(full)} are measured "
        "at its full budget."
    ]
    text += [_count("two seeds or more", several)] if several else []
    text += [_count("a single seed, so without a range", single)] if single else []
    text += [f"Measured at a reduced budget only: {reduced}."]
    return [*text, *_with_beside(compared, published)]


Counted = dict[tuple[Any, ...], tuple[Comparison, Entry]]


def _published(compared: Iterable[Comparison]) -> Counted:
    """The different entries that the paper publishes, each once."""
    return {
        (*entry.row.options().values(), *entry.row.published): (comparison, entry)
        for comparison in compared
        for entry in comparison.entries
        if entry.row.published is not None
    }


def _with_beside(compared: Iterable[Comparison], published: Counted) -> list[str]:
    """What the architecture beside adds: how many entries it measures, and how many either does."""
    others = _published(c.beside for c in compared if c.beside is not None)
    full = [(c, e) for c, e in others.values() if e.budget == 1]
    if not full:
        return []
    name = full[0][0].architecture.name
    good = sum(c.verdict(e) in GOOD for c, e in full)
    both = [
        [found for found in (published[key], others.get(key)) if found and found[1].budget == 1]
        for key in published
    ]
    either = [found for found in both if found]
    best = sum(any(c.verdict(e) in GOOD for c, e in found) for found in either)
    return [
        f"With `{name}`, {len(full)} entries are measured at full budget, {good} of them as in the "
        "paper or better.",
        f"With one or the other, {len(either)} are measured at full budget, {best} of them as in "
        "the paper or better.",
    ]


def _count(seeds: str, entries: list[tuple[Comparison, Entry]]) -> str:
    """The number of entries with each verdict, as a sentence."""
    verdicts = [comparison.verdict(entry) for comparison, entry in entries]
    counts = [f"{verdicts.count(v)} {text}" for v, text in _MEANINGS.items() if v in verdicts]
    return f"{len(entries)} of these with {seeds}: {', '.join(counts)}."


_MEANINGS = {
    "inside": "inside the published range",
    "at chance": "a blind guess like the paper's",
    "better": "better than the published range",
    "worse": "worse",
}
