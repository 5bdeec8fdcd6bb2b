"""Files that are complete or absent, and JSON in them."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from persistor._tools.errors import NoRoom, PersistorError

FULL = {
    errno.ENOSPC: "the disk is full; make room and run the same command again",
    errno.EDQUOT: "your disk quota is used up; make room and run the same command again",
    errno.EFBIG: "the file would be larger than `ulimit -f` allows; "
    "raise that limit and run the same command again",
}


def write_atomically(path: Path, data: bytes) -> None:
    """Write to a temporary name, flush to disk, rename: readers see the old file or the new."""
    with replacing(path) as file:
        file.write(data)


@contextlib.contextmanager
def replacing(path: Path, within: Path | None = None) -> Iterator[BinaryIO]:
    """A file to write to. It takes its name if the block succeeds; otherwise it is deleted.

    Until then it is in the same folder, or in the folder `within` on the same disk.
    """
    temporary = (within or path.parent) / f".{path.name}.{secrets.token_hex(4)}"
    with writing(path):
        try:
            with temporary.open("xb") as file:  # with the permissions that the umask leaves
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise


@contextlib.contextmanager
def writing(place: Path) -> Iterator[None]:
    """Turn what the system says when a file or folder cannot be written into one line."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            refusal, reason = NoRoom, FULL[error.errno]
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            refusal, reason = PersistorError, "you may not write there; choose another folder"
        elif error.errno == errno.ENOENT:
            refusal = PersistorError
            reason = "the folder does not exist; create it, or choose another"
        elif error.errno == errno.EISDIR:
            refusal, reason = PersistorError, "a folder has the name of the file"
        else:
            raise
        raise refusal(
            f"cannot write to {place}: {reason} (files saved earlier are intact)"
        ) from None


@contextlib.contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
    """A file to read from; an error in one line if it cannot be read."""
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise PersistorError(f"{path} cannot be read: {error.strerror or error}") from None


def write_json(path: Path, value: Any) -> None:
    """Write JSON for people: indented, with a final newline."""
    write_atomically(path, (json.dumps(value, indent=2) + "\n").encode())


def read_json(path: Path) -> Any:
    """Read JSON that `write_json` wrote."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise PersistorError(f"{path} is missing") from None
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise PersistorError(f"{path} is damaged: it is not JSON") from None
