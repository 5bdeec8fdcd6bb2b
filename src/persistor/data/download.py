"""Downloads that continue where they stopped, and count only if their checksum is right."""

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
    """Download or generate the files of a data set, unless they are already there in some form."""
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
    """Download one file, from where an earlier attempt stopped."""
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    with writing(partial):
        lock = partial.open("ab")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PersistorError(
                f"another process is downloading {file.name}; try again when it is done"
            ) from None
        if not path.exists():  # otherwise another process has just finished it
            _download_and_verify(file, partial, path, report)


def _download_and_verify(file: File, partial: Path, path: Path, report: Report) -> None:
    """Download to the partial file, and give it its final name if its checksum is right."""
    try:
        _receive(file, partial, report)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or str(error) or type(error).__name__
        raise PersistorError(
            f"{file.name} cannot be fetched from {file.url} ({reason}); try again to continue, or "
            f"get it elsewhere and put it into {path.parent}"
        ) from None
    try:
        file.verify(partial)
    except PersistorError:
        partial.unlink()
        raise PersistorError(
            f"{file.url} did not send {file.name}: the checksum should be {file.checksum}; "
            "the download was deleted"
        ) from None
    os.replace(partial, path)


def _receive(file: File, partial: Path, report: Report) -> None:
    """Append what is missing; start again if the server cannot continue from there."""
    done = partial.stat().st_size if partial.exists() else 0
    if done and done == file.size:
        return
    request = urllib.request.Request(file.url, headers={"Range": f"bytes={done}-"} if done else {})
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        partial.unlink()  # longer than the server's file, so it is not the beginning of it
        _receive(file, partial, report)
        return
    with answer:
        if answer.status != http.client.PARTIAL_CONTENT:
            done = 0
        whole = done + int(answer.headers.get("Content-Length", 0))
        with writing(partial), partial.open("ab" if done else "wb") as output:
            while chunk := answer.read(CHUNK):
                output.write(chunk)
                done += len(chunk)
                report(done, file.size)
    if done < whole:
        raise http.client.IncompleteRead(b"", whole - done)
