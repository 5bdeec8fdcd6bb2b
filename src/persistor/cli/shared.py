"""What the commands share: options, the data folder, Ctrl-C. Thin; JAX is imported late."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

Json = Annotated[bool, arg(help="Print exactly one JSON object, the result, on standard output.")]
Runs = Annotated[
    Path | None, arg(help="Folder of the runs.", help_behavior_hint="(default: ./runs)")
]
DataDir = Annotated[
    Path | None,
    arg(
        help="Folder of the data sets.",
        help_behavior_hint="(default: $PERSISTOR_DATA, else the cache folder)",
    ),
]
Length = Annotated[
    int | None, arg(help="Sequence length.", help_behavior_hint="(default: the task's)")
]
ArchitectureName = Annotated[
    str, arg(help="Which reading of the paper's open points: `persistor list` names them.")
]
Changes = Annotated[
    tuple[str, ...],
    arg(
        metavar="KEY=VALUE",
        help="Other values for points of the architecture, such as norm=first base=100.",
    ),
]
Where = Annotated[
    Positional[Path], arg(metavar="RUN", help="A run folder, or its name below the runs folder.")
]


class StopOnInterrupt:
    """The first Ctrl-C asks to stop at the next safe point; the second stops at once."""

    def __init__(self):
        self._asked = False
        signal.signal(signal.SIGINT, self._hear)

    def _hear(self, *_: Any) -> None:
        self._asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print("stopping after this leg; press Ctrl-C again to stop at once", file=sys.stderr)

    def asked(self) -> bool:
        """Whether somebody has asked."""
        return self._asked


def use_data_folder(chosen: Path | None) -> None:
    """Look for data in the chosen folder; it is no part of an experiment."""
    if chosen is not None:
        os.environ["PERSISTOR_DATA"] = str(chosen)


def bring_data(name: str | None) -> None:
    """See to it that a data set is there, is what it should be, and is ready to use."""
    if name is None:
        return
    from persistor._tools.progress import Counter
    from persistor.data import DATASETS, READERS, fetch

    with Counter(f"fetching {name}") as count:
        fetch(DATASETS[name], count)
    with Counter(f"reading {name}") as count:
        READERS[name](DATASETS[name], count)


def open_run(where: Path, runs: Path | None):
    """The run at a path, or with that name below the runs folder."""
    from persistor.training import Run, find_run

    return Run.open(find_run(where, runs))
