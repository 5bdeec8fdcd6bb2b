"""A folder of your own sounds."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor.data import splits
from persistor.data.contents import fingerprint, identity, some
from persistor.data.mfcc import COEFFICIENTS
from persistor.data.preparation import Preparation
from persistor.data.series import Series
from persistor.data.sounds import LONGEST, Sounds, sounds_in
from persistor.data.splits import Division
from persistor.data.workers import Report, silent
from persistor.tasks.keywords import Features
from persistor.tasks.own_data.examples import SHUFFLED, OwnExamples, as_given, shuffled
from persistor.tasks.own_data.identity import file_sum
from persistor.tasks.own_data.reading import Reading
from persistor.tasks.task import Classification, Origins, computed


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
        reading.check_rule(rule)
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
            **reading.grouping(path),
        )
        task = dataclasses.replace(draft, digest=identity(draft._sums_of(sounds)))
        division = task._division(sounds)
        x = sounds.features(clip, task.digest, report)
        return task.scaled(Series(path, x, task._labels(sounds), {}), division)

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
            return shuffled(name, x, y)
        chosen = self._division(sounds).of(name)
        return Features(jnp.asarray(x[chosen]), jnp.asarray(y[chosen]), **self._kept_scales())

    def origins(self, name: str) -> Origins:
        """The files, their groups and how long they are; earlier runs did not know."""
        if self._is_old:
            return Origins()
        sounds = self._sounds()
        groups = self._groups(sounds.names) or ()
        known = Origins(sounds.names, groups, sounds.seconds.tolist())
        return known.of(self._division(sounds).of(name).tolist())

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
        if self.rule == "random" and splits.has_lists(sounds.folder):
            warnings.append(f"{' and '.join(splits.LISTS.values())} are there: --split lists")
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
                    sums[name] = file_sum(sounds.folder / name)
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
            division = as_given(self.rule, sounds.folder, sounds.names, sounds.sums)
        return splits.checked(division, labels, self.classes)


def _in_classes(sounds: Sounds, depth: int) -> Sounds:
    """The sounds that are in the folder of a class."""
    inside = np.array([name.count("/") > depth for name in sounds.names], bool)
    return sounds.only(inside, "outside a folder of a class")


def _seconds(clip: float) -> str:
    """A length for people, with at least one decimal."""
    return f"{clip:.1f} s" if (clip * 10).is_integer() else f"{clip:g} s"


def _checked_clip(seconds: float) -> float:
    if not 0.05 <= seconds <= LONGEST:
        raise PersistorError(f"clip is {seconds:g}; it must lie between 0.05 and {LONGEST:g} s")
    return float(seconds)
