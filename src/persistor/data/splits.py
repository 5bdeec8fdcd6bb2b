"""Which examples train, validate and test: at random, by group, by folder, or by published lists.

Nothing that was learned from is tested on: examples with the same content, or of the same group,
are in one split.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor._tools.files import reading
from persistor.data.contents import some
from persistor.data.dataset import SPLITS, split_number

SEED = 0
FEWEST = 5  # examples of a class: three to train, one to validate, one to test
RULES = ("random", "folders", "lists")
LISTS = {"valid": "validation_list.txt", "test": "testing_list.txt"}
_FOLDERS = {
    "train": "train",
    "training": "train",
    "valid": "valid",
    "validation": "valid",
    "val": "valid",
    "dev": "valid",
    "test": "test",
    "testing": "test",
}


@dataclass(frozen=True)
class Division:
    """The split of each example (0 train, 1 valid, 2 test), and what a person should know."""

    split: NDArray[np.int64]
    warnings: tuple[str, ...] = ()

    def of(self, name: str) -> NDArray[np.int64]:
        """The indices of the examples of a split."""
        return np.flatnonzero(self.split == split_number(name))

    @property
    def sizes(self) -> str:
        """The sizes of the three splits, for people."""
        return " / ".join(f"{len(self.of(name)):,}" for name in SPLITS)


def own_folders(names: Sequence[str]) -> bool:
    """Whether the folders at the top are splits."""
    tops = {name.split("/")[0] for name in names}
    return "train" in {_FOLDERS.get(top) for top in tops} and tops <= set(_FOLDERS)


def by_folder(names: Sequence[str]) -> NDArray[np.int64]:
    """The split that each name begins with."""
    tops = [_FOLDERS.get(name.split("/")[0], "") for name in names]
    outside = [name for name, top in zip(names, tops, strict=True) if not top]
    if outside:
        raise PersistorError(f"{some(outside)}: not in train/, valid/ or test/")
    return np.array([SPLITS.index(top) for top in tops], np.int64)


def by_lists(folder: Path, names: Sequence[str]) -> NDArray[np.int64]:
    """The published split: names in neither list are for training."""
    texts = {}
    for file in LISTS.values():
        if not (folder / file).is_file():
            raise PersistorError(f"{folder} has no {file}; leave out --split lists")
        with reading(folder / file) as opened:
            texts[file] = opened.read().decode(errors="replace")
    listed = listed_splits(folder, texts)
    chosen = np.array([listed.get(name, 0) for name in names], np.int64)
    if not chosen.any():
        raise PersistorError(f"{folder}: none of the listed sounds is there")
    return chosen


def listed_splits(folder: Path, texts: Mapping[str, str]) -> dict[str, int]:
    """The number of the split of each listed name, given the texts of the lists."""
    listed: dict[str, int] = {}
    for split, file in LISTS.items():
        for name in filter(None, map(str.strip, texts[file].split("\n"))):
            if listed.setdefault(name, SPLITS.index(split)) != SPLITS.index(split):
                raise PersistorError(f"{folder}: {name} is in both lists; it may be in one only")
    return listed


def has_lists(folder: Path) -> bool:
    """Whether the publisher's lists are there."""
    return all((folder / file).is_file() for file in LISTS.values())


def groups_by_pattern(names: Sequence[str], pattern: str) -> list[str]:
    """What the group `group` of a regular expression finds in each file name.

    A pattern with a / is searched in the whole name, with its folders.
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise PersistorError(f"--group-by {pattern}: {error}") from None
    if "group" not in compiled.groupindex:
        raise PersistorError(
            f"--group-by {pattern} is no file and names no group; write for example "
            "'(?P<group>[^_]+)_'"
        )
    texts = names if "/" in pattern else [name.rsplit("/", 1)[-1] for name in names]
    found = [compiled.search(text) for text in texts]
    missed = [n for n, match in zip(names, found, strict=True) if not match or not match["group"]]
    if missed:
        raise PersistorError(
            f"--group-by {pattern} matches {len(names) - len(missed):,} of {len(names):,} names, "
            f"but not {some(missed)}"
        )
    return [match["group"] for match in found if match]


def groups_by_file(names: Sequence[str], path: Path) -> list[str]:
    """The group of each name in a CSV file of names and groups."""
    with reading(path) as file:
        text = file.read().decode("utf-8-sig", errors="replace")
    groups: dict[str, str] = {}
    for number, row in enumerate(csv.reader(text.splitlines()), 1):
        if len(row) != 2:
            raise PersistorError(f"{path}, line {number}: a name and a group are expected")
        if groups.setdefault(row[0].strip(), row[1].strip()) != row[1].strip():
            raise PersistorError(f"{path}, line {number}: {row[0]} is in two groups")
    found = [groups.get(name, groups.get(name.rsplit("/", 1)[-1], "")) for name in names]
    missed = [name for name, group in zip(names, found, strict=True) if not group]
    if missed:
        raise PersistorError(f"{path} gives no group for {some(missed)}")
    return found


def at_random(
    labels: NDArray[Any],
    classes: Sequence[str],
    names: Sequence[str] = (),
    sums: Sequence[str] = (),
    groups: Sequence[str] | None = None,
) -> Division:
    """80 / 10 / 10% of every class, as far as groups and equal contents stay together."""
    counts = np.bincount(labels, minlength=len(classes))
    rare = int(counts.argmin())
    if counts[rare] < FEWEST:
        raise PersistorError(
            f"{_examples_of(classes, rare)} has {counts[rare]} examples; at least {FEWEST} are "
            "needed"
        )
    units = _units(len(labels), sums, groups)
    copies = equal_pairs(names, sums)
    warned = f"equal files, kept in one split: {some(copies)}"
    if units.max() < 2:
        kind = "different examples" if groups is None else "groups"
        raise PersistorError(f"there are {units.max() + 1} {kind}; at least 3 are needed")
    split = _filled(labels, units, _targets(counts))[units]
    return Division(split, (warned,) if copies else ())


def _examples_of(classes: Sequence[str], which: int) -> str:
    return f"class {classes[which]}" if classes else "the data set"


def _units(count: int, sums: Sequence[str], groups: Sequence[str] | None) -> NDArray[np.int64]:
    """Numbers of what must stay together: examples linked by a group or by equal content."""
    roots = list(range(count))

    def root(i: int) -> int:
        while roots[i] != i:
            roots[i] = roots[roots[i]]
            i = roots[i]
        return i

    for keys in (sums, groups or ()):
        first: dict[str, int] = {}
        for i, key in enumerate(keys):
            roots[root(i)] = root(first.setdefault(key, i))
    return np.unique([root(i) for i in range(count)], return_inverse=True)[1].astype(np.int64)


def _targets(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many examples of each class each split should have (splits, classes)."""
    tenth = np.maximum(1, np.round(counts / 10)).astype(np.int64)
    return np.stack([counts - 2 * tenth, tenth, tenth])


def _filled(
    labels: NDArray[Any], units: NDArray[np.int64], wanted: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The split of each unit: the largest first, each to where most of it is still wanted."""
    count = int(units.max()) + 1
    members: list[dict[int, int]] = [{} for _ in range(count)]
    for unit, label in zip(units.tolist(), labels.tolist(), strict=True):
        members[unit][label] = members[unit].get(label, 0) + 1
    sizes = np.bincount(units)
    order = np.random.RandomState(SEED).permutation(count)
    order = order[np.argsort(-sizes[order], kind="stable")]
    missing: list[list[int]] = wanted.tolist()
    split = np.zeros(count, np.int64)
    for unit in order.tolist():
        needs = [sum(n * of[c] for c, n in members[unit].items()) for of in missing]
        best = needs.index(max(needs))
        split[unit] = best
        for c, n in members[unit].items():
            missing[best][c] -= n
    for empty in set(range(len(SPLITS))) - set(split.tolist()):
        most = np.bincount(split, minlength=len(SPLITS)).argmax()
        of_most = np.flatnonzero(split == most)
        split[of_most[int(sizes[of_most].argmin())]] = empty
    return split


def equal_pairs(
    names: Sequence[str], sums: Sequence[str], split: NDArray[np.int64] | None = None
) -> list[str]:
    """The names of examples with the same content; if a split is given, only those across it."""
    first: dict[str, int] = {}
    pairs = []
    for i, content in enumerate(sums):
        other = first.setdefault(content, i)
        if other != i and (split is None or split[i] != split[other]):
            pairs.append(f"{names[other]} = {names[i]}")
    return pairs


def checked(division: Division, labels: NDArray[Any] | None, classes: Sequence[str]) -> Division:
    """Raise if a split is empty or a class is never trained on; warn if it is never tested."""
    for name in SPLITS:
        if not len(division.of(name)):
            raise PersistorError(f"no example is in the split {name}; put a tenth of them there")
    if labels is None:
        return division
    absent = {name: _absent(division.of(name), labels, classes) for name in SPLITS}
    if absent["train"]:
        raise PersistorError(f"no example of {some(absent['train'])} is in the training split")
    warned = [f"no example of {some(absent[n])} is in the split {n}" for n in absent if absent[n]]
    return Division(division.split, (*division.warnings, *warned))


def _absent(chosen: NDArray[np.int64], labels: NDArray[Any], classes: Sequence[str]) -> list[str]:
    counts = np.bincount(labels[chosen], minlength=len(classes)).tolist()
    return [name for name, count in zip(classes, counts, strict=True) if not count]


def skipped_text(skipped: Mapping[str, int]) -> str:
    """How many files were left out, and why; empty if none were."""
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(skipped.items()))
    return f"{sum(skipped.values()):,} skipped ({reasons})" if skipped else ""
