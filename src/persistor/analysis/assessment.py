"""What a model gets right and wrong: by class, by confidence, by length, by group, by example."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from persistor.tasks.task import Origins

BINS = 10  # of confidence
WORST = 20  # examples that are kept
PARTS = 4  # by length, with about as many examples each


@dataclass(frozen=True)
class Answers:
    """What a model said about the examples of a split.

    `scores` are the metric of each example (n,). Of classes, `targets`, `predicted` and
    `confidence` (the probability of what was predicted) are (n,), or (n, t) with a class for every
    step; a negative target does not count. Of numbers, `targets` and `predicted` are (n, o).
    """

    scores: NDArray[np.float32]
    targets: NDArray[Any] | None = None
    predicted: NDArray[Any] | None = None
    confidence: NDArray[np.float32] | None = None
    lengths: NDArray[np.int32] | None = None


@dataclass(frozen=True)
class Class:
    """How well a class is told from the others; None where there was nothing to count."""

    name: str
    precision: float | None
    recall: float | None
    f1: float | None
    support: int


@dataclass(frozen=True)
class Part:
    """The metric over some of the examples: those of a group, or of similar lengths."""

    name: str
    examples: int
    metric: float


@dataclass(frozen=True)
class Mistake:
    """An example that was answered wrongly. For steps, the target is the share that is right."""

    example: str
    target: str
    predicted: str
    badness: float  # confidence in the wrong class, share of wrong steps, or absolute error


@dataclass(frozen=True)
class Bin:
    """Answers of similar confidence: their mean confidence, and the share that is right."""

    begin: float
    count: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Assessment:
    """A model's answers on a split, counted. What does not apply to a task is empty."""

    metric: str
    value: float
    examples: int
    worst: list[Mistake] = field(default_factory=list)
    by_length: list[Part] = field(default_factory=list)
    by_group: list[Part] = field(default_factory=list)
    classes: list[Class] = field(default_factory=list)
    confusion: NDArray[np.int64] | None = None  # (of this class, taken for that)
    calibration: list[Bin] = field(default_factory=list)
    errors: dict[str, float] = field(default_factory=dict)  # mae and rmse, of numbers
    pairs: NDArray[np.float32] | None = None  # numbers to predict, and those predicted (2, n, o)

    @property
    def summary(self) -> str:
        """The metric in words."""
        return f"{self.metric} {self.value:.4f}"

    @property
    def calibration_error(self) -> float | None:
        """How far confidence is from the share that is right, on average over the answers."""
        count = sum(b.count for b in self.calibration)
        if not count:
            return None
        return sum(b.count * abs(b.confidence - b.accuracy) for b in self.calibration) / count

    def confusions(self) -> list[tuple[str, str, int]]:
        """Which class was taken for which other, and how often, most often first."""
        if self.confusion is None:
            return []
        names = [c.name for c in self.classes]
        wrong = self.confusion * (1 - np.eye(len(names), dtype=np.int64))
        order = np.argsort(-wrong, axis=None, kind="stable")[: int((wrong > 0).sum())].tolist()
        places = [divmod(i, len(names)) for i in order]
        return [(names[i], names[j], int(wrong[i, j])) for i, j in places]

    def to_json(self) -> dict[str, Any]:
        """As plain values; what does not apply is left out."""
        value: dict[str, Any] = {self.metric: self.value, "examples": self.examples, **self.errors}
        if self.confusion is not None:
            value["classes"] = [vars(c) for c in self.classes]
            value["confusion"] = self.confusion.tolist()
            bins = [vars(b) for b in self.calibration]
            value["calibration"] = {"expected_error": self.calibration_error, "bins": bins}
        value["worst"] = [vars(mistake) for mistake in self.worst]
        value["by_length"] = [vars(part) for part in self.by_length]
        value["by_group"] = [vars(part) for part in self.by_group]
        return value


def assess(
    answers: Answers,
    metric: str,
    *,
    higher_is_better: bool,
    classes: Sequence[str] = (),
    origins: Origins | None = None,
) -> Assessment:
    """Count what is right and wrong. `classes` are names; without them, numbers stand for them."""
    origins = origins or Origins()
    scores = np.asarray(answers.scores, np.float64)
    fields: dict[str, Any] = {}
    if answers.confidence is not None:
        fields = _of_classes(answers, classes)
    elif answers.targets is not None and answers.predicted is not None:
        fields = _of_numbers(answers.targets, answers.predicted)
    return Assessment(
        metric,
        float(jnp.asarray(answers.scores).mean()),  # as `evaluate` has it, to the last digit
        len(scores),
        worst=_worst(answers, classes, origins, higher_is_better),
        by_length=_by_length(scores, answers.lengths, origins.seconds),
        by_group=_by_group(scores, origins.groups),
        **fields,
    )


def _of_classes(answers: Answers, names: Sequence[str]) -> dict[str, Any]:
    """The table of confusion and what follows from it, and calibration."""
    assert answers.targets is not None
    assert answers.predicted is not None
    assert answers.confidence is not None
    counted = answers.targets >= 0
    targets, predicted = answers.targets[counted], answers.predicted[counted]
    count = len(names) or int(max(targets.max(), predicted.max())) + 1
    confusion = np.bincount(targets * count + predicted, minlength=count * count)
    confusion = confusion.reshape(count, count).astype(np.int64)
    return {
        "classes": [_class(confusion, i, _named(names, i)) for i in range(count)],
        "confusion": confusion,
        "calibration": _calibration(answers.confidence[counted], targets == predicted),
    }


def _named(names: Sequence[str], i: int) -> str:
    return names[i] if len(names) else str(i)


def _class(confusion: NDArray[np.int64], i: int, name: str) -> Class:
    right, said, support = int(confusion[i, i]), int(confusion[:, i].sum()), int(confusion[i].sum())
    return Class(
        name,
        precision=right / said if said else None,
        recall=right / support if support else None,
        f1=2 * right / (said + support) if said + support else None,
        support=support,
    )


def _calibration(confidence: NDArray[np.float32], right: NDArray[np.bool_]) -> list[Bin]:
    """Answers by confidence; bins without any are left out."""
    which = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    sure = confidence.astype(np.float64)
    return [
        Bin(begin, int(of.sum()), float(sure[of].mean()), float(right[of].mean()))
        for begin, of in ((i / BINS, which == i) for i in range(BINS))
        if of.any()
    ]


def _of_numbers(targets: NDArray[Any], predicted: NDArray[Any]) -> dict[str, Any]:
    wrong = predicted.astype(np.float64) - targets
    errors = {"mae": float(np.abs(wrong).mean()), "rmse": float(np.sqrt(np.square(wrong).mean()))}
    return {"errors": errors, "pairs": np.stack([targets, predicted]).astype(np.float32)}


def _worst(
    answers: Answers, classes: Sequence[str], origins: Origins, higher_is_better: bool
) -> list[Mistake]:
    """The examples that were answered worst: wrong with the most confidence, or the most wrong."""
    targets, predicted, confidence = answers.targets, answers.predicted, answers.confidence
    if confidence is not None and targets is not None and targets.ndim == 1:
        badness = np.where(predicted == targets, -1.0, confidence)
    else:
        badness = 1.0 - answers.scores if higher_is_better else answers.scores
    order = np.argsort(-badness, kind="stable")[:WORST].tolist()

    def said(values: NDArray[Any] | None, i: int) -> str:
        if values is None or (confidence is not None and values.ndim > 1):
            return ""
        if confidence is not None:
            return _named(classes, int(values[i]))
        return " ".join(f"{x:.4g}" for x in np.atleast_1d(values[i]))

    return [
        Mistake(_named(origins.names, i), said(targets, i), said(predicted, i), float(badness[i]))
        for i in order
        if badness[i] > 0
    ]


def _by_length(
    scores: NDArray[np.float64], lengths: NDArray[np.int32] | None, seconds: Sequence[float]
) -> list[Part]:
    """The metric for short and long examples, if their lengths differ."""
    sizes = np.asarray(seconds if len(seconds) else [] if lengths is None else lengths)
    if len(sizes) < 2 or sizes.min() == sizes.max():
        return []
    inner = np.quantile(sizes, np.arange(1, PARTS) / PARTS, method="higher")
    which = np.searchsorted(np.unique(inner), sizes)
    parts = [
        Part(_range(sizes[of]), int(of.sum()), float(scores[of].mean()))
        for of in (which == i for i in range(PARTS))
        if of.any()
    ]
    return parts if len(parts) > 1 else []


def _range(sizes: NDArray[Any]) -> str:
    """The shortest and the longest: seconds are fractions, steps are whole."""
    form, unit = (".2f", "s") if sizes.dtype.kind == "f" else (",", "steps")
    ends = [f"{size:{form}}" for size in (sizes.min(), sizes.max())]
    return f"{' to '.join(dict.fromkeys(ends))} {unit}"


def _by_group(scores: NDArray[np.float64], groups: Sequence[str]) -> list[Part]:
    """The metric of each group, lowest first, and large groups before small ones."""
    names, which = np.unique(np.asarray(groups, np.str_), return_inverse=True)
    if not len(names):
        return []
    counts = np.bincount(which)
    means = np.bincount(which, scores) / counts
    order = np.lexsort((-counts, means)).tolist()
    return [Part(str(names[i]), int(counts[i]), float(means[i])) for i in order]
