"""A data set is files of a publisher, known by their checksums, in a folder of the reader's choice.

Files are used where they lie and as they were published: archives are read, never unpacked, so
nothing in them can write anywhere.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from persistor.errors import PersistorError

Report = Callable[[int, int], None]  # hears (done, total)


def silent(done: int, total: int) -> None:
    """A report that nobody hears."""


def data_folder() -> Path:
    """Where data lie: $PERSISTOR_DATA (`--data-dir` sets it), else the platform's cache folder."""
    chosen = os.environ.get("PERSISTOR_DATA")
    return Path(chosen) if chosen else platformdirs.user_cache_path("persistor", False) / "data"


@dataclass(frozen=True)
class File:
    """A file as its publisher names it. Unpacked forms have neither an address nor a checksum."""

    name: str
    url: str = ""
    checksum: str = ""  # algorithm:digits
    size: int = 0

    def verify(self, path: Path) -> None:
        """Refuse a file whose bytes are not the publisher's."""
        if not self.checksum:
            return
        algorithm, expected = self.checksum.split(":")
        with path.open("rb") as file:
            found = hashlib.file_digest(file, algorithm).hexdigest()
        if found != expected:
            raise PersistorError(
                f"{path} is damaged or another file: its {algorithm} is {found}, expected "
                f"{expected}; remove it and get it again from {self.url}"
            )


@dataclass(frozen=True)
class DataSet:
    """A data set, and the forms in which it may lie there: the first is the one to fetch."""

    name: str
    summary: str
    forms: tuple[tuple[File, ...], ...]
    places: tuple[str, ...] = ()  # folders, besides the data folder and one named like the set

    @property
    def files(self) -> tuple[File, ...]:
        """What `fetch` brings."""
        return self.forms[0]

    def find(self, file: File) -> Path | None:
        """Where a file lies, if it is there."""
        for place in ("", self.name, *self.places):
            path = data_folder() / place / file.name
            if path.exists():
                return path
        return None

    def found(self) -> list[Path] | None:
        """The paths of the first form that is there in full."""
        for form in self.forms:
            paths = [path for file in form if (path := self.find(file)) is not None]
            if len(paths) == len(form):
                return paths
        return None

    def locate(self) -> list[Path]:
        """The paths of the first form that is there in full, each verified."""
        for form in self.forms:
            paths = [path for file in form if (path := self.find(file)) is not None]
            if len(paths) == len(form):
                for file, path in zip(form, paths, strict=True):
                    file.verify(path)
                return paths
        raise self.missing()

    def missing(self) -> PersistorError:
        """What to do about files that are not there."""
        absent = next(file for file in self.files if self.find(file) is None)
        return PersistorError(
            f"{self.name}: {absent.name} is not in {data_folder()}; `persistor data fetch "
            f"{self.name}` gets it, or take it from {absent.url} and put it there"
        )
