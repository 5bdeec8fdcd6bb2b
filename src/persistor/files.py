"""Files that are whole or absent."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from persistor.errors import PersistorError

PICTURES = (".png", ".pdf", ".svg")


def write_atomically(path: Path, data: bytes) -> None:
    """Write to a temporary name, flush to disk, rename: readers see the old file or the new."""
    with replacing(path) as file:
        file.write(data)


@contextlib.contextmanager
def replacing(path: Path, within: Path | None = None) -> Iterator[BinaryIO]:
    """A file to write to, which takes its name when the block ends well and vanishes otherwise.

    Until then it lies in its folder, or in another one on the same disk.
    """
    with writing(path.parent):
        handle, temporary = tempfile.mkstemp(dir=within or path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn a disk that is full or closed to us into a line that says so."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            reason = "the disk is full; make room and run the same command again"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            reason = "it may not be written to; choose another folder"
        elif error.errno == errno.ENOENT:
            reason = "it is not there; make it, or choose another folder"
        elif error.errno == errno.EISDIR:
            reason = "there is a folder where the file should go"
        else:
            raise
        raise PersistorError(
            f"cannot write to {folder}: {reason} (what was saved stands)"
        ) from None


def save_figure(figure: Any, path: Path, dpi: int) -> None:
    """Write a figure of matplotlib's; the end of the name says in which form."""
    if path.suffix not in PICTURES:
        raise PersistorError(f"{path} names no picture; end it in {', '.join(PICTURES)}")
    with writing(path.parent):
        figure.savefig(path, dpi=dpi)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
    """A file to read from; if that fails, a line that says so."""
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise PersistorError(f"{path} cannot be read: {error.strerror or error}") from None
