"""The files of a folder, or of an archive of that folder, which is read without unpacking it."""

from __future__ import annotations

import hashlib
import os
import posixpath
import tarfile
import zlib
from collections.abc import Callable, Iterator
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
