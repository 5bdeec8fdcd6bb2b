"""A run is a folder.

| file | what it holds |
|---|---|
| experiment.json | the experiment, written first |
| progress.jsonl | a line for every evaluation |
| latest.safetensors | everything needed to continue: weights, optimiser, counters |
| best.safetensors | the weights that did best in validation |
| contents.json | the checksums of your own data, to say what has changed |
| result.json | the outcome, written when the run is finished |
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
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
from persistor.model.file import opened, read_arrays, read_metadata, save
from persistor.model.shipped import what_there_is
from persistor.model.trained import BEST, find_run, load_described, runs_folder
from persistor.tasks import Task
from persistor.tasks.own_data.identity import find_sums, keep_sums

CONTENTS = "contents.json"
M = TypeVar("M", bound=Backbone | Cell)


def load(
    where: str | Path,
    kind: type[M] = Backbone,
    *,
    runs: str | Path | None = None,
    cells: Mapping[str, type[Cell]] = CELLS,
) -> M:
    """A trained model, from a run folder, the name of a run, or a file that `save` wrote.

    `load("parity")` opens a model that comes with persistor; `persistor models` lists them.

    `load("cell.safetensors", CMRU)` opens a single cell. `cells` maps names to classes of cells;
    add your own class to open a model that uses it.
    """
    model: Any = load_described(where, kind, runs=runs, cells=cells)
    if model is None:  # an older file, without a description of its model
        model = Run.open(find_run(where, runs)).model()
    return model


@dataclass(frozen=True)
class Run:
    """The folder of one experiment."""

    path: Path
    experiment: Experiment

    @staticmethod
    def create(experiment: Experiment, folder: str | Path) -> Run:
        """The run of this experiment below `folder`, new or as far as it has come."""
        if not isinstance(experiment, Experiment):
            raise PersistorError(f"experiment is {experiment!r}; give an Experiment")
        folder = runs_folder(folder)
        path = folder / experiment.name
        description, wanted = path / "experiment.json", experiment.to_json()
        stored = read_json(description) if description.exists() else None
        if stored is not None and not _same(experiment, stored, wanted):
            raise PersistorError(f"{path} holds another experiment; move it away")
        if stored != wanted:
            with writing(folder):
                path.mkdir(parents=True, exist_ok=True)
            write_json(description, wanted)
        keep_sums(experiment.task, path / CONTENTS)
        return Run(path, experiment)

    @staticmethod
    def open(path: str | Path) -> Run:
        """The run in an existing folder."""
        path = Path(path)
        if not (path / "experiment.json").is_file():
            raise PersistorError(
                f"{path} is not a run folder (no experiment.json); {what_there_is()}"
            )
        experiment = Experiment.from_json(read_json(path / "experiment.json"))
        find_sums(experiment.task, path / CONTENTS)
        return Run(path, experiment)

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

    def found_at(self, task: Task) -> None:
        """Remember where your own data are now, unless the run is of before or may not be written.

        It is a hint: the run stays the same.
        """
        if task.hints:
            experiment = dataclasses.replace(self.experiment, task=task)
            with contextlib.suppress(PersistorError):
                write_json(self.path / "experiment.json", experiment.to_json())

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
