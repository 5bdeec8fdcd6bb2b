"""A run is a folder.

| file | what it holds |
|---|---|
| experiment.json | the experiment, written first |
| progress.jsonl | a line for every evaluation |
| latest.safetensors | everything needed to continue: weights, optimiser, counters |
| best.safetensors | the weights that did best in validation |
| result.json | the outcome, written when the run is finished |
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx

from persistor._tools.errors import PersistorError
from persistor._tools.files import read_json, write_atomically, write_json, writing
from persistor.cells import CELLS, Cell
from persistor.experiment import Experiment
from persistor.model import Backbone
from persistor.model.file import load_model, opened, read_arrays, read_metadata, save
from persistor.tasks import Task

BEST = "best.safetensors"
M = TypeVar("M", bound=Backbone | Cell)


def runs_folder(chosen: str | Path | None = None) -> Path:
    """The folder of the runs: the chosen one, else $PERSISTOR_RUNS, else ./runs."""
    return Path(chosen or os.environ.get("PERSISTOR_RUNS", "runs"))


def find_run(where: str | Path, runs: str | Path | None = None) -> Path:
    """The folder of a run, given its path or its name in the runs folder."""
    named = runs_folder(runs) / where
    return named if not Path(where).exists() and named.exists() else Path(where)


def load(
    where: str | Path,
    kind: type[M] = Backbone,
    *,
    runs: str | Path | None = None,
    cells: Mapping[str, type[Cell]] = CELLS,
) -> M:
    """A trained model, from a run folder, the name of a run, or a file that `save` wrote.

    `load("cell.safetensors", CMRU)` opens a single cell. `cells` maps names to classes of cells;
    add your own class to open a model that uses it.
    """
    if not isinstance(where, str | Path):
        raise PersistorError(f"load takes a path or a name, not {where!r}")
    path = find_run(where, runs)
    if not path.exists():
        raise PersistorError(
            f"{where} is neither a run nor a model file; `persistor list` shows your runs"
        )
    if path.is_file():
        return load_model(path, kind, cells=cells)[0]
    best = path / BEST
    if best.exists():
        with opened(best) as file:
            described = "model" in read_metadata(best, file)
        if described:
            return load_model(best, kind, cells=cells)[0]
    model: Any = Run.open(path).model()  # an older file, without a description of its model
    return model


@dataclass(frozen=True)
class Run:
    """The folder of one experiment."""

    path: Path
    experiment: Experiment

    @staticmethod
    def create(experiment: Experiment, folder: Path) -> Run:
        """The run of this experiment below `folder`, new or as far as it has come."""
        path = folder / experiment.name
        description = path / "experiment.json"
        if description.exists():
            stored, wanted = read_json(description), experiment.to_json()
            if stored == wanted:
                return Run(path, experiment)
            if not _same(experiment, stored, wanted):
                raise PersistorError(f"{path} holds another experiment; move it away")
        with writing(folder):
            path.mkdir(parents=True, exist_ok=True)
        write_json(description, experiment.to_json())
        return Run(path, experiment)

    @staticmethod
    def open(path: Path) -> Run:
        """The run in an existing folder."""
        if not (path / "experiment.json").is_file():
            raise PersistorError(
                f"{path} is not a run folder (no experiment.json); `persistor list` shows your runs"
            )
        return Run(path, Experiment.from_json(read_json(path / "experiment.json")))

    @property
    def latest(self) -> Path:
        """The checkpoint from which training resumes."""
        return self.path / "latest.safetensors"

    @property
    def best(self) -> Path:
        """The checkpoint that did best in validation."""
        return self.path / BEST

    @property
    def result(self) -> dict[str, Any] | None:
        """The outcome, or None while the run is unfinished."""
        path = self.path / "result.json"
        return read_json(path) if path.exists() else None

    def finish(self, result: dict[str, Any]) -> None:
        """Write the outcome: the last thing a run does."""
        write_json(self.path / "result.json", result)

    def model(self) -> Backbone:
        """The model with the best weights so far."""
        blank = eqx.filter_eval_shape(self.experiment.build)
        return read_arrays(self.best, blank, self.experiment.hash)[0]

    def add_preparation(self, task: Task) -> None:
        """Add to the best weights of an earlier version what prediction needs, if it is missing."""
        with opened(self.best) as file:
            metadata = read_metadata(self.best, file)
        if "preparation" not in metadata:
            kept = {k: v for k, v in metadata.items() if k not in ("model", "constants")}
            save(self.model(), self.best, preparation=task.preparation().to_json(), **kept)

    def progress(self) -> list[dict[str, Any]]:
        """Every evaluation so far; a line torn by a crash is dropped."""
        path = self.path / "progress.jsonl"
        return progress_lines(path.read_text() if path.exists() else "")

    def rewind(self, step: int) -> None:
        """Drop progress beyond a step: it will be computed again."""
        lines = [json.dumps(line) + "\n" for line in self.progress() if line["step"] <= step]
        write_atomically(self.path / "progress.jsonl", "".join(lines).encode())

    def note(self, line: dict[str, Any]) -> None:
        """Add an evaluation to the progress."""
        path = self.path / "progress.jsonl"
        with writing(path), path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from training the same run at the same time."""
        with writing(self.path):
            file = (self.path / ".lock").open("w")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise PersistorError(f"{self.path} is being trained by another process") from None
            yield


def _same(experiment: Experiment, stored: Any, wanted: dict[str, Any]) -> bool:
    """Whether two descriptions differ at most in hints, such as where your own data are."""
    if not isinstance(stored, dict) or not isinstance(stored.get("task"), dict):
        return False
    return experiment.without_hints(stored) == experiment.without_hints(wanted)


def progress_lines(text: str) -> list[dict[str, Any]]:
    """The evaluations in the text of progress.jsonl; a line torn by a crash is dropped."""
    lines = []
    for line in text.splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            lines.append(json.loads(line))
    return lines
