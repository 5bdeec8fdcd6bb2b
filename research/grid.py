"""Does a model learn the same from numbers on a grid as from a continuum?

    python research/grid.py --out results/trials.jsonl   # continues
    python research/grid.py --out results/trials.jsonl --show

Models of copy-first-noisy at length 100, with 4 units in one block and the architecture `paper`,
are trained on that task and on copy-first-grid, from the same weights. They are narrow (model
width 16) and train for a twentieth of the paper's steps, so that all of it takes minutes. Each is
tested on the test sets of both tasks. `score` is the error on copy-first-noisy's, whatever it was
trained on.

Two more trainings say what a difference comes from: copy-first-noisy with another draw of its
examples, and copy-first-grid with its numbers written out, so that none is shared.

The trial decides whether, at this length, the grid may stand in for the continuum: for each cell,
the range of scores of the seeds trained on the one must overlap the range of those trained on the
other. (If nothing differed, three seeds and three would lie apart once in ten times.)
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

import persistor
from persistor import Dense, Experiment, train
from persistor.arrays import Array, Int
from persistor.tasks import CopyFirstGrid, CopyFirstNoisy
from persistor.tasks.copy_first import SIZES, GridValues, NoisyValues
from persistor.tasks.task import Batch, split_key
from persistor.training.evaluation import evaluate


class Written(GridValues):
    """Numbers on a grid, none of them shared."""

    def at(self, indices: Int[Array, " b"]) -> Batch:
        """The same examples, written out."""
        batch = super().at(indices)
        return Batch(Dense(batch.inputs.dense()), batch.targets)


@dataclass(frozen=True)
class WrittenOut(CopyFirstGrid):
    """The same task, computed as if its numbers were all different."""

    def split(self, name: str) -> Written:
        """The same examples."""
        return Written(split_key(name), self.length, SIZES[name])


@dataclass(frozen=True)
class AnotherDraw(CopyFirstNoisy):
    """Other examples of the same task."""

    def split(self, name: str) -> NoisyValues:
        """As many examples."""
        key = jax.random.fold_in(split_key(name), 77)
        return NoisyValues(key, self.length, SIZES[name])


CELLS = ("cmru", "alpha-cmru", "mingru")
TESTED = {task.name: task for task in (CopyFirstNoisy, CopyFirstGrid)}
TASKS = {**TESTED, "another draw": AnotherDraw, "written out": WrittenOut}
SEEDS = (0, 1, 2)
LENGTH, WIDTH, STEPS = 100, 16, 5_000


def done(path: Path) -> list[dict[str, Any]]:
    """The lines that are there."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [line for line in map(json.loads, lines) if line["trial"] == "grid"]


def trained(name: str, cell: str, seed: int, length: int, steps: int) -> dict[str, Any]:
    """Train in a folder that does not stay, and test on both tasks."""
    experiment = Experiment.of(
        TASKS[name](length),
        cell=cell,
        state_size=4,
        blocks=1,
        width=WIDTH,
        architecture="paper",
        steps=steps,
        seed=seed,
    )
    with tempfile.TemporaryDirectory() as folder:
        result = train(experiment, runs=folder)
        model = persistor.load(experiment.name, runs=folder)
    assert result is not None
    errors = {
        other: evaluate(model, task(length).split("test"), task.objective)
        for other, task in TESTED.items()
    }
    return {
        "score": errors[CopyFirstNoisy.name],
        "test": errors,
        "valid": result["valid"]["mae"],
        "seconds": result["seconds"],
        "experiment": experiment.to_json(),
    }


def run(path: Path, options: argparse.Namespace) -> None:
    """Train what is missing, all cells of a seed before any of the next."""
    known = {(line["cell"], line["name"], line["seed"]) for line in done(path)}
    of_cells = [(seed, cell) for seed in options.seeds for cell in options.cells]
    for seed, cell in of_cells:
        for name in options.tasks:
            if (cell, name, seed) in known:
                continue
            found = trained(name, cell, seed, options.length, options.steps)
            line = {"trial": "grid", "cell": cell, "name": name, "seed": seed, **found}
            with path.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(cell, name, seed, f"{line['score']:.4f} {line['seconds']:.0f} s", flush=True)


def table(path: Path) -> Iterator[str]:
    """The mean error of each cell and task on copy-first-noisy's test set, range and seeds."""
    lines = done(path)
    for cell, name in dict.fromkeys((line["cell"], line["name"]) for line in lines):
        scores = [x["score"] for x in lines if (x["cell"], x["name"]) == (cell, name)]
        span = f"[{min(scores):.4f}; {max(scores):.4f}]"
        yield f"{cell:12} {name:18} {statistics.mean(scores):.4f} {span} {len(scores)}"


def main(words: Sequence[str] | None = None) -> None:
    """Train, or show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the file of lines to add to")
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=CELLS)
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TESTED))
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--length", type=int, default=LENGTH)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--show", action="store_true", help="print what is known")
    options = parser.parse_args(words)
    if options.show:
        print("\n".join(table(options.out)))
    else:
        run(options.out, options)


if __name__ == "__main__":
    main()
