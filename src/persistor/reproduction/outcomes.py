"""The finished runs in a folder; runs whose files disagree are reported instead."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path

from persistor._tools.errors import PersistorError
from persistor.experiment import Experiment
from persistor.paper.budgets import budget
from persistor.reproduction.archive import Archive
from persistor.reproduction.record import Record, read_folder


@dataclass(frozen=True)
class Outcome:
    """A finished run: its test metric, and the record that says so."""

    experiment: Experiment
    value: float
    record: Record | None = field(default=None, repr=False, compare=False)


def find_outcomes(folder: Path) -> tuple[list[Outcome], list[str]]:
    """The finished runs in a folder, and one line for every run that cannot be trusted.

    A run may be a run folder or a line of the archive in that folder. If it is both, the line
    counts.
    """
    records, problems = find_records(folder)
    outcomes = []
    for record in records:
        try:
            outcomes.append(Outcome(record.experiment, record.tested(), record))
        except PersistorError as error:
            problems.append(f"{record.name} is left out: {error}")
    return outcomes, problems


def find_records(folder: Path) -> tuple[list[Record], list[str]]:
    """The finished runs in a folder, sorted by name and not checked, and what cannot be read."""
    archived, problems = Archive(folder).read()
    records = {record.name: record for record in archived}
    for path in sorted(description.parent for description in folder.glob("*/experiment.json")):
        try:
            record = read_folder(path)
        except PersistorError as error:
            problems.append(f"{path.name} is left out: {error}")
            continue
        if record is None:
            continue
        known = records.setdefault(record.name, record)
        if known.result != record.result:
            problems.append(f"{path.name} is left out: the archive has another result of this run")
    return [records[name] for name in sorted(records)], problems


def at_full_budget(experiment: Experiment) -> Experiment:
    """The same experiment with the paper's steps."""
    training = dataclasses.replace(experiment.training, steps=budget(experiment.task.name).steps)
    return dataclasses.replace(experiment, training=training)
