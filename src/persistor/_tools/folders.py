"""Folders that are written whole or not at all, and never over what somebody else made."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from persistor._tools.errors import PersistorError
from persistor._tools.files import read_json, writing

MANIFEST = "persistor.json"  # says which files a folder was made of
BUILD = "build"  # what is made from a folder may lie in there


def write_folder(folder: Path, contents: Mapping[str, bytes], **said: Any) -> None:
    """Write a new folder, or replace one that was written here and not changed since.

    `said` goes into its manifest.
    """
    check_replaceable(folder)
    folder = folder.absolute()
    listed = {**said, "files": {path: checksum(content) for path, content in contents.items()}}
    manifest = (json.dumps(listed, indent=2) + "\n").encode()
    mark = secrets.token_hex(4)
    fresh, stale = (folder.parent / f".{folder.name}.{mark}.{what}" for what in ("new", "old"))
    with writing(folder):
        try:
            fresh.mkdir()
            for path, content in {**contents, MANIFEST: manifest}.items():
                _write(fresh / path, content)
            _swap(fresh, folder, stale)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    shutil.rmtree(stale, ignore_errors=True)


def check_replaceable(folder: Path) -> None:
    """Raise unless the folder is new, or empty, or as `write_folder` left it."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise PersistorError(f"{folder} is not a folder; choose another name")
    if not folder.exists() or not any(folder.iterdir()):
        return
    manifest = read_json(folder / MANIFEST) if (folder / MANIFEST).is_file() else None
    known = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(known, dict):
        raise PersistorError(
            f"{folder} was not made by `persistor export`; choose another folder, or empty this one"
        )
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_dir() or name == MANIFEST or name.split("/")[0] == BUILD:
            continue
        if name not in known or checksum(path.read_bytes()) != known[name]:
            what = "was changed" if name in known else "was added"
            raise PersistorError(
                f"{path} {what} after the export; move it away, or choose another folder"
            )


def checksum(content: bytes) -> str:
    """Of a file's content."""
    return hashlib.sha256(content).hexdigest()


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _swap(fresh: Path, folder: Path, stale: Path) -> None:
    """Put a folder in the place of another, which goes to `stale`, or comes back if that fails."""
    if folder.exists():
        os.rename(folder, stale)
    try:
        os.rename(fresh, folder)
    except OSError:
        with contextlib.suppress(OSError):
            os.rename(stale, folder)
        raise
