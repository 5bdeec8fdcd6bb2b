"""Finished runs in a few files: one line for each run, and one zip file of curves for each
family of tasks.

| file | what it holds |
|---|---|
| runs.jsonl | one line for each run, sorted by name: experiment, result, extras, and their digest |
| curves/FAMILY.zip | the progress.jsonl of every run, as NAME.jsonl; kws-all is of the family kws |
| printed.jsonl | what other commands printed with --json: one line for each name and output |

The digest covers a run's line and its curve, so an accidental edit or exchange is noticed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import json
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from persistor._tools.errors import PersistorError
from persistor._tools.files import reading, write_atomically, writing
from persistor.experiment import Experiment
from persistor.reproduction.record import EXTRAS, Record, decoded

RUNS, CURVES, PRINTED = "runs.jsonl", "curves", "printed.jsonl"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the time of every member, so that the same runs make the same file


@dataclass(frozen=True)
class Archive:
    """The archive in a folder; it is empty if the folder has no files yet."""

    folder: Path

    def read(self) -> tuple[list[Record], list[str]]:
        """The runs, sorted by name, and one line for every run that cannot be read."""
        records: dict[str, Record] = {}
        problems = []
        for number, text in enumerate(_lines(self.folder / RUNS), 1):
            where = f"line {number} of {RUNS}"
            try:
                record = self._record(text)
                if record.name in records:
                    raise PersistorError(f"{record.name} already has a line")
                records[record.name] = record
            except PersistorError as error:
                problems.append(f"{where} is left out: {error}")
        return sorted(records.values(), key=lambda record: record.name), problems

    def _record(self, text: str) -> Record:
        """The run of a line. Its curve is read, and the digest checked, only when needed."""
        try:
            line = json.loads(text)
            name, description, result = str(line["run"]), line["experiment"], line["result"]
            whole = {"experiment": description, "run": name, **result}
            extras = {extra: line[extra] for extra in EXTRAS if extra in line}
        except (json.JSONDecodeError, KeyError, TypeError):
            raise PersistorError("it does not describe a run") from None
        try:
            experiment = Experiment.from_json(description)
        except PersistorError as error:
            raise PersistorError(f"{name}: {error}") from None
        return Record(name, experiment, whole, lambda: self._curve(experiment, name, line), extras)

    def _curve(self, experiment: Experiment, name: str, line: dict[str, Any]) -> str:
        """The curve of a run; an error if the digest does not match the line and the curve."""
        curves = self._curves(experiment)
        text = decoded(_members(curves, [name]).get(name, b""), f"its curve in {curves}")
        if not text:
            raise PersistorError(f"its curve is not in {curves}")
        if line.get("digest") != digest_of(line, text):
            raise PersistorError("its line or its curve was changed after it was written")
        return text

    def _curves(self, experiment: Experiment) -> Path:
        """The file of a run's curve: tasks whose names begin with the same word share one."""
        family = experiment.task.name.partition("-")[0]
        return self.folder / CURVES / f"{family}.zip"

    def add(self, records: Sequence[Record]) -> dict[str, str]:
        """Add runs, all or none. Returns for each: `added`, `updated` or `there already`.

        Every run must pass its checks. An experiment has one result. A run that is already in the
        archive is updated with its new extras.
        """
        with self._locked():
            known, problems = self.read()
            for problem in problems:
                raise PersistorError(f"{self.folder / RUNS} must be repaired first: {problem}")
            kept = {record.name: record for record in known}
            fates: dict[str, str] = {}
            for record in records:
                merged, fates[record.name] = _merge(kept.get(record.name), record)
                kept[record.name] = merged
            changed = {name for name, fate in fates.items() if fate != "there already"}
            new = [kept[name] for name in sorted(changed)]
            if new:
                self._write_curves(new)
                self._write_lines(new)
        return fates

    def _write_curves(self, records: Iterable[Record]) -> None:
        """Add curves to the files of their tasks. Call this before writing the runs' lines."""
        files: dict[Path, dict[str, bytes]] = {}
        for record in records:
            files.setdefault(self._curves(record.experiment), {})[record.name] = (
                record.curve.encode()
            )
        with writing(self.folder):
            (self.folder / CURVES).mkdir(parents=True, exist_ok=True)
        for path, curves in files.items():
            _add_members(path, curves)

    def _write_lines(self, records: Iterable[Record]) -> None:
        """Write the lines of these runs; all other lines stay as they are."""
        path = self.folder / RUNS
        lines = {json.loads(text)["run"]: text for text in _lines(path)}
        lines |= {record.name: line_of(record) for record in records}
        text = "".join(f"{lines[name]}\n" for name in sorted(lines))
        write_atomically(path, text.encode())

    def check(self) -> list[str]:
        """The problems of the archive, one line each."""
        records, problems = self.read()
        for record in records:
            try:
                record.tested()
            except PersistorError as error:
                problems.append(f"{record.name}: {error}")
        named = {(self._curves(record.experiment), record.name) for record in records}
        for path in sorted((self.folder / CURVES).glob("*")):
            try:
                strays = [name for name in _members(path) if (path, name) not in named]
            except PersistorError as error:
                problems.append(str(error))
                continue
            problems += [f"{path} holds a curve of {name}, which has no line" for name in strays]
        return problems

    def printed(self) -> dict[str, Any]:
        """What other commands printed, by name."""
        path = self.folder / PRINTED
        try:
            lines = map(json.loads, _lines(path))
            return {line["name"]: line["printed"] for line in lines}
        except (json.JSONDecodeError, KeyError, TypeError):
            raise PersistorError(f"{path} is damaged: a line is not a name and an output") from None

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Let one process at a time add runs."""
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def line_of(record: Record) -> str:
    """The line of a run. What the run and its result have in common is written once."""
    result = {k: v for k, v in record.result.items() if k not in ("experiment", "run")}
    line = {"run": record.name, "experiment": record.result["experiment"], "result": result}
    line |= record.extras
    return json.dumps({**line, "digest": digest_of(line, record.curve)})


def digest_of(line: dict[str, Any], curve: str) -> str:
    """Sixteen hex digits that identify a line and its curve."""
    whole = {**{k: v for k, v in line.items() if k != "digest"}, "curve": curve}
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _merge(known: Record | None, record: Record) -> tuple[Record, str]:
    """The record to keep, given the one in the archive and the one to add, and what was done."""
    try:
        value = record.tested()
        if known is None:
            return record, "added"
        if (known.result, known.curve) != (record.result, record.curve):
            raise PersistorError(
                f"the archive has another result of this experiment (test {record.metric} "
                f"{known.tested():.4f}, this one {value:.4f}) and keeps only one"
            )
    except PersistorError as error:
        raise PersistorError(f"{record.name} is not added: {error}") from None
    if all(known.extras.get(name) == extra for name, extra in record.extras.items()):
        return known, "there already"
    extras = {**known.extras, **record.extras}
    return Record(record.name, record.experiment, record.result, record.read_curve, extras), (
        "updated"
    )


def _lines(path: Path) -> list[str]:
    """The lines of a file; none if there is no file."""
    if not path.exists():
        return []
    with reading(path) as file:
        return decoded(file.read(), str(path)).splitlines()


def _members(path: Path, names: Iterable[str] | None = None) -> dict[str, bytes]:
    """The curves in a file: all of them, or those of some runs."""
    if not path.exists():
        return {}
    try:
        with reading(path) as file, zipfile.ZipFile(file) as archive:
            stored = [name.removesuffix(".jsonl") for name in archive.namelist()]
            wanted = stored if names is None else [name for name in names if name in stored]
            return {name: archive.read(f"{name}.jsonl") for name in wanted}
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, NotImplementedError):
        raise PersistorError(f"{path} is damaged: it is not a zip file of curves") from None


def _add_members(path: Path, curves: dict[str, bytes]) -> None:
    """Add curves to a file. Its old bytes stay the same, unless one of its curves changes."""
    stored = _members(path)
    new = {name: curve for name, curve in curves.items() if stored.get(name) != curve}
    if not new:
        return
    stale = not stored.keys().isdisjoint(new)  # left by an addition that was interrupted
    buffer = io.BytesIO(b"" if stale or not stored else path.read_bytes())
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, curve in sorted(({**stored, **new} if stale else new).items()):
            archive.writestr(zipfile.ZipInfo(f"{name}.jsonl", EPOCH), curve, zipfile.ZIP_DEFLATED)
    write_atomically(path, buffer.getvalue())
