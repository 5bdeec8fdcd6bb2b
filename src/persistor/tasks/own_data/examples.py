"""Examples of your own: divided into splits, and scaled by those for training."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor.arrays import Array
from persistor.data import splits
from persistor.data.contents import some
from persistor.data.series import Series
from persistor.data.splits import Division
from persistor.tasks.keywords import Features
from persistor.tasks.own_data.identity import OwnData, file_sum

SHUFFLED = "shuffled"  # the rule of earlier versions: one random order, whatever the classes


@dataclass(frozen=True)
class OwnExamples(OwnData):
    """Examples that were divided into splits and are scaled by those for training."""

    rule: str = field(default=SHUFFLED, kw_only=True)
    group_by: str = field(default="", kw_only=True)
    group_file: str = field(default="", kw_only=True)
    examples: int = field(default=0, kw_only=True)  # for training; 0 in earlier runs
    mean: tuple[float, ...] = field(default=(), kw_only=True)
    deviation: tuple[float, ...] = field(default=(), kw_only=True)

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
        return {f"--group-by {self._group_path().name}": file_sum(self._group_path())}

    def _groups(self, names: Sequence[str]) -> list[str] | None:
        if self.group_file:
            return splits.groups_by_file(names, self._group_path())
        return splits.groups_by_pattern(names, self.group_by) if self.group_by else None

    def scaled(self, series: Series, division: Division) -> Any:
        """The task with the scale of the series for training, and their number."""
        chosen = division.of("train")
        mean, deviation = series.scale(chosen)
        scales = {"mean": tuple(mean), "deviation": tuple(deviation)}
        return dataclasses.replace(self, examples=len(chosen), **scales)

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


def as_given(rule: str, folder: Path, names: Sequence[str], sums: Sequence[str]) -> Division:
    """The division that the user's folders or the publisher's lists give."""
    split = splits.by_lists(folder, names) if rule == "lists" else splits.by_folder(names)
    pairs = splits.equal_pairs(names, sums, split)
    if pairs and rule == "folders":
        raise PersistorError(
            f"{folder}: equal files are in two splits: {some(pairs)}; keep one of each"
        )
    warned = f"equal files are in two splits, as published: {some(pairs)}"
    return Division(split, (warned,) if pairs else ())


def shuffled(name: str, x: NDArray[Any], y: NDArray[Any]) -> Features:
    """A split as earlier versions made it."""
    order = np.random.RandomState(splits.SEED).permutation(len(x))
    begin, end = {"train": (0, 8), "valid": (8, 9), "test": (9, 10)}[name]
    begin, end = begin * len(x) // 10, end * len(x) // 10
    seen = x[order[: 8 * len(x) // 10]]
    return Features.scaled_as(seen, x[order[begin:end]], y[order[begin:end]])
