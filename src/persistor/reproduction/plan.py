"""The runs of a table: which are done, and how long the rest takes."""

from __future__ import annotations

import dataclasses
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from persistor._tools.errors import PersistorError
from persistor._tools.files import read_json, write_json, writing
from persistor._tools.machine import processors
from persistor.experiment import Experiment
from persistor.model import PAPER, Architecture
from persistor.paper import budgets
from persistor.paper.tables import Row, Table, table
from persistor.reproduction.outcomes import at_full_budget, find_outcomes
from persistor.tasks import TASKS
from persistor.training import Trainer

SPEEDS = "speed.json"  # in the folder of the runs: seconds per unit of work on this machine
TIMED_LENGTH = 500  # longer sequences are timed at this length and scaled
TIMED_SECONDS = 1.0


def choose(names: Sequence[str], filters: tuple[str, ...]) -> list[Table]:
    """The tables of these names, with the rows that pass the filters."""
    if not names:
        raise PersistorError("name a table; `persistor reproduce --list` shows them")
    return [table(name).only(filters) for name in names]


def experiment_of(
    row: Row, seed: int = 0, budget: float = 1.0, architecture: Architecture = PAPER
) -> Experiment:
    """The experiment of a row, with a fraction of the paper's steps and an architecture."""
    if row.task not in TASKS:
        raise PersistorError(f"this version of persistor does not have the task {row.task}")
    return Experiment.of(
        row.task,
        cell=row.cells,
        state_size=row.state_size,
        blocks=row.blocks,
        architecture=architecture,
        length=row.length,
        steps=max(1, round(budget * budgets.budget(row.task).steps)),
        anneal=row.anneal,
        seed=seed,
        epsilon=row.epsilon,
    )


def work_of(row: Row) -> float:
    """Roughly how long a step of a row takes, in units that compare rows of one table."""
    return float((row.length or 1) * row.blocks * (128 + row.state_size))


def plan(
    chosen: Sequence[Table], seeds: int, budget: float, architecture: Architecture = PAPER
) -> dict[Experiment, float]:
    """The runs of some tables, each once, with their work; all rows of a seed before the next.

    Tables share entries: sMNIST with 32 units and epsilon 1 is in four of them.
    """
    if seeds < 1:
        raise PersistorError(f"seeds is {seeds}; it must be at least 1")
    work: dict[Experiment, float] = {}
    for seed in range(seeds):
        for row in (row for paper_table in chosen for row in paper_table.rows):
            experiment = experiment_of(row, seed, budget, architecture)
            work[experiment] = work_of(row) * experiment.training.steps
    return work


def survey(
    chosen: Sequence[Table],
    folder: Path,
    seeds: int,
    measure: Callable[[Table], float | None] = lambda paper_table: None,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """For each table, as soon as it is known: its runs, those done, and seconds for the rest.

    `measure` is called for tables not timed on this machine yet. It returns what `time_step` does,
    or None to leave the time open. `missing` says why a table cannot be run here.
    """
    outcomes, _ = find_outcomes(folder)
    finished = {o.experiment for o in outcomes}
    speeds = _speeds(folder)
    for paper_table in chosen:
        name, runs, missing = paper_table.name, {}, None
        try:
            runs = {
                experiment_of(row, seed): row for row in paper_table.rows for seed in range(seeds)
            }
            speed = None if name in speeds else measure(paper_table)
        except PersistorError as error:
            speed, missing = None, str(error)
        if speed is not None:
            speeds[name] = speed
            _save_speeds(folder, speeds)
        facts = {"title": paper_table.title, "runs": len(paper_table.rows) * seeds}
        yield name, {**facts, **_state(runs, finished, speeds.get(name)), "missing": missing}


def _state(
    runs: dict[Experiment, Row], finished: set[Experiment], speed: float | None
) -> dict[str, Any]:
    """How many runs are done, at full and at reduced budget, and seconds for the rest."""
    reduced = [e for e in finished if e.reduced and at_full_budget(e) in runs]
    left = sum(work_of(row) * e.training.steps for e, row in runs.items() if e not in finished)
    seconds = None if speed is None else round(left * speed, 1)
    return {"done": len(finished & runs.keys()), "reduced": len(reduced), "seconds": seconds}


def time_step(paper_table: Table) -> float:
    """Seconds per unit of work on this machine, measured on the smallest row of a table."""
    least = min(paper_table.rows, key=work_of)
    if least.length is not None:
        least = dataclasses.replace(least, length=min(least.length, TIMED_LENGTH))
    return _seconds_per_step(least) / work_of(least)


def _seconds_per_step(row: Row) -> float:
    trainer = Trainer(experiment_of(row))
    state, _ = trainer.advance(trainer.start(), 1)  # compiles
    steps, seconds = 1, 0.0
    while seconds < TIMED_SECONDS:
        steps *= 2
        began = time.monotonic()
        state, _ = trainer.advance(state, steps)
        seconds = time.monotonic() - began
    return seconds / steps


def _machine() -> str:
    return f"{platform.node()} {platform.machine()} {processors()}"


def _speeds(folder: Path) -> dict[str, float]:
    """The speeds that were measured on this machine, by table."""
    path = folder / SPEEDS
    known = read_json(path) if path.exists() else {}
    return known.get("seconds", {}) if known.get("machine") == _machine() else {}


def _save_speeds(folder: Path, speeds: dict[str, float]) -> None:
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / SPEEDS, {"machine": _machine(), "seconds": speeds})
