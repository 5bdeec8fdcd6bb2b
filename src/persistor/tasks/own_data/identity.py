"""Your own data are known by what they hold, wherever they are."""

from __future__ import annotations

import contextlib
import dataclasses
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from persistor._tools.errors import PersistorError
from persistor._tools.files import read_json, reading, write_json
from persistor.data.contents import checksum, difference, identity
from persistor.data.prepared import remembered
from persistor.nn.pooling import Pooling
from persistor.tasks.task import Task, computed

HINTS = ("path", "group_file", "examples", "characters", "mean", "deviation")
KEPT_DIGITS = 16  # of the checksum of each file, which say whether it has changed
OLD_DIGITS = 16  # of the digests of earlier versions, which covered the path and times as well


@dataclass(frozen=True)
class OwnData(Task):
    """What tasks on your own data share: a place, and a checksum of all that is there."""

    path: str
    digest: str

    summary = "your own data"
    pooling = Pooling.MEAN

    @computed
    def hints(self) -> tuple[str, ...]:
        """Where the data are, and what follows from them. It was part of earlier experiments."""
        return () if self._is_old else HINTS

    @property
    def _is_old(self) -> bool:
        return len(self.digest) == OLD_DIGITS

    def to_json(self) -> dict[str, Any]:
        """The fields; defaults of later ones are left out, so that earlier runs keep their hash."""
        later = {f.name: f.default for f in dataclasses.fields(self) if f.kw_only}
        values = dataclasses.asdict(self)
        return {k: v for k, v in values.items() if k not in later or v != later[k]}

    @abstractmethod
    def sums(self) -> dict[str, str]:
        """The checksum of everything that the task is made of, by name."""

    @abstractmethod
    def _old_digest(self, path: Path) -> str:
        """The digest that earlier versions kept."""

    def remarks(self) -> tuple[str, ...]:
        """What a person should know before training: a summary, then warnings."""
        return ()

    def options(self) -> list[str]:
        """The options of `persistor train` that name this task."""
        return ["--data", self.path]

    def with_data(self, path: Path) -> OwnData:
        """The same data at another place."""
        return dataclasses.replace(self, path=str(path.resolve()))

    def _place(self) -> Path:
        path = Path(self.path)
        if not path.exists():
            raise PersistorError(
                f"{path} no longer exists; say where it is now with --data PATH, or repeat the "
                "command that trained the run with the new place"
            )
        return path

    def _check(self, sums: Mapping[str, str]) -> None:
        """Raise if the data are not those that the task was made of, and say what is different."""
        digest = self._old_digest(Path(self.path)) if self._is_old else identity(sums)
        if digest == self.digest:
            return
        before = shortened(remembered(contents_key(self.digest)) or _beside_a_run(self.digest))
        what = f" ({difference(before, shortened(sums))})" if before else ""
        if self._is_old and Path(self.path).is_dir():
            what = " (it is of an earlier version, which compares the times of files, too)"
        raise PersistorError(
            f"{self.path} has changed since this run was started{what}; undo that, or start a new "
            "run with --data"
        )


def contents_key(digest: str) -> str:
    """Where the checksums of data are kept, to be able to say what has changed."""
    return f"contents-{digest[:24]}"


def shortened(sums: Mapping[str, str]) -> dict[str, str]:
    """As much of the checksums as is kept."""
    return {name: checked[:KEPT_DIGITS] for name, checked in sums.items()}


_beside: dict[str, Path] = {}  # files of checksums in the folders of runs, by digest


def keep_sums(task: Any, path: Path) -> None:
    """Write the checksums of your own data to a file, which may travel with a run."""
    sums = remembered(contents_key(task.digest)) if isinstance(task, OwnData) else None
    if sums and not path.exists():
        with contextlib.suppress(PersistorError):  # a run that may only be read is one all the same
            write_json(path, shortened(sums))


def find_sums(task: Any, path: Path) -> None:
    """Note where the checksums of your own data may be."""
    if isinstance(task, OwnData):
        _beside[task.digest] = path


def _beside_a_run(digest: str) -> dict[str, str]:
    path = _beside.get(digest)
    return read_json(path) if path is not None and path.exists() else {}


def file_sum(path: Path) -> str:
    """The checksum of a file."""
    with reading(path) as file:
        return checksum(file.read())
