"""`persistor demo`: see in a few minutes what persistent memory does that fading memory cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from persistor.experiment import Experiment, ModelSpec, TrainingSpec
from persistor.inspection import first_batch, trace
from persistor.paper.tables import Published, table
from persistor.tasks import CopyFirstDiscrete, Parity
from persistor.training import Run, train
from persistor.training.evaluation import scores_at, steps_of

PARITY_STEPS, PARITY_STATE = 1500, 1  # the paper has 35,000 steps, and no search
PARITY_CELLS = (("cmru", -1.0), ("cmru", 1.0), ("lru", None), ("mingru", None))
LENGTH_BINS = (50, 145, 240, 335, 430, 525, 620, 715, 810, 905, 1001)
COPY_LENGTH, COPY_STEPS = 300, 1500
COPY_CELLS = ("alpha-cmru", "mingru")
PICTURES = ("accuracy-by-length.png", "state-trajectory.png")


@dataclass(frozen=True)
class Row:
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
        model = ModelSpec((cell,), state=PARITY_STATE, epsilon=epsilon)
        name = cell if epsilon is None else f"{cell} epsilon {epsilon:g}"
        training = TrainingSpec(steps=PARITY_STEPS, search=True)
        experiment = Experiment(Parity(), model, training)
        given = {} if epsilon is None else {"epsilon": f"{epsilon:g}"}
        yield f"parity, {name}", experiment, _published("parity", cell=cell, **given)
    for cell in COPY_CELLS:
        task = CopyFirstDiscrete(COPY_LENGTH)
        experiment = Experiment(task, ModelSpec((cell,), state=4), TrainingSpec(steps=COPY_STEPS))
        published = _published("copy-first-discrete", cell=cell, length=str(COPY_LENGTH))
        yield f"copy first of {COPY_LENGTH}, {cell}", experiment, published


def _published(name: str, **row: str) -> Published:
    published = table(name).row(**row).published
    assert published is not None
    return published


def accuracy_by_length(run: Run) -> list[float]:
    """Test accuracy of a parity run, by the length of the string."""
    task, model = run.experiment.task, run.model()
    split = task.split("test")
    indices = jnp.arange(split.size, dtype=jnp.int32)
    table = model.table(steps_of(split))
    scores = scores_at(model, split, task.objective, indices.reshape(-1, 64), table).reshape(-1)
    lengths = np.asarray(split.at(indices).lengths)
    bins = np.digitize(lengths, LENGTH_BINS[1:-1])
    return [float(np.asarray(scores)[bins == i].mean()) for i in range(len(LENGTH_BINS) - 1)]


def draw_lengths(rows: list[Row], path: Path) -> None:
    """Accuracy against length, for the parity runs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4), layout="constrained")
    axes = figure.subplots()
    for row, marker in zip(rows, "osD^", strict=True):
        label = row.what.removeprefix("parity, ")
        middles = np.mean([LENGTH_BINS[:-1], LENGTH_BINS[1:]], axis=0)
        axes.plot(middles, accuracy_by_length(row.run), marker=marker, label=label)
    axes.axvspan(50, 400, color="0.92", label="lengths seen in training")
    axes.set(
        xlabel="length",
        ylabel="accuracy",
        ylim=(0.4, 1.05),
        title="parity: one unit, one block",
    )
    axes.legend()
    figure.savefig(path, dpi=140)


def draw_trajectory(rows: list[Row], path: Path) -> None:
    """The states of each parity model's units on one bit string."""
    from matplotlib.figure import Figure

    batch = first_batch(Parity(test_lengths=(60, 60)).split("test"), 1)
    bits = np.asarray(batch.inputs.dense())[0, :, 0]
    figure = Figure(figsize=(8, 1.6 * (len(rows) + 1)), layout="constrained")
    axes = figure.subplots(len(rows) + 1, sharex=True)
    axes[0].step(np.arange(len(bits)), bits, where="mid", color="0.3")
    axes[0].set(ylabel="bit", title="states while they read bits, a line a unit")
    for ax, row in zip(axes[1:], rows, strict=True):
        states = np.asarray(trace(row.run.model(), batch)[0].states)[0]
        ax.step(np.arange(len(bits)), np.real(states), where="mid")
        ax.set_ylabel(row.what.removeprefix("parity, ").replace(" epsilon", "\nepsilon"))
    axes[-1].set_xlabel("step")
    figure.savefig(path, dpi=140)


def run_demo(folder: Path, watcher: Any, say: Callable[[str], None]) -> list[Row]:
    """Train everything (or go on where it was stopped) and draw the two pictures."""
    rows = []
    for name, experiment, published in experiments():
        run = Run.create(experiment, folder / "runs")
        with watcher(experiment) as watch:
            result = train(run, watch=watch.update)
        assert result is not None
        row = Row(name, run, result["test"]["accuracy"], published)
        say(str(row))
        rows.append(row)
    parity = rows[: len(PARITY_CELLS)]
    draw_lengths(parity, folder / PICTURES[0])
    draw_trajectory(parity, folder / PICTURES[1])
    return rows
