"""Files that are whole or absent, and JSON in them."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from persistor._tools.errors import PersistorError


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


@contextlib.contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
    """A file to read from; if that fails, a line that says so."""
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise PersistorError(f"{path} cannot be read: {error.strerror or error}") from None


def write_json(path: Path, value: Any) -> None:
    """Write JSON for people: indented, with a final newline."""
    write_atomically(path, (json.dumps(value, indent=2) + "\n").encode())


def read_json(path: Path) -> Any:
    """Read JSON that we wrote."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise PersistorError(f"{path} is missing") from None
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise PersistorError(f"{path} is damaged: it is not JSON") from None
