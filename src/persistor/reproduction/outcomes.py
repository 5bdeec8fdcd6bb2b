"""What has been run already, below a folder of runs; what does not add up is reported instead."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path

from persistor._tools.errors import PersistorError
from persistor.experiment import Experiment
from persistor.paper.budgets import budget
from persistor.training import Run


@dataclass(frozen=True)
class Outcome:
    """A finished run: its test metric."""

    experiment: Experiment
    value: float


def find_outcomes(folder: Path) -> tuple[list[Outcome], list[str]]:
    """The finished runs below a folder, and a line for every one that is not to be trusted."""
    found, problems = [], []
    for path in sorted(folder.glob("*/experiment.json")):
        try:
            outcome = read_outcome(path.parent)
        except PersistorError as error:
            problems.append(f"{path.parent.name} is left out: {error}")
            continue
        if outcome is not None:
            found.append(outcome)
    return found, problems


def at_full_budget(experiment: Experiment) -> Experiment:
    """The same experiment with the paper's steps."""
    training = dataclasses.replace(experiment.training, steps=budget(experiment.task.name).steps)
    return dataclasses.replace(experiment, training=training)


def read_outcome(path: Path) -> Outcome | None:
    """A run's outcome, none while it is unfinished; its files must agree with each other."""
    run = Run.open(path)
    if path.name != run.experiment.name:
        raise PersistorError("its experiment.json does not belong to a folder of this name")
    result = run.result
    if result is None:
        return None
    metric = run.experiment.task.objective.metric
    try:
        if result["experiment"] != run.experiment.to_json() or result["run"] != path.name:
            raise PersistorError("its result.json is of another experiment")
        last = run.progress()[-1]["step"]
        best = next(line for line in run.progress() if line["step"] == result["valid"]["step"])
        if result["steps"] != last or best[metric] != result["valid"][metric]:
            raise PersistorError("its result.json and progress.jsonl disagree")
        if (result["budget"] == "full") == run.experiment.reduced:
            raise PersistorError("its result.json gives another budget than its experiment.json")
        value = float(result["test"][metric])
    except (KeyError, IndexError, TypeError, ValueError, StopIteration):
        raise PersistorError("its result.json or progress.jsonl is not as it was written") from None
    if not math.isfinite(value) or (metric == "accuracy" and not 0 <= value <= 1):
        raise PersistorError(f"its test {metric} is {value:g}")
    return Outcome(run.experiment, value)
