"""Examples of a task as a contact sheet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from persistor.analysis.examples import spread, target
from persistor.plots import save_figure
from persistor.tasks import Split, Task

COLUMNS = 4


def draw_examples(task: Task, title: str, split: Split, examples: int, path: Path) -> None:
    """A contact sheet: images as images, many features as a map, few as lines."""
    batch = spread(split, examples)
    values = np.asarray(batch.inputs.dense())
    rows = -(-len(values) // COLUMNS)
    figure = Figure(figsize=(3 * COLUMNS, 2.4 * rows), layout="constrained")
    axes = figure.subplots(rows, COLUMNS, squeeze=False).ravel()
    for ax in axes[len(values) :]:
        ax.set_axis_off()
    for i, (ax, steps) in enumerate(zip(axes, values, strict=False)):
        length = None if batch.lengths is None else int(batch.lengths[i])
        if task.picture is not None:
            ax.imshow(steps.reshape(*task.picture, -1), cmap="gray", vmin=0, vmax=1)
            ax.set_axis_off()
        elif steps.shape[-1] > 1:
            ax.imshow(steps[:length].T, aspect="auto", origin="lower", interpolation="nearest")
        else:
            ax.plot(steps[:length], linewidth=0.8)
        ax.set_title(target(task, batch, i), fontsize="small")
    figure.suptitle(title)
    save_figure(figure, path, dpi=110)
