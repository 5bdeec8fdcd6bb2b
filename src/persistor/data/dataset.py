"""A data set is a set of published files, known by their checksums, in a folder that you choose.

Files are used where they are and as they were published. Archives are read but never unpacked, so
nothing in them can write to the disk.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from persistor._tools.errors import PersistorError, unknown
from persistor._tools.files import reading
from persistor.data.workers import Report

SPLITS = ("train", "valid", "test")


def split_number(name: str) -> int:
    """The place of a split among the three; an error if there is none of this name."""
    if name not in SPLITS:
        raise unknown("split", name, SPLITS)
    return SPLITS.index(name)


def data_folder() -> Path:
    """The folder of the data: $PERSISTOR_DATA (set by `--data-dir`), else the cache folder."""
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
        """Raise if the bytes of a file are not the publisher's."""
        if not self.checksum:
            return
        algorithm, expected = self.checksum.split(":")
        facts = path.stat()
        actual = _digest(path, algorithm, facts.st_size, facts.st_mtime_ns)
        if actual != expected:
            raise PersistorError(
                f"{path} is damaged or another file: its {algorithm} is {actual}, expected "
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
    """A data set, and the forms in which its files may be stored; `fetch` gets the first form."""

    name: str
    summary: str
    forms: tuple[tuple[File, ...], ...]
    places: tuple[str, ...] = ()  # folders to search, besides the data folder and `name` in it
    make: Callable[[Path, Report], None] | None = None  # if the data are generated, not downloaded
    sizes: tuple[int, int, int] | None = None  # examples for training, validation and test
    joined: str = ""  # sha256 of all files one after another, if they have no checksums

    @property
    def files(self) -> tuple[File, ...]:
        """The files that `fetch` gets."""
        return self.forms[0]

    def find(self, file: File) -> Path | None:
        """The path of a file; None if it is missing."""
        for place in ("", self.name, *self.places):
            path = data_folder() / place / file.name
            if path.exists():
                return path
        return None

    def found(self) -> list[tuple[File, Path]]:
        """The files of the first form that is complete, with their paths; none if none is."""
        for form in self.forms:
            pairs = [(file, path) for file in form if (path := self.find(file)) is not None]
            if len(pairs) == len(form):
                return pairs
        return []

    def locate(self) -> list[Path]:
        """The paths of the first form that is complete, each file verified."""
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
        """The examples of a split, if the splits follow one another."""
        begin = sum(self.size(earlier) for earlier in SPLITS[: SPLITS.index(split)])
        return slice(begin, begin + self.size(split))

    def missing(self) -> PersistorError:
        """The error for missing files, which says how to get them."""
        absent = next(file for file in self.files if self.find(file) is None)
        command = f"`persistor data fetch {self.name}`"
        if self.make is not None:
            remedy = f"{command} makes it"
        else:
            either = f"{command} gets it, or " if absent.checksum else ""
            remedy = f"{either}download it from {absent.url} and put it there"
        return PersistorError(f"{self.name}: {absent.name} is not in {data_folder()}; {remedy}")
