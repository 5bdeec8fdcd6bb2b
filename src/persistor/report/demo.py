"""`persistor demo`: see in a few minutes what persistent memory can do and fading memory cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from persistor.analysis.inspection import first_batch, trace
from persistor.experiment import Experiment
from persistor.paper.tables import Published, table
from persistor.plots.demo import draw_lengths, draw_trajectories
from persistor.tasks import Parity
from persistor.training import Run, train
from persistor.training.evaluation import length_of, scores_at

PARITY_STEPS = 1500  # the paper uses 35,000 steps
PARITY_CELLS = (("cmru", -1.0), ("cmru", 1.0), ("lru", None), ("mingru", None))
LENGTH_BINS = (50, 145, 240, 335, 430, 525, 620, 715, 810, 905, 1001)
COPY_LENGTH, COPY_STEPS = 300, 1500
COPY_CELLS = ("alpha-cmru", "mingru")
PICTURES = ("accuracy-by-length.png", "state-trajectory.png")


@dataclass(frozen=True)
class DemoRun:
    """One run of the demo beside the paper's number."""

    what: str
    run: Run
    ours: float
    paper: Published

    def __str__(self) -> str:
        published = f"{self.paper.mean:.2%} [{self.paper.low:.2%}; {self.paper.high:.2%}]"
        return f"{self.what:34} {self.ours:8.2%}   {published}"


def experiments() -> Iterator[tuple[str, Experiment, Published]]:
    """What the demo trains: a name, the experiment, the paper's number."""
    for cell, epsilon in PARITY_CELLS:
        name = cell if epsilon is None else f"{cell} epsilon {epsilon:g}"
        experiment = Experiment.of("parity", cell=cell, epsilon=epsilon, steps=PARITY_STEPS)
        published_as = {} if epsilon is None else {"epsilon": f"{epsilon:g}"}
        yield f"parity, {name}", experiment, _published("parity", cell=cell, **published_as)
    for cell in COPY_CELLS:
        experiment = Experiment.of(
            "copy-first-discrete", cell=cell, length=COPY_LENGTH, steps=COPY_STEPS
        )
        published = _published("copy-first-discrete", cell=cell, length=str(COPY_LENGTH))
        yield f"copy first of {COPY_LENGTH}, {cell}", experiment, published


def _published(name: str, **row: str) -> Published:
    published = table(name).row(**row).published
    assert published is not None
    return published


def accuracy_by_length(run: Run) -> list[float]:
    """Test accuracy of a parity run for each range of string lengths."""
    task, model = run.experiment.task, run.model()
    split = task.split("test")
    indices = jnp.arange(split.size, dtype=jnp.int32)
    encoding = model.encode_positions(length_of(split))
    scores = scores_at(model, split, task.objective, indices.reshape(-1, 64), encoding).reshape(-1)
    lengths = np.asarray(split.at(indices).lengths)
    bins = np.digitize(lengths, LENGTH_BINS[1:-1])
    return [float(np.asarray(scores)[bins == i].mean()) for i in range(len(LENGTH_BINS) - 1)]


def run_demo(
    folder: Path,
    watcher: Any,
    say: Callable[[str], None],
    planned: Iterable[tuple[str, Experiment, Published]] | None = None,
) -> list[DemoRun]:
    """Train the planned experiments, or continue them, and draw the two pictures."""
    rows = []
    for name, experiment, published in experiments() if planned is None else planned:
        run = Run.create(experiment, folder / "runs")
        with watcher(experiment.name, "accuracy") as watch:
            result = train(run, watch=watch.update)
        assert result is not None
        row = DemoRun(name, run, result["test"]["accuracy"], published)
        say(str(row))
        rows.append(row)
    parity = {row.what.removeprefix("parity, "): row.run for row in rows[: len(PARITY_CELLS)]}
    accuracies = {name: accuracy_by_length(run) for name, run in parity.items()}
    draw_lengths(accuracies, LENGTH_BINS, Parity().train_lengths, folder / PICTURES[0])
    batch = first_batch(Parity(test_lengths=(60, 60)).split("test"), 1)
    bits = np.asarray(batch.inputs.dense())[0, :, 0]
    states = {n: np.asarray(trace(run.model(), batch)[0].states)[0] for n, run in parity.items()}
    draw_trajectories(bits, states, folder / PICTURES[1])
    return rows
