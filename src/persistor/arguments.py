"""Arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

Json = Annotated[bool, arg(help="Print exactly one JSON object, the result, on standard output.")]
Runs = Annotated[
    Path | None, arg(help="Folder of the runs.", help_behavior_hint="(default: ./runs)")
]
Where = Annotated[
    Positional[Path], arg(metavar="RUN", help="A run folder, or its name below the runs folder.")
]


def open_run(where: Path, runs: Path | None):
    """The run at a path, or with that name below the runs folder."""
    from persistor.training import Run, runs_folder

    below = runs_folder(runs) / where
    return Run.open(below if not where.exists() and below.exists() else where)
