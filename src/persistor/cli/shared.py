"""What the commands share: options, the data folder, Ctrl-C. JAX is imported only when needed."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

Json = Annotated[bool, arg(help="Print the result as one JSON object on standard output.")]
Runs = Annotated[
    Path | None,
    arg(
        metavar="PATH",
        help="Folder that holds the runs.",
        help_behavior_hint="(default: $PERSISTOR_RUNS, else ./runs)",
    ),
]
DataDir = Annotated[
    Path | None,
    arg(
        metavar="PATH",
        help="Folder that holds the data sets.",
        help_behavior_hint="(default: $PERSISTOR_DATA, else the cache folder)",
    ),
]
Moved = Annotated[
    Path | None,
    arg(
        metavar="PATH",
        help="Where your own data are now, if they have moved since training.",
        help_behavior_hint="(default: where they were)",
    ),
]
Length = Annotated[
    int | None,
    arg(metavar="INT", help="Sequence length.", help_behavior_hint="(default: the task's)"),
]
ArchitectureName = Annotated[
    str,
    arg(
        metavar="NAME",
        help="How to fill in what the paper leaves open; `persistor list` shows the choices.",
    ),
]
Changes = Annotated[
    tuple[str, ...],
    arg(
        metavar="KEY=VALUE",
        help="Change single settings of the architecture, for example norm=first base=100.",
        help_behavior_hint="(default: none)",
    ),
]
Where = Annotated[
    Positional[Path], arg(metavar="RUN", help="A run folder, or its name in the runs folder.")
]


class StopOnInterrupt:
    """The first Ctrl-C asks to stop at the next safe point. The second stops immediately."""

    def __init__(self):
        self._asked = False
        signal.signal(signal.SIGINT, self._hear)

    def _hear(self, *_: Any) -> None:
        self._asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print("stopping soon; press Ctrl-C again to stop immediately", file=sys.stderr)

    def asked(self) -> bool:
        """Whether the user has asked to stop."""
        return self._asked


def use_data_folder(chosen: Path | None) -> None:
    """Look for data in the chosen folder. The folder is not part of an experiment."""
    if chosen is not None:
        os.environ["PERSISTOR_DATA"] = str(chosen)


def bring_data(name: str | None) -> None:
    """Fetch a data set if it is missing, check it, and prepare it for use."""
    if name is None:
        return
    from persistor._tools.progress import Counter
    from persistor.data import DATASETS, READERS, fetch

    with Counter(f"fetching {name}") as count:
        fetch(DATASETS[name], count)
    with Counter(f"reading {name}") as count:
        READERS[name](DATASETS[name], count)


def open_run(where: Path, runs: Path | None):
    """The run at a path, or with that name in the runs folder."""
    from persistor.training import Run, find_run

    return Run.open(find_run(where, runs))
