"""Your own data as a task: sounds, arrays, tables or a text, under the same protocol.

An experiment on them is known by what the files hold. Where they are is only a hint, so they may
move, but a run continues only with the same contents.
"""

from __future__ import annotations

from pathlib import Path

from persistor._tools.errors import PersistorError
from persistor.data.contents import survey
from persistor.data.prepared import remember
from persistor.data.sounds import ENDINGS
from persistor.data.tables import TABLES
from persistor.data.workers import Report, silent
from persistor.tasks.own_data.identity import OwnData, contents_key, shortened
from persistor.tasks.own_data.reading import Reading
from persistor.tasks.own_data.series import OwnArrays, OwnTable
from persistor.tasks.own_data.sounds import OwnSounds
from persistor.tasks.own_data.text import OwnText

__all__ = [
    "OWN_DATA",
    "OwnArrays",
    "OwnData",
    "OwnSounds",
    "OwnTable",
    "OwnText",
    "Reading",
    "own_task",
]

OWN_DATA: tuple[type[OwnData], ...] = (OwnArrays, OwnSounds, OwnTable, OwnText)


def own_task(path: str | Path, reading: Reading | None = None, report: Report = silent) -> OwnData:
    """The task on your file or folder; `report` is called with the number of files read."""
    if not isinstance(path, str | Path):
        raise PersistorError(f"path is {path!r}; give the name of a file or folder")
    if not isinstance(reading, Reading | None):
        raise PersistorError(f"reading is {reading!r}; give a Reading")
    path, reading = Path(path).resolve(), reading or Reading()
    if not path.exists():
        raise PersistorError(
            f"{path} does not exist; give a folder of sounds, arrays or tables, or a file: .npz, "
            ".csv, .parquet, or a text"
        )
    task = _of_kind(path, reading, report)
    remember(contents_key(task.digest), shortened(task.sums()))
    return task


def _of_kind(path: Path, reading: Reading, report: Report) -> OwnData:
    kind = _kind(path, reading)
    if kind == "tables":
        reading.only(path, kind, "split", "group_by", "columns", "target", "sequence")
        return OwnTable.of(path, reading)
    if kind == "arrays":
        reading.only(path, kind, "group_by")
        return OwnArrays.of(path, reading)
    if kind == "sounds":
        reading.only(path, kind, "clip", "split", "group_by")
        return OwnSounds.of(path, reading, report)
    reading.only(path, kind)
    return OwnText.of(path)


def _kind(path: Path, reading: Reading) -> str:
    """What a file or folder holds, by its endings; in a folder, sounds come before tables."""
    if path.is_dir():
        endings = {Path(name).suffix.lower() for name in survey(path, (*ENDINGS, *TABLES)).names}
        if any(path.glob("*.npy")):
            return "arrays"
        asked = reading.columns or reading.target
        is_table = endings & set(TABLES) and (asked or not endings & set(ENDINGS))
        return "tables" if is_table else "sounds"
    ending = path.suffix.lower()
    if ending in (*ENDINGS, ".npy"):
        raise PersistorError(f"{path} is a single file; give the folder that it is in")
    return "tables" if ending in TABLES else "arrays" if ending == ".npz" else "a text"
