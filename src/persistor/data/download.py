"""Downloads that go on where they stopped and are believed only when their checksum is right."""

from __future__ import annotations

import fcntl
import http.client
import os
import urllib.error
import urllib.request
from pathlib import Path

from persistor._tools.errors import PersistorError
from persistor._tools.files import writing
from persistor.data.dataset import DataSet, File, data_folder
from persistor.data.workers import Report, silent

CHUNK = 1 << 20
TIMEOUT = 20.0  # seconds without a byte


def fetch(data: DataSet, report: Report = silent) -> list[Path]:
    """Bring the files of a data set, or make them, unless it is there already in some form."""
    if not data.found():
        folder = data_folder() / data.name
        if data.make is not None:
            with writing(folder):
                folder.mkdir(parents=True, exist_ok=True)
            data.make(folder, report)
        else:
            _download_all(data, folder, report)
    return data.locate()


def _download_all(data: DataSet, folder: Path, report: Report) -> None:
    missing = [file for file in data.files if data.find(file) is None]
    if not all(file.checksum for file in missing):
        raise data.missing()
    total, done = sum(file.size for file in missing), 0
    for file in missing:
        before = done
        download(file, folder / file.name, lambda n, _: report(before + n, total))  # noqa: B023
        done += file.size


def download(file: File, path: Path, report: Report = silent) -> None:
    """Bring one file, from where an earlier attempt stopped."""
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with writing(path.parent):
        held = part.open("ab")
    with held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PersistorError(
                f"{file.name} is being fetched by another process; try again when it is there"
            ) from None
        if not path.exists():  # or another process brought it just now
            _bring(file, part, path, report)


def _bring(file: File, part: Path, path: Path, report: Report) -> None:
    """Receive a file as `part`, and give it its name if it is the right one."""
    try:
        _receive(file, part, report)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or str(error) or type(error).__name__
        raise PersistorError(
            f"{file.name} cannot be fetched from {file.url} ({reason}); try again to go on, or get "
            f"it elsewhere and put it into {path.parent}"
        ) from None
    try:
        file.verify(part)
    except PersistorError:
        part.unlink()
        raise PersistorError(
            f"{file.url} sent something else than {file.name}: the checksum should be "
            f"{file.checksum}; nothing was kept"
        ) from None
    os.replace(part, path)


def _receive(file: File, part: Path, report: Report) -> None:
    """Append what is missing; begin again if the server does not know where we were."""
    done = part.stat().st_size if part.exists() else 0
    if done and done == file.size:
        return
    request = urllib.request.Request(file.url, headers={"Range": f"bytes={done}-"} if done else {})
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        part.unlink()  # more than the server has: not the beginning of this file
        _receive(file, part, report)
        return
    with answer:
        if answer.status != http.client.PARTIAL_CONTENT:
            done = 0
        whole = done + int(answer.headers.get("Content-Length", 0))
        with writing(part.parent), part.open("ab" if done else "wb") as output:
            while chunk := answer.read(CHUNK):
                output.write(chunk)
                done += len(chunk)
                report(done, file.size)
    if done < whole:
        raise http.client.IncompleteRead(b"", whole - done)
