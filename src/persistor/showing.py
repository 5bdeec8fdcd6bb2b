"""What a task looks like: some of its examples as text, or as a picture."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import numpy as np

from persistor.files import save_figure
from persistor.tasks import Batch, Split, Task

COLUMNS = 4


def texts(task: Task, split: Split, examples: int) -> list[tuple[str, str]]:
    """Examples of a task whose steps are letters: what is to be found, and the text."""
    batch = spread(split, examples)
    ids = np.asarray(batch.inputs.ids)  # pyright: ignore[reportAttributeAccessIssue]
    letters = task.letters  # pyright: ignore[reportAttributeAccessIssue]
    found = []
    for i, row in enumerate(ids):
        length = None if batch.lengths is None else int(batch.lengths[i])
        found.append((target(task, batch, i), "".join(letters[j] for j in row[:length])))
    return found


def draw(task: Task, title: str, split: Split, examples: int, path: Path) -> None:
    """A contact sheet: images as images, many features as a map, few as lines."""
    from matplotlib.figure import Figure

    batch = spread(split, examples)
    values = np.asarray(batch.inputs.dense())
    rows = -(-len(values) // COLUMNS)
    figure = Figure(figsize=(3 * COLUMNS, 2.4 * rows), layout="constrained")
    axes = figure.subplots(rows, COLUMNS, squeeze=False).ravel()
    for ax in axes[len(values) :]:
        ax.set_axis_off()
    shape = getattr(task, "picture", None)
    for i, (ax, steps) in enumerate(zip(axes, values, strict=False)):
        length = None if batch.lengths is None else int(batch.lengths[i])
        if shape is not None:
            ax.imshow(steps.reshape(*shape, -1), cmap="gray", vmin=0, vmax=1)
            ax.set_axis_off()
        elif steps.shape[-1] > 1:
            ax.imshow(steps[:length].T, aspect="auto", origin="lower", interpolation="nearest")
        else:
            ax.plot(steps[:length], linewidth=0.8)
        ax.set_title(target(task, batch, i), fontsize="small")
    figure.suptitle(title)
    save_figure(figure, path, dpi=110)


def spread(split: Split, examples: int) -> Batch:
    """Examples from the first to the last, evenly spread: classes may come one after another."""
    indices = np.linspace(0, split.size - 1, min(examples, split.size)).astype(np.int32)
    return split.at(jnp.asarray(indices))


def target(task: Task, batch: Batch, index: int) -> str:
    """What is to be found in an example, in words."""
    found = np.asarray(batch.targets[index])
    if found.ndim:
        return "what follows" if found.dtype.kind == "i" else ", ".join(f"{x:.3f}" for x in found)
    classes = getattr(task, "classes", ())
    return classes[int(found)] if classes else str(int(found))
