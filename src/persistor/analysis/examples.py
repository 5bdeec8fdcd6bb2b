"""What a task looks like: some of its examples as text, and their targets in words."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from persistor.tasks import Batch, Split, Task


def texts(task: Task, split: Split, examples: int) -> list[tuple[str, str]]:
    """Examples of a task whose steps are letters: the target, and the text."""
    batch = spread(split, examples)
    ids = np.asarray(batch.inputs.ids)  # pyright: ignore[reportAttributeAccessIssue]
    pairs = []
    for i, row in enumerate(ids):
        length = None if batch.lengths is None else int(batch.lengths[i])
        pairs.append((target(task, batch, i), "".join(task.letters[j] for j in row[:length])))
    return pairs


def spread(split: Split, examples: int) -> Batch:
    """Examples spread evenly over a split, since it may be sorted by class."""
    indices = np.linspace(0, split.size - 1, min(examples, split.size)).astype(np.int32)
    return split.at(jnp.asarray(indices))


def target(task: Task, batch: Batch, index: int) -> str:
    """The target of an example, in words."""
    value = np.asarray(batch.targets[index])
    if value.ndim:
        return "what follows" if value.dtype.kind == "i" else ", ".join(f"{x:.3f}" for x in value)
    return task.classes[int(value)] if task.classes else str(int(value))
