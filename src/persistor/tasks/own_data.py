"""Your own data as a task: sounds, arrays, tables or a text, under the same protocol.

An experiment on them is known by what the files hold. Where they are is only a hint, so they may
move, but a run continues only with the same contents.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor._tools.files import reading
from persistor.arrays import Array, Float, Int
from persistor.data import splits
from persistor.data.contents import checksum, difference, fingerprint, identity, some, survey
from persistor.data.mfcc import COEFFICIENTS
from persistor.data.preparation import Preparation
from persistor.data.prepared import remember, remembered
from persistor.data.series import TABLES, Series, arrays_at, chunks, table_at
from persistor.data.sounds import ENDINGS, LONGEST, Sounds, sounds_in
from persistor.data.splits import Division
from persistor.data.workers import Report, silent
from persistor.nn.pooling import Pooling
from persistor.tasks.keywords import Features
from persistor.tasks.task import (
    Batch,
    Classification,
    NextToken,
    Objective,
    Regression,
    StepClassification,
    Task,
    check_length,
    computed,
)
from persistor.tasks.text import Windows, windows

MOST_LETTERS = 256
OLD_DIGITS = 16  # of the digests of earlier versions, which covered the path and times as well
SHUFFLED = "shuffled"  # the rule of earlier versions: one random order, whatever the classes


@dataclass(frozen=True)
class Reading:
    """How to read your own data; what is left out follows from the data.

    `clip` is the length of a sound in seconds. `split` is random, folders or lists. `group_by` is a
    regular expression with a group `group`, or a CSV file of names and groups. Tables have input
    `columns`, a column to predict, `target`, and one that names the `sequence` of a row.
    """

    clip: float | None = None
    split: str | None = None
    group_by: str | None = None
    columns: tuple[str, ...] = ()
    target: str = ""
    sequence: str = ""

    def only(self, path: Path, kind: str, *names: str) -> None:
        """Raise if anything else is chosen: it does not apply to this kind of data."""
        for entry in dataclasses.fields(self):
            if getattr(self, entry.name) != entry.default and entry.name not in names:
                option = "--" + entry.name.replace("_", "-")
                raise PersistorError(f"{path} holds {kind}; {option} does not apply to it")


def own_task(path: Path, reading: Reading | None = None, report: Report = silent) -> OwnData:
    """The task on your file or folder; `report` is called with the number of files read."""
    path, reading = path.resolve(), reading or Reading()
    if not path.exists():
        raise PersistorError(
            f"{path} does not exist; give a folder of sounds, arrays or tables, or a file: .npz, "
            ".csv, .parquet, or a text"
        )
    task = _of_kind(path, reading, report)
    remember(_contents_key(task.digest), task.sums())
    return task


def _contents_key(digest: str) -> str:
    """Where the checksums of data are kept, to be able to say what has changed."""
    return f"contents-{digest[:24]}"


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


@dataclass(frozen=True, eq=False)
class Rows:
    """Some sequences of an array on the disk, by index."""

    x: NDArray[Any]
    lengths: NDArray[np.integer] | None
    chosen: NDArray[np.integer]

    def read(self, indices: Any) -> NDArray[np.float32]:
        """The sequences with these indices, with zeros after the end of each."""
        rows = self.chosen[np.asarray(indices)]
        lengths = None if self.lengths is None else self.lengths[rows]
        return np.concatenate([chunk for _, chunk in chunks(self.x[rows], lengths)])


class Stored(eqx.Module):
    """Sequences that stay on the disk: those of a batch are read when it is made."""

    rows: Rows = eqx.field(static=True)
    targets: Int[Array, " n"] | Int[Array, "n t"] | Float[Array, "n o"]
    mean: Float[Array, " c"]
    deviation: Float[Array, " c"]
    lengths: Int[Array, " n"] | None = None

    @property
    def size(self) -> int:
        """The number of examples."""
        return self.targets.shape[0]

    def at(self, indices: Int[Array, " b"]) -> Batch:
        """Features with every feature scaled as in training."""
        shape = jax.ShapeDtypeStruct((indices.shape[0], *self.rows.x.shape[1:]), jnp.float32)
        x = jax.pure_callback(self.rows.read, shape, indices)
        every = jnp.arange(indices.shape[0], dtype=jnp.int32)
        lengths = None if self.lengths is None else self.lengths[indices]
        return Features(x, self.targets[indices], self.mean, self.deviation, lengths).at(every)


@dataclass(frozen=True)
class OwnData(Task):
    """What tasks on your own data share: a place, and a checksum of all that is there."""

    path: str
    digest: str

    summary = "your own data"
    pooling = Pooling.MEAN

    @computed
    def hints(self) -> tuple[str, ...]:
        """Where the data are, and what follows from them. It was part of earlier experiments."""
        return () if self._is_old else ("path", "group_file", "mean", "deviation")

    @property
    def _is_old(self) -> bool:
        return len(self.digest) == OLD_DIGITS

    @abstractmethod
    def sums(self) -> dict[str, str]:
        """The checksum of everything that the task is made of, by name."""

    @abstractmethod
    def _old_digest(self, path: Path) -> str:
        """The digest that earlier versions kept."""

    def remarks(self) -> tuple[str, ...]:
        """What a person should know before training: a summary, then warnings."""
        return ()

    def options(self) -> list[str]:
        """The options of `persistor train` that name this task."""
        return ["--data", self.path]

    def with_data(self, path: Path) -> OwnData:
        """The same data at another place."""
        return dataclasses.replace(self, path=str(path.resolve()))

    def _place(self) -> Path:
        path = Path(self.path)
        if not path.exists():
            raise PersistorError(
                f"{path} no longer exists; say where it is now with --data PATH, or repeat the "
                "command that trained the run with the new place"
            )
        return path

    def _check(self, sums: Mapping[str, str]) -> None:
        """Raise if the data are not those that the task was made of, and say what is different."""
        digest = self._old_digest(Path(self.path)) if self._is_old else identity(sums)
        if digest == self.digest:
            return
        before = remembered(_contents_key(self.digest))
        what = f" ({difference(before, sums)})" if before else ""
        if self._is_old and Path(self.path).is_dir():
            what = " (it is of an earlier version, which compares the times of files, too)"
        raise PersistorError(
            f"{self.path} has changed since this run was started{what}; undo that, or start a new "
            "run with --data"
        )


@dataclass(frozen=True)
class OwnExamples(OwnData):
    """Examples that were divided into splits and are scaled by those for training."""

    rule: str = field(default=SHUFFLED, kw_only=True)
    group_by: str = field(default="", kw_only=True)
    group_file: str = field(default="", kw_only=True)
    mean: tuple[float, ...] = field(default=(), kw_only=True)
    deviation: tuple[float, ...] = field(default=(), kw_only=True)

    def to_json(self) -> dict[str, Any]:
        """The fields; defaults of later ones are left out, so that earlier runs keep their hash."""
        later = {f.name: f.default for f in dataclasses.fields(self) if f.kw_only}
        values = dataclasses.asdict(self)
        return {k: v for k, v in values.items() if k not in later or v != later[k]}

    def options(self) -> list[str]:
        """The place, and how the examples are divided."""
        words = super().options()
        words += ["--split", self.rule] if self.rule in splits.RULES else []
        group_by = self.group_by or (str(self._group_path()) if self.group_file else "")
        return words + (["--group-by", group_by] if group_by else [])

    def _group_path(self) -> Path:
        return Path(self.path, self.group_file)

    def _group_sums(self) -> dict[str, str]:
        """The checksum of the file of groups, if there is one."""
        if not self.group_file:
            return {}
        return {f"--group-by {self._group_path().name}": _file_sum(self._group_path())}

    def _groups(self, names: Sequence[str]) -> list[str] | None:
        if self.group_file:
            return splits.groups_by_file(names, self._group_path())
        return splits.groups_by_pattern(names, self.group_by) if self.group_by else None

    def _kept_scales(self) -> dict[str, Array]:
        """The scale that the task keeps, as arrays."""
        scales = {"mean": self.mean, "deviation": self.deviation}
        return {name: jnp.asarray(values, jnp.float32) for name, values in scales.items()}

    def _scales(self) -> dict[str, tuple[float, ...]]:
        """The mean and deviation of every feature in training, also of earlier runs."""
        if self.mean:
            return {"mean": self.mean, "deviation": self.deviation}
        train: Any = self.split("train")
        return {"mean": tuple(train.mean.tolist()), "deviation": tuple(train.deviation.tolist())}


@dataclass(frozen=True)
class OwnSounds(OwnExamples):
    """A folder with one folder of sounds for each class: 13 MFCCs of each clip."""

    classes: tuple[str, ...]
    clip: float = field(default=1.0, kw_only=True)

    name = "own-sounds"
    inputs = COEFFICIENTS
    objective = Classification()

    @staticmethod
    def of(path: Path, reading: Reading, report: Report = silent) -> OwnSounds:
        """The task on a folder of sounds."""
        sounds = sounds_in(path, report)
        clip = sounds.usual_clip() if reading.clip is None else _checked_clip(reading.clip)
        rule = reading.split or ("folders" if splits.own_folders(sounds.names) else "random")
        _check_rule(rule, reading)
        if rule == "folders" and not splits.own_folders(sounds.names):
            raise PersistorError(f"{path} has no folders train, valid and test to split by")
        depth = 1 if rule == "folders" else 0
        sounds = _in_classes(sounds, depth)
        draft = OwnSounds(
            str(path),
            "",
            tuple(sorted({name.split("/")[depth] for name in sounds.names})),
            clip=clip,
            rule=rule,
            **_grouping(path, reading),
        )
        task = dataclasses.replace(draft, digest=identity(draft._sums_of(sounds)))
        division = task._division(sounds)
        x = sounds.features(clip, task.digest, report)
        series = Series(path, x, task._labels(sounds), {})
        mean, deviation = series.scale(division.of("train"))
        return dataclasses.replace(task, mean=tuple(mean), deviation=tuple(deviation))

    @computed
    def outputs(self) -> int:
        """The number of classes."""
        return len(self.classes)

    @computed
    def chance(self) -> float:
        """Of a guess among the classes."""
        return 1 / self.outputs

    def options(self) -> list[str]:
        """The place, the split, and the length of a clip."""
        return [*super().options(), "--clip", f"{self.clip:g}"]

    def preparation(self) -> Preparation:
        """Sounds become clips of some seconds at 16 kHz; their MFCCs are scaled."""
        fields: dict[str, Any] = {"kind": "sounds", "clip": self.clip, **self._scales()}
        return dataclasses.replace(super().preparation(), **fields)

    def split(self, name: str) -> Features:
        """A part of the sounds, as the task divides them."""
        sounds = self._sounds()
        x, y = sounds.features(self.clip, self._key(sounds)), self._labels(sounds)
        if self._is_old:
            return _shuffled(name, x, y)
        chosen = self._division(sounds).of(name)
        return Features(jnp.asarray(x[chosen]), jnp.asarray(y[chosen]), **self._kept_scales())

    def sums(self) -> dict[str, str]:
        """The checksums of the sounds, and of what divides them."""
        return self._sums_of(_in_classes(sounds_in(self._place()), self._depth))

    def remarks(self) -> tuple[str, ...]:
        """Counts of all that was found, cut, padded or left out."""
        sounds = self._sounds()
        division, labels = self._division(sounds), self._labels(sounds)
        counts = np.bincount(labels, minlength=len(self.classes))
        rates = sorted(set(sounds.rates.tolist()) - {16_000})
        cut, padded = sounds.cut(self.clip), sounds.padded(self.clip)
        facts = [
            f"{len(sounds.names):,} sounds",
            f"{len(self.classes)} classes",
            division.sizes,
            f"{cut:,} cut to {_seconds(self.clip)}" if cut else f"clips of {_seconds(self.clip)}",
            f"{padded:,} padded" if padded else "",
            f"resampled from {' and '.join(f'{rate:,}' for rate in rates)} Hz" if rates else "",
            splits.skipped_text(sounds.skipped),
            f"rarest class {counts.min():,} ({self.classes[counts.argmin()]})",
        ]
        quiet = [sounds.names[i] for i in np.flatnonzero(sounds.quiet)]
        warnings = [f"silent: {some(quiet)}"] if quiet else []
        return (", ".join(filter(None, facts)), *division.warnings, *warnings)

    @property
    def _depth(self) -> int:
        return 1 if self.rule == "folders" else 0

    def _sounds(self) -> Sounds:
        """The sounds, if they are still the same."""
        sounds = _in_classes(sounds_in(self._place()), self._depth)
        self._check(self._sums_of(sounds))
        return self._as_before(sounds) if self._is_old else sounds

    def _as_before(self, sounds: Sounds) -> Sounds:
        """The sounds that an earlier version would have read; an error if that is not certain."""
        known = [n.count("/") == 1 and n.lower().endswith((".wav", ".flac")) for n in sounds.names]
        sounds = sounds.only(np.array(known, bool), "other files")
        if tuple(sorted({name.split("/")[0] for name in sounds.names})) != self.classes:
            raise PersistorError(
                f"{self.path} was read otherwise by an earlier version; train again"
            )
        return sounds

    def _sums_of(self, sounds: Sounds) -> dict[str, str]:
        sums = dict(zip(sounds.names, sounds.sums, strict=True)) | self._group_sums()
        if self.rule == "lists":
            for name in splits.LISTS.values():
                if (sounds.folder / name).is_file():
                    sums[name] = _file_sum(sounds.folder / name)
        return sums

    def _key(self, sounds: Sounds) -> str:
        return identity(self._sums_of(sounds)) if self._is_old else self.digest

    def _old_digest(self, path: Path) -> str:
        return fingerprint(path)

    def _labels(self, sounds: Sounds) -> NDArray[np.int32]:
        number = {name: i for i, name in enumerate(self.classes)}
        names = [name.split("/")[self._depth] for name in sounds.names]
        return np.array([number[name] for name in names], np.int32)

    def _division(self, sounds: Sounds) -> Division:
        labels = self._labels(sounds)
        if len(self.classes) < 2:
            raise PersistorError(
                f"{sounds.folder} holds {len(sounds.names)} sounds of {len(self.classes)} class; "
                "it should have one folder of sounds for each class, and at least 2 classes"
            )
        if self.rule in ("random", SHUFFLED):
            groups = self._groups(sounds.names)
            division = splits.at_random(labels, self.classes, sounds.names, sounds.sums, groups)
        else:
            division = _given(self.rule, sounds.folder, sounds.names, sounds.sums)
        return splits.checked(division, labels, self.classes)


@dataclass(frozen=True)
class OwnSeries(OwnExamples):
    """Sequences x (N, T, F), and y: classes (N,) or (N, T), or numbers (N, O)."""

    inputs: int
    outputs: int
    numbers: bool
    per_step: bool = field(default=False, kw_only=True)
    classes: tuple[str, ...] = field(default=(), kw_only=True)

    @computed
    def objective(self) -> Objective:
        """Whole numbers and words are classes."""
        if self.per_step:
            return StepClassification()
        return Regression() if self.numbers else Classification()

    @computed
    def pooling(self) -> Pooling:
        """A class for every step needs an output at every step."""
        return Pooling.NONE if self.per_step else Pooling.MEAN

    @computed
    def chance(self) -> float:
        """Of a guess among the classes."""
        return math.inf if self.numbers else 1 / self.outputs

    def preparation(self) -> Preparation:
        """Sequences are scaled."""
        return dataclasses.replace(super().preparation(), **self._scales())

    def split(self, name: str) -> Features | Stored:
        """A part of the sequences, as the task divides them."""
        series = self._series()
        self._check(self._sums_of(series))
        if self._is_old:
            return _shuffled(name, series.x, series.y)
        chosen = self._division(series).of(name)
        lengths = None if series.lengths is None else jnp.asarray(series.lengths[chosen])
        fields = {"lengths": lengths, **self._kept_scales()}
        targets = jnp.asarray(series.y[chosen])
        if series.is_large:
            return Stored(Rows(series.x, series.lengths, chosen), targets, **fields)
        return Features(jnp.asarray(series.x[chosen]), targets, **fields)

    def sums(self) -> dict[str, str]:
        """The checksums of the files or arrays, and of what divides them."""
        return self._sums_of(self._series())

    def remarks(self) -> tuple[str, ...]:
        """Counts of all that was found."""
        series = self._series()
        division = self._division(series)
        counts = np.bincount(series.y[series.y >= 0].ravel()) if not self.numbers else np.array([0])
        rarest = self.classes[counts.argmin()] if self.classes else counts.argmin()
        lengths = series.lengths
        facts = [
            f"{len(series.x):,} sequences",
            "" if self.numbers else f"{self.outputs} classes",
            f"{self.outputs} number{'s' * (self.outputs > 1)} to predict" if self.numbers else "",
            "a class for every step" if self.per_step else "",
            division.sizes,
            f"{self.inputs} features",
            f"{series.x.shape[1]:,} steps"
            if lengths is None
            else f"{lengths.min():,} to {lengths.max():,} steps",
            splits.skipped_text(series.skipped or {}),
            "" if self.numbers else f"rarest class {counts.min():,} ({rarest})",
        ]
        return (", ".join(filter(None, facts)), *division.warnings)

    @abstractmethod
    def _series(self) -> Series:
        """The data, read again."""

    def _sums_of(self, series: Series) -> dict[str, str]:
        return {**series.sums, **self._group_sums()}

    def _division(self, series: Series) -> Division:
        names = series.names or tuple(f"sequence {i}" for i in range(len(series.x)))
        labels = series.labels()
        classes = () if series.numbers or series.per_step else _class_names(series)
        if series.split is not None or self.rule == "folders":
            division = _given_series(self.rule, series, names)
        else:
            groups = series.groups or self._groups(names)
            division = splits.at_random(labels, classes, names, series.files, groups)
            division = _with_warning(division, names, series)
        return splits.checked(division, labels if classes else None, classes)


def _completed(draft: Any, series: Series) -> Any:
    """A task on series, with its checksum and scales."""
    task = dataclasses.replace(draft, digest=identity(draft._sums_of(series)))
    mean, deviation = series.scale(task._division(series).of("train"))
    return dataclasses.replace(task, mean=tuple(mean), deviation=tuple(deviation))


@dataclass(frozen=True)
class OwnArrays(OwnSeries):
    """The arrays of an .npz file or of a folder of .npy files."""

    name = "own-arrays"

    @staticmethod
    def of(path: Path, reading: Reading) -> OwnArrays:
        """The task on arrays."""
        series = _arrays(path, _stamp(path))
        if reading.group_by and series.names == ():
            raise PersistorError(
                f"{path} holds arrays, whose sequences have no names; for groups, add an array "
                "group (N,) instead of --group-by"
            )
        draft = OwnArrays(
            str(path),
            "",
            series.x.shape[-1],
            series.outputs,
            series.numbers,
            per_step=series.per_step,
            classes=series.classes,
            rule="random" if series.split is None else "given",
        )
        return _completed(draft, series)

    def options(self) -> list[str]:
        """The place alone: arrays say themselves how they are divided."""
        return ["--data", self.path]

    def _series(self) -> Series:
        return _arrays(path := self._place(), _stamp(path))

    def _old_digest(self, path: Path) -> str:
        return _file_sum(path)[:OLD_DIGITS]


@dataclass(frozen=True)
class OwnTable(OwnSeries):
    """Time series in CSV or Parquet: one table, or a folder with one for each sequence."""

    columns: tuple[str, ...]
    target: str
    sequence: str

    name = "own-table"

    @staticmethod
    def of(path: Path, reading: Reading) -> OwnTable:
        """The task on tables."""
        series = _table(path, _stamp(path), reading.columns, reading.target, reading.sequence)
        in_folders = path.is_dir() and splits.own_folders(series.names)
        rule = reading.split or ("folders" if in_folders else "random")
        if rule == "lists":
            raise PersistorError(f"{path} holds tables; --split lists is for sounds")
        _check_rule(rule, reading)
        draft = OwnTable(
            str(path),
            "",
            series.x.shape[-1],
            series.outputs,
            series.numbers,
            series.columns,
            reading.target,
            reading.sequence,
            per_step=series.per_step,
            classes=series.classes,
            rule=rule,
            **_grouping(path, reading),
        )
        return _completed(draft, series)

    def preparation(self) -> Preparation:
        """The columns of a table are scaled."""
        return dataclasses.replace(super().preparation(), kind="table", columns=self.columns)

    def options(self) -> list[str]:
        """The place, the split, and the columns."""
        words = [*super().options(), "--columns", ",".join(self.columns)]
        words += ["--target", self.target] if self.target else []
        return words + (["--sequence", self.sequence] if self.sequence else [])

    def _series(self) -> Series:
        path = self._place()
        return _table(path, _stamp(path), self.columns, self.target, self.sequence)

    def _old_digest(self, path: Path) -> str:
        raise AssertionError("earlier versions read no tables")


@dataclass(frozen=True)
class OwnText(OwnData):
    """The next character of a text, at every step."""

    alphabet: str
    length: int = 256

    name = "own-text"
    objective = NextToken()
    pooling = Pooling.NONE

    @staticmethod
    def of(path: Path) -> OwnText:
        """The task on a text."""
        text = _text(path)
        return OwnText(str(path), identity({"text": _file_sum(path)}), "".join(sorted(set(text))))

    def __post_init__(self):
        check_length(self.length)

    @computed
    def letters(self) -> tuple[str, ...]:
        """The characters that occur in the text."""
        return tuple(self.alphabet)

    @computed
    def inputs(self) -> int:
        """The number of different characters."""
        return len(self.alphabet)

    @computed
    def outputs(self) -> int:
        """The same number."""
        return len(self.alphabet)

    @computed
    def chance(self) -> float:
        """Of a guess among the characters."""
        return math.log(self.inputs)

    def split(self, name: str) -> Windows:
        """90 / 5 / 5% of the text, in one piece each."""
        self._check(self.sums())
        numbers = {letter: i for i, letter in enumerate(self.alphabet)}
        ids = np.array([numbers[letter] for letter in _text(self._place())], np.uint8)
        return windows(name, ids, len(self.alphabet), self.length)

    def sums(self) -> dict[str, str]:
        """The checksum of the text."""
        return {"text": _file_sum(self._place())}

    def remarks(self) -> tuple[str, ...]:
        """The size of the text."""
        text = _text(self._place())
        return (f"{len(text):,} characters, {len(self.alphabet)} different ones",)

    def _old_digest(self, path: Path) -> str:
        return _file_sum(path)[:OLD_DIGITS]


def _stamp(path: Path) -> str:
    """A few digits that change when a file may have changed."""
    return survey(path, (".npy", *TABLES)).fingerprint if path.is_dir() else fingerprint(path)


@functools.lru_cache(1)
def _arrays(path: Path, stamp: str) -> Series:
    return arrays_at(path)


@functools.lru_cache(1)
def _table(path: Path, stamp: str, columns: tuple[str, ...], target: str, sequence: str) -> Series:
    return table_at(path, columns, target, sequence)


def _seconds(clip: float) -> str:
    """A length for people, with at least one decimal."""
    return f"{clip:.1f} s" if (clip * 10).is_integer() else f"{clip:g} s"


def _checked_clip(seconds: float) -> float:
    if not 0.05 <= seconds <= LONGEST:
        raise PersistorError(f"clip is {seconds:g}; it must lie between 0.05 and {LONGEST:g} s")
    return float(seconds)


def _check_rule(rule: str, reading: Reading) -> None:
    if rule not in splits.RULES:
        raise PersistorError(f"split is {rule}; it must be {', '.join(splits.RULES)}")
    if rule != "random" and reading.group_by:
        raise PersistorError(f"--group-by divides at random; leave out --split {rule} or it")


def _grouping(path: Path, reading: Reading) -> dict[str, Any]:
    """The fields for a pattern, or for a file of groups, which may be inside the folder."""
    if not reading.group_by:
        return {}
    file = Path(reading.group_by)
    if not file.is_file():
        return {"group_by": reading.group_by}
    file = file.resolve()
    return {"group_file": str(file.relative_to(path) if file.is_relative_to(path) else file)}


def _in_classes(sounds: Sounds, depth: int) -> Sounds:
    """The sounds that are in the folder of a class."""
    inside = np.array([name.count("/") > depth for name in sounds.names], bool)
    return sounds.only(inside, "outside a folder of a class")


def _given(rule: str, folder: Path, names: Sequence[str], sums: Sequence[str]) -> Division:
    """The division that the user's folders or the publisher's lists give."""
    split = splits.by_lists(folder, names) if rule == "lists" else splits.by_folder(names)
    pairs = splits.equal_pairs(names, sums, split)
    if pairs and rule == "folders":
        raise PersistorError(
            f"{folder}: equal files are in two splits: {some(pairs)}; keep one of each"
        )
    warned = f"equal files are in two splits, as published: {some(pairs)}"
    return Division(split, (warned,) if pairs else ())


def _given_series(rule: str, series: Series, names: Sequence[str]) -> Division:
    if series.split is None:
        return _given(rule, series.where, names, series.files)
    return _with_warning(Division(series.split), names, series)


def _with_warning(division: Division, names: Sequence[str], series: Series) -> Division:
    """Equal sequences of numbers may be chance, so they are named and stay where they are."""
    pairs = splits.equal_pairs(names, series.contents, division.split)
    warned = f"equal sequences are in two splits: {some(pairs)}"
    return Division(division.split, (*division.warnings, warned)) if pairs else division


def _class_names(series: Series) -> tuple[str, ...]:
    return series.classes or tuple(map(str, range(series.outputs)))


def _shuffled(name: str, x: NDArray[Any], y: NDArray[Any]) -> Features:
    """A split as earlier versions made it."""
    order = np.random.RandomState(splits.SEED).permutation(len(x))
    begin, end = {"train": (0, 8), "valid": (8, 9), "test": (9, 10)}[name]
    begin, end = begin * len(x) // 10, end * len(x) // 10
    seen = x[order[: 8 * len(x) // 10]]
    return Features.scaled_as(seen, x[order[begin:end]], y[order[begin:end]])


def _file_sum(path: Path) -> str:
    with reading(path) as file:
        return checksum(file.read())


def _text(path: Path) -> str:
    with reading(path) as file:
        content = file.read()
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise PersistorError(f"{path} is not a text in UTF-8: {error}") from None
    letters = len(set(text))
    if not 2 <= letters <= MOST_LETTERS:
        raise PersistorError(
            f"{path} has {letters} different characters; 2 to {MOST_LETTERS} are expected"
        )
    return text


OWN_DATA: tuple[type[OwnData], ...] = (OwnArrays, OwnSounds, OwnTable, OwnText)
