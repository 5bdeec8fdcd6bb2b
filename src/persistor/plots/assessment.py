"""What `persistor evaluate` draws: confusion and calibration, or numbers that were predicted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from persistor.analysis.assessment import Assessment
from persistor.plots import save_figure

WITH_COUNTS = 12  # classes whose cells have room for a number
WITH_NAMES = 40  # classes that have room for their names
POINTS = 5000


def draw_assessment(found: Assessment, title: str, path: Path) -> None:
    """Draw what a model gets right and wrong."""
    figure = Figure(figsize=(12, 5.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    if found.confusion is not None:
        _confusion(figure, left, found)
        _calibration(right, found)
    elif found.pairs is not None:
        _numbers(left, right, found.pairs)
    else:
        _worst(left, found)
        right.set_axis_off()
    figure.suptitle(f"{title}\n{found.summary} on {found.examples:,} examples")
    save_figure(figure, path, dpi=140)


def _confusion(figure: Figure, axes: Any, found: Assessment) -> None:
    """Rows are classes, columns what they were taken for."""
    assert found.confusion is not None
    names, counts = [c.name for c in found.classes], found.confusion
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    picture = axes.imshow(shares, vmin=0, vmax=1, cmap="Blues", interpolation="nearest")
    figure.colorbar(picture, ax=axes, label="share of the class")
    if len(names) <= WITH_NAMES:
        shown = [name if name.isprintable() and name.strip() else repr(name) for name in names]
        small = {"fontsize": "small" if len(names) <= WITH_COUNTS else "xx-small"}
        axes.set_xticks(range(len(names)), shown, rotation=90, parse_math=False, **small)
        axes.set_yticks(range(len(names)), shown, parse_math=False, **small)
    if len(names) <= WITH_COUNTS:
        for (i, j), count in np.ndenumerate(counts):
            if count:
                colour = "white" if shares[i, j] > 0.5 else "black"
                axes.text(j, i, f"{count:,}", ha="center", va="center", color=colour, fontsize=8)
    axes.set(xlabel="taken for", ylabel="class", title="confusion")


def _calibration(axes: Any, found: Assessment) -> None:
    """The share that is right against the confidence; the areas of the points are counts."""
    confidence = [b.confidence for b in found.calibration]
    accuracy = [b.accuracy for b in found.calibration]
    most = max(b.count for b in found.calibration)
    sizes = [20 + 280 * b.count / most for b in found.calibration]
    axes.plot([0, 1], [0, 1], color="0.6", linestyle="--", label="as sure as right")
    axes.plot(confidence, accuracy, color="C0", linewidth=1)
    axes.scatter(confidence, accuracy, sizes, color="C0", alpha=0.7, label="answers (area: count)")
    axes.legend(loc="upper left")
    axes.set(xlim=(0, 1.03), ylim=(-0.03, 1.03), aspect="equal", xlabel="confidence")
    error = found.calibration_error
    axes.set(ylabel="share that is right", title=f"calibration: off by {error:.3f} on average")


def _numbers(left: Any, right: Any, pairs: NDArray[np.float32]) -> None:
    targets, predicted = pairs[:, :POINTS]
    for column in range(targets.shape[1]):
        left.scatter(targets[:, column], predicted[:, column], 8, alpha=0.5)
    ends = [float(targets.min()), float(targets.max())]
    left.plot(ends, ends, color="0.6", linestyle="--")
    left.set(xlabel="to predict", ylabel="predicted", title="numbers")
    right.hist((predicted - targets).ravel(), 40)
    right.set(xlabel="predicted - to predict", ylabel="count", title="errors")


def _worst(axes: Any, found: Assessment) -> None:
    places = range(len(found.worst))
    axes.barh(places, [mistake.badness for mistake in found.worst])
    axes.set_yticks(places, [mistake.example for mistake in found.worst], parse_math=False)
    axes.set(title="the worst examples", xlabel="how wrong")
    axes.invert_yaxis()
