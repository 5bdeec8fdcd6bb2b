"""A finished run as it was recorded, and whether its parts agree with each other.

A run folder and a line of an archive both become a `Record`, so that both pass the same checks.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from persistor._tools.errors import PersistorError
from persistor._tools.files import read_json, reading
from persistor.experiment import Experiment
from persistor.training import Run
from persistor.training.run import progress_lines

EXTRAS = ("evaluate", "inspect")  # outputs that a run folder may also hold, as NAME.json


@dataclass(frozen=True)
class Record:
    """A finished run: experiment, result, curve, and the outputs of later commands."""

    name: str
    experiment: Experiment
    result: dict[str, Any]
    read_curve: Callable[[], str] = field(repr=False, compare=False)
    extras: dict[str, Any] = field(default_factory=dict)

    @functools.cached_property
    def curve(self) -> str:
        """The text of progress.jsonl, read when it is first needed."""
        return self.read_curve()

    def progress(self) -> list[dict[str, Any]]:
        """Every evaluation of the run."""
        return progress_lines(self.curve)

    @property
    def metric(self) -> str:
        """The name of the run's metric."""
        return self.experiment.task.objective.metric

    def tested(self) -> float:
        """The test metric; an error if the parts of the record disagree."""
        if self.name != self.experiment.name:
            raise PersistorError("its name does not match its experiment")
        try:
            self._check_result()
            value = float(self.result["test"][self.metric])
        except (KeyError, IndexError, TypeError, ValueError, StopIteration):
            raise PersistorError("its result or its curve is damaged") from None
        if not math.isfinite(value) or (self.metric == "accuracy" and not 0 <= value <= 1):
            raise PersistorError(f"its test {self.metric} is {value:g}")
        return value

    def _check_result(self) -> None:
        """Raise if the result belongs to another experiment or contradicts the curve."""
        result, metric, lines = self.result, self.metric, self.progress()
        if result["experiment"] != self.experiment.to_json() or result["run"] != self.name:
            raise PersistorError("its result belongs to another experiment")
        best = next(line for line in lines if line["step"] == result["valid"]["step"])
        if result["steps"] != lines[-1]["step"] or best[metric] != result["valid"][metric]:
            raise PersistorError("its result and its curve disagree")
        reduced = self.experiment.reduced
        if reduced is not None and (result["budget"] == "full") == reduced:
            raise PersistorError("its result and its experiment disagree on the budget")


def read_folder(path: Path) -> Record | None:
    """The record of a run folder; None while the run is unfinished."""
    run = Run.open(path)
    if path.name != run.experiment.name:
        raise PersistorError("its experiment.json belongs to a folder with another name")
    result = run.result
    if result is None:
        return None
    extras = {name: path / f"{name}.json" for name in EXTRAS}
    return Record(
        path.name,
        run.experiment,
        result,
        lambda: _text(path / "progress.jsonl"),
        {name: read_json(file) for name, file in extras.items() if file.exists()},
    )


def _text(path: Path) -> str:
    with reading(path) as file:
        return decoded(file.read(), str(path))


def decoded(content: bytes, name: str) -> str:
    """Bytes as text; an error if they are not text."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise PersistorError(f"{name} is damaged: it is not text") from None
