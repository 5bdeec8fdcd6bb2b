"""Where trained models are: in a file by themselves, or in the folder of a run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from persistor._tools.errors import PersistorError
from persistor.cells import CELLS, Cell
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
    """The folder of a run, given its path or its name in the runs folder."""
    named = runs_folder(runs) / where
    return named if not Path(where).exists() and named.exists() else Path(where)


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
            f"{where} is neither a run nor a model file; `persistor list` shows your runs"
        )
    file = path if path.is_file() else path / BEST
    if path.is_file() or (file.exists() and _is_described(file)):
        return load_model(file, kind, cells=cells)[0]
    return None


def _is_described(path: Path) -> bool:
    with opened(path) as file:
        return "model" in read_metadata(path, file)
