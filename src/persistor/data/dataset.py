"""A data set is files of a publisher, known by their checksums, in a folder of the reader's choice.

Files are used where they lie and as they were published: archives are read, never unpacked, so
nothing in them can write anywhere.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from persistor._tools.errors import PersistorError
from persistor._tools.files import reading
from persistor.data.workers import Report

SPLITS = ("train", "valid", "test")


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
        facts = path.stat()
        found = _digest(path, algorithm, facts.st_size, facts.st_mtime_ns)
        if found != expected:
            raise PersistorError(
                f"{path} is damaged or another file: its {algorithm} is {found}, expected "
                f"{expected}; remove it and get it again from {self.url}"
            )


@functools.lru_cache
def _digest(path: Path, algorithm: str, size: int, time: int) -> str:
    """The digest of a file, read again only when its size or time has changed."""
    with reading(path) as file:
        digest = hashlib.new(algorithm)
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


@dataclass(frozen=True)
class DataSet:
    """A data set, and the forms in which it may lie there: the first is the one to fetch."""

    name: str
    summary: str
    forms: tuple[tuple[File, ...], ...]
    places: tuple[str, ...] = ()  # folders, besides the data folder and one named like the set
    make: Callable[[Path, Report], None] | None = None  # for what is drawn, not downloaded
    sizes: tuple[int, int, int] | None = None  # examples for training, validation and test
    joined: str = ""  # sha256 of all files one after another, where they have no checksums

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

    def found(self) -> list[tuple[File, Path]]:
        """The files of the first form that is there in full, and where; none if there is none."""
        for form in self.forms:
            pairs = [(file, path) for file in form if (path := self.find(file)) is not None]
            if len(pairs) == len(form):
                return pairs
        return []

    def locate(self) -> list[Path]:
        """Where the files of the first form lie that is there in full, each verified."""
        pairs = self.found()
        if not pairs:
            raise self.missing()
        for file, path in pairs:
            file.verify(path)
        return [path for _, path in pairs]

    def size(self, split: str) -> int:
        """The number of examples in a split."""
        assert self.sizes is not None, f"{self.name} has no splits of its own"
        return self.sizes[SPLITS.index(split)]

    def slice(self, split: str) -> slice:
        """The examples of a split, where splits follow one another."""
        begin = sum(self.size(earlier) for earlier in SPLITS[: SPLITS.index(split)])
        return slice(begin, begin + self.size(split))

    def missing(self) -> PersistorError:
        """What to do about files that are not there."""
        absent = next(file for file in self.files if self.find(file) is None)
        command = f"`persistor data fetch {self.name}`"
        if self.make is not None:
            remedy = f"{command} makes it"
        else:
            either = f"{command} gets it, or " if absent.checksum else ""
            remedy = f"{either}take it from {absent.url} and put it there"
        return PersistorError(f"{self.name}: {absent.name} is not in {data_folder()}; {remedy}")
