"""The files of a folder, or of an archive of that folder, which is read without unpacking it.

A folder of your own is known by what it holds: `identity` covers names and contents, and neither
the place nor the times of the files.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import tarfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from persistor._tools.errors import PersistorError
from persistor._tools.files import reading


def contents(
    path: Path, wanted: Callable[[str], bool], largest: int
) -> Iterator[tuple[str, bytes]]:
    """Name and content of every wanted file: sorted by name in a folder, in order in an archive.

    Names are relative to the folder, whether or not the archive repeats the folder's name.
    """
    if path.is_dir():
        for name in sorted(filter(wanted, _files(path))):
            with reading(path / name) as opened:
                yield name, _bounded(path / name, opened.read(largest + 1), largest)
        return
    try:
        with tarfile.open(path, "r|*") as archive:
            for member in archive:
                name = _below_root(member.name, wanted)
                if name is not None and member.isfile():
                    opened = archive.extractfile(member)
                    assert opened is not None
                    yield name, _bounded(path / name, opened.read(largest + 1), largest)
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise PersistorError(f"{path} is not a complete archive: {error}") from None


def _below_root(name: str, wanted: Callable[[str], bool]) -> str | None:
    """The name of a member, with or without the archive's root folder; None if not wanted."""
    name = posixpath.normpath(name)
    if wanted(name):
        return name
    relative = name.partition("/")[2]
    return relative if wanted(relative) else None


def _bounded(path: Path, content: bytes, largest: int) -> bytes:
    if len(content) > largest:
        raise PersistorError(
            f"{path} has more than {largest:,} bytes; it is not from this data set"
        )
    return content


def _files(folder: Path) -> Iterator[str]:
    """Every file in a folder and its subfolders, as a path relative to the folder."""
    for where, _, names in os.walk(folder):
        subfolder = os.path.relpath(where, folder).replace(os.sep, "/")
        yield from (name if subfolder == "." else f"{subfolder}/{name}" for name in names)


def fingerprint(path: Path) -> str:
    """A few digits that change when the file, or any file of the folder, changes."""
    digest = hashlib.sha256()
    for name in sorted(_files(path)) if path.is_dir() else [""]:
        facts = os.lstat(os.path.join(path, name)) if name else os.stat(path)
        line = f"{name} {facts.st_size} {facts.st_mtime_ns}\n"
        digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Survey:
    """The files of a folder that have a wanted ending, and how many others were left out, and why.

    `fingerprint` changes when any of the files may have changed.
    """

    names: tuple[str, ...]
    skipped: Mapping[str, int]
    fingerprint: str


def survey(folder: Path, endings: tuple[str, ...]) -> Survey:
    """Look through a folder and its subfolders. Links are followed.

    Hidden files, empty files, other files and folders that begin with _ are left out.
    """
    facts, skipped = [], Counter[str]()
    for name, entry in _entries(folder, "", (os.path.realpath(folder),), skipped):
        reason, line = _judged(name, entry, endings)
        if reason:
            skipped[reason] += 1
        else:
            facts.append((name, line))
    facts.sort()
    lines = "".join(line for _, line in facts).encode(errors="surrogateescape")
    names = tuple(name for name, _ in facts)
    return Survey(names, dict(skipped), hashlib.sha256(lines).hexdigest()[:16])


def _entries(
    folder: Path, below: str, above: tuple[str, ...], skipped: Counter[str]
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Every file, with its name relative to the top; a link back to a folder above is left out."""
    try:
        entries = sorted(os.scandir(folder / below), key=lambda entry: entry.name)
    except OSError as error:
        raise PersistorError(f"{folder / below} cannot be read: {error.strerror}") from None
    for entry in entries:
        name = f"{below}/{entry.name}" if below else entry.name
        if not entry.is_dir():
            yield name, entry
        elif entry.name.startswith("."):
            skipped["hidden"] += 1
        elif os.path.realpath(entry.path) in above:
            skipped["links in a circle"] += 1
        else:
            yield from _entries(folder, name, (*above, os.path.realpath(entry.path)), skipped)


def _judged(name: str, entry: os.DirEntry[str], endings: tuple[str, ...]) -> tuple[str, str]:
    """Why a file is left out, or else a line of facts about it."""
    if entry.name.startswith("."):
        return "hidden", ""
    if any(part.startswith("_") for part in name.split("/")[:-1]):
        return "in folders that begin with _", ""
    try:
        facts = entry.stat()
    except OSError:
        return "broken links", ""
    if not entry.name.lower().endswith(endings):
        return "other files", ""
    if not facts.st_size:
        return "empty", ""
    return "", f"{name} {facts.st_size} {facts.st_mtime_ns}\n"


def checksum(content: bytes | memoryview) -> str:
    """The SHA-256 of a content, in hex digits."""
    return hashlib.sha256(content).hexdigest()


def identity(sums: Mapping[str, str]) -> str:
    """One checksum for many contents: over their names and checksums, in the order of the names."""
    lines = "".join(f"{name}\0{sums[name]}\n" for name in sorted(sums))
    return checksum(lines.encode(errors="surrogateescape"))


def difference(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """What was added, removed and changed, by name."""
    changed = [name for name in before if name in after and before[name] != after[name]]
    lists = {
        "added": sorted(set(after) - set(before)),
        "removed": sorted(set(before) - set(after)),
        "changed": sorted(changed),
    }
    return "; ".join(f"{verb} {some(names)}" for verb, names in lists.items() if names)


def some(names: list[str], most: int = 3) -> str:
    """The first few names, and how many there are besides."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest:,} more" if rest > 0 else "")
