"""Where trained models are: in a file, in the folder of a run, or in persistor itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from persistor._tools.errors import PersistorError
from persistor.cells import CELLS, Cell
from persistor.model import shipped
from persistor.model.backbone import Backbone
from persistor.model.file import load_model, opened, read_metadata

BEST = "best.safetensors"  # the weights that did best in validation, in the folder of a run
M = TypeVar("M", bound=Backbone | Cell)


def runs_folder(chosen: str | Path | None = None) -> Path:
    """The folder of the runs: the chosen one, else $PERSISTOR_RUNS, else ./runs."""
    if not isinstance(chosen, str | Path | None):
        raise PersistorError(f"runs is {chosen!r}; give the name of a folder")
    return Path(chosen or os.environ.get("PERSISTOR_RUNS", "runs"))


def find_run(where: str | Path, runs: str | Path | None = None) -> Path:
    """The folder of a run, given its path, its name in the runs folder, or a shipped model's name.

    What is in your folders comes before what is shipped.
    """
    for path in (Path(where), runs_folder(runs) / where):
        if path.exists():
            return _not_hiding(path, str(where))
    return shipped.FOLDER / where if str(where) in shipped.names() else Path(where)


def _not_hiding(path: Path, name: str) -> Path:
    """The path, unless it is a folder without a model that has the name of a shipped one."""
    a_run = (path / "experiment.json").exists() or (path / BEST).exists()
    if name in shipped.names() and path.is_dir() and not a_run:
        raise PersistorError(
            f"the folder {path} holds no run, and hides the model {name} that comes with "
            "persistor; rename it, or call persistor from another folder"
        )
    return path


def load_described(
    where: str | Path,
    kind: type[M] = Backbone,
    *,
    runs: str | Path | None = None,
    cells: Mapping[str, type[Cell]] = CELLS,
) -> M | None:
    """The model in a file or a run folder; None if it is a run whose file does not describe it."""
    if not isinstance(where, str | Path):
        raise PersistorError(f"load takes a path or a name, not {where!r}")
    path = find_run(where, runs)
    if not path.exists():
        raise PersistorError(
            f"{where} is neither a run nor a model file; {shipped.what_there_is()}"
        )
    file = path if path.is_file() else path / BEST
    if path.is_file() or (file.exists() and _is_described(file)):
        return load_model(file, kind, cells=cells)[0]
    return None


def _is_described(path: Path) -> bool:
    with opened(path) as file:
        return "model" in read_metadata(path, file)
