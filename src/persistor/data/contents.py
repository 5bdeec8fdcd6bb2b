"""The files of a folder, or of an archive of that folder: read where they are, never unpacked."""

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
    """Name and content of every wanted file: of a folder by name, of an archive in its order.

    Names are relative to the folder, whether or not the archive repeats the folder's own name.
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
        raise PersistorError(f"{path} is not a whole archive: {error}") from None


def _below_root(name: str, wanted: Callable[[str], bool]) -> str | None:
    """The wanted name that a member stands for, with the archive's own folder or without."""
    name = posixpath.normpath(name)
    if wanted(name):
        return name
    below = name.partition("/")[2]
    return below if wanted(below) else None


def _bounded(path: Path, content: bytes, largest: int) -> bytes:
    if len(content) > largest:
        raise PersistorError(f"{path} is larger than {largest:,} bytes: not a file of this set")
    return content


def _files(folder: Path) -> Iterator[str]:
    """Every file below a folder, as a path relative to it."""
    for where, _, names in os.walk(folder):
        below = os.path.relpath(where, folder).replace(os.sep, "/")
        yield from (name if below == "." else f"{below}/{name}" for name in names)


def fingerprint(path: Path) -> str:
    """A few digits that change when the file, or any file of the folder, is another."""
    digest = hashlib.sha256()
    for name in sorted(_files(path)) if path.is_dir() else [""]:
        facts = os.lstat(os.path.join(path, name)) if name else os.stat(path)
        line = f"{name} {facts.st_size} {facts.st_mtime_ns}\n"
        digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()[:16]
