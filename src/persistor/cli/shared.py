"""What the commands share: options, the data folder, signals. JAX is imported only when needed."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from persistor._tools.errors import PersistorError

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
    Positional[Path],
    arg(
        metavar="RUN", help="A run folder, its name in the runs folder, or a shipped model's name."
    ),
]


def readable_runs(chosen: Path | None) -> Path:
    """The folder of the runs; one that was named must be there."""
    from persistor.training import runs_folder

    if chosen is not None and not chosen.is_dir():
        raise PersistorError(f"there is no folder {chosen}; --runs names a folder that holds runs")
    return runs_folder(chosen)


class StopOnSignal:
    """The first Ctrl-C or SIGTERM asks to stop at the next safe point, the second stops at once.

    Before the first safe point there is nothing to save, and Ctrl-C stops at once too.
    """

    def __init__(self):
        self._heard: int | None = None
        self._safe = False

    def __enter__(self) -> StopOnSignal:
        numbers = (signal.SIGINT, signal.SIGTERM)
        self._before = {number: signal.signal(number, self._hear) for number in numbers}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, number: int, frame: Any) -> None:
        self.__exit__()
        if number == signal.SIGINT and not self._safe:
            signal.raise_signal(number)
            return
        self._heard = number
        with contextlib.suppress(OSError, RuntimeError):  # closed, or interrupted while printing
            print("stopping soon; a second Ctrl-C or SIGTERM stops immediately", file=sys.stderr)

    def asked(self) -> bool:
        """At a safe point: whether to stop here."""
        self._safe = True
        return self._heard is not None

    @property
    def status(self) -> int:
        """The exit status that tells which signal it was."""
        return 128 + (self._heard or 0)


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


def open_in_browser(page: Path) -> bool:
    """Open a page if somebody sits in front of a display; never in a terminal, and never wait."""
    display = sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    if not display or os.environ.get("CI") or not sys.stdout.isatty():
        return False
    import webbrowser

    with contextlib.suppress(webbrowser.Error):
        browser = webbrowser.get()
        if type(browser) is not webbrowser.GenericBrowser:  # one in the terminal, such as lynx
            return browser.open(page.as_uri())
    return False


def picture_of(run_folder: Path, name: str) -> Path:
    """Where a picture of a run goes: into its folder; of a shipped model, here."""
    from persistor.model.shipped import FOLDER

    shipped = run_folder.parent == FOLDER
    return Path(f"{run_folder.name}-{name}.png") if shipped else run_folder / f"{name}.png"


def open_run(where: Path, runs: Path | None):
    """The run at a path, or with that name in the runs folder."""
    from persistor.training import Run, find_run

    return Run.open(find_run(where, runs))
