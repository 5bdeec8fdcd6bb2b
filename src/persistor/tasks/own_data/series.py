"""Your own sequences of numbers: arrays and tables."""

from __future__ import annotations

import dataclasses
import functools
import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from persistor._tools.errors import PersistorError
from persistor.data import splits
from persistor.data.contents import fingerprint, identity, some, survey
from persistor.data.preparation import Preparation
from persistor.data.series import Series, arrays_at
from persistor.data.splits import Division
from persistor.data.tables import TABLES, table_at
from persistor.nn.pooling import Pooling
from persistor.tasks.keywords import Features
from persistor.tasks.own_data.examples import OwnExamples, as_given, shuffled
from persistor.tasks.own_data.identity import OLD_DIGITS, file_sum
from persistor.tasks.own_data.reading import Reading
from persistor.tasks.own_data.stored import Rows, Stored
from persistor.tasks.task import (
    Classification,
    Objective,
    Origins,
    Regression,
    StepClassification,
    computed,
)


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
            return shuffled(name, series.x, series.y)
        chosen = self._division(series).of(name)
        lengths = None if series.lengths is None else jnp.asarray(series.lengths[chosen])
        fields = {"lengths": lengths, **self._kept_scales()}
        targets = jnp.asarray(series.y[chosen])
        if series.is_large:
            return Stored(Rows(series.x, series.lengths, chosen), targets, **fields)
        return Features(jnp.asarray(series.x[chosen]), targets, **fields)

    def origins(self, name: str) -> Origins:
        """The names of the sequences and their groups, if they have any."""
        if self._is_old:
            return Origins()
        series = self._series()
        groups = series.groups or self._groups(series.names) or ()
        return Origins(_names(series), groups).of(self._division(series).of(name).tolist())

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
        names = _names(series)
        labels = series.labels()
        classes = () if series.numbers or series.per_step else _class_names(series)
        if series.split is not None or self.rule == "folders":
            division = _given_series(self.rule, series, names)
        else:
            groups = series.groups or self._groups(names)
            division = splits.at_random(labels, classes, names, series.files, groups)
            division = _with_warning(division, names, series)
        return splits.checked(division, labels if classes else None, classes)


def _names(series: Series) -> tuple[str, ...]:
    """The names of the sequences; their places in the arrays if they have none."""
    return series.names or tuple(f"sequence {i}" for i in range(len(series.x)))


def _completed(draft: Any, series: Series) -> Any:
    """A task on series, with its checksum and scales."""
    task = dataclasses.replace(draft, digest=identity(draft._sums_of(series)))
    return task.scaled(series, task._division(series))


def _given_series(rule: str, series: Series, names: Sequence[str]) -> Division:
    if series.split is None:
        return as_given(rule, series.where, names, series.files)
    return _with_warning(Division(series.split), names, series)


def _with_warning(division: Division, names: Sequence[str], series: Series) -> Division:
    """Equal sequences of numbers may be chance, so they are named and stay where they are."""
    pairs = splits.equal_pairs(names, series.contents, division.split)
    warned = f"equal sequences are in two splits: {some(pairs)}"
    return Division(division.split, (*division.warnings, warned)) if pairs else division


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
        return file_sum(path)[:OLD_DIGITS]


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
        reading.check_rule(rule)
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
            **reading.grouping(path),
        )
        return _completed(draft, series)

    def preparation(self) -> Preparation:
        """The columns of a table are scaled."""
        read: dict[str, Any] = {"columns": self.columns, "sequence": self.sequence}
        return dataclasses.replace(super().preparation(), kind="table", **read)

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


def _stamp(path: Path) -> str:
    """A few digits that change when a file may have changed."""
    return survey(path, (".npy", *TABLES)).fingerprint if path.is_dir() else fingerprint(path)


@functools.lru_cache(1)
def _arrays(path: Path, stamp: str) -> Series:
    return arrays_at(path)


@functools.lru_cache(1)
def _table(path: Path, stamp: str, columns: tuple[str, ...], target: str, sequence: str) -> Series:
    return table_at(path, columns, target, sequence)


def _class_names(series: Series) -> tuple[str, ...]:
    return series.classes or tuple(map(str, range(series.outputs)))
