"""`persistor demo`: see in a minute what persistent memory can do and fading memory cannot."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from persistor._tools.files import write_atomically
from persistor._tools.machine import processors
from persistor.analysis.inspection import first_batch, trace
from persistor.experiment import Experiment
from persistor.nn.sequence import Dense
from persistor.paper.budgets import budget
from persistor.paper.tables import Published, table
from persistor.report.page import filled, inside
from persistor.report.states import block_lines, numbers, watch
from persistor.reproduction.sweep import News, sweep
from persistor.tasks import Batch, Parity
from persistor.training import Run
from persistor.training.evaluation import scores_on

STEPS = 500  # the paper uses 35,000 for parity and 100,000 for copy-first
PARITY_CELLS = (("cmru", -1.0), ("cmru", 1.0), ("lru", None), ("mingru", None))
COPY_CELLS, COPY_LENGTH = ("alpha-cmru", "lru"), 300
LENGTH_BINS = (50, 145, 240, 335, 430, 525, 620, 715, 810, 905, 1001)
RAMP_HEIGHT, RAMP_STEPS = 1.5, 20  # of the symbol that fades in and out
SHOWN_LENGTH = 60  # of the strings on which the page shows states
PAGE = "demo.html"
SCRIPTS = ("playground.js", "charts.js", "states.js", "demo.js")


@dataclass(frozen=True)
class Planned:
    """What the demo trains: its name, the experiment, and the paper's number."""

    what: str
    experiment: Experiment
    paper: Published

    @property
    def budget(self) -> str:
        """The steps beside the paper's."""
        steps, task = self.experiment.training.steps, self.experiment.task.name
        return f"{steps:,} of {budget(task).steps:,} steps"


@dataclass(frozen=True)
class DemoRun:
    """One run of the demo beside the paper's number."""

    planned: Planned
    run: Run
    ours: float

    @property
    def paper(self) -> str:
        """The paper's mean [min; max]."""
        numbers = self.planned.paper
        return f"{numbers.mean:.2%} [{numbers.low:.2%}; {numbers.high:.2%}]"

    def __str__(self) -> str:
        planned = self.planned
        return f"{planned.what:34} {self.ours:8.2%}   {self.paper:26}  {planned.budget}"


def experiments() -> list[Planned]:
    """All that the demo trains."""
    planned = []
    for cell, epsilon in PARITY_CELLS:
        name = cell if epsilon is None else f"{cell} epsilon {epsilon:g}"
        experiment = Experiment.of("parity", cell=cell, epsilon=epsilon, steps=STEPS)
        published_as = {} if epsilon is None else {"epsilon": f"{epsilon:g}"}
        paper = _published("parity", cell=cell, **published_as)
        planned.append(Planned(f"parity, {name}", experiment, paper))
    for cell in COPY_CELLS:
        task = "copy-first-discrete"
        experiment = Experiment.of(task, cell=cell, length=COPY_LENGTH, steps=STEPS)
        paper = _published(task, cell=cell, length=str(COPY_LENGTH))
        planned.append(Planned(f"copy first of {COPY_LENGTH}, {cell}", experiment, paper))
    return planned


def _published(name: str, **row: str) -> Published:
    published = table(name).row(**row).published
    assert published is not None
    return published


def train_all(
    folder: Path,
    planned: Sequence[Planned],
    watch: Callable[[News], None] = lambda news: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[str, str]:
    """Train what is not finished yet, each processor its own run; the reasons of failures."""
    wanted = [p.experiment for p in planned if Run.create(p.experiment, folder).result is None]
    if not wanted:
        return {}
    return sweep(wanted, folder, workers=processors(), watch=watch, should_stop=should_stop)


def finished(folder: Path, planned: Sequence[Planned]) -> list[DemoRun]:
    """The finished runs of the demo."""
    rows = []
    for plan in planned:
        run = Run.create(plan.experiment, folder)
        result = run.result
        if result is not None:
            rows.append(DemoRun(plan, run, result["test"]["accuracy"]))
    return rows


def accuracy_by_length(run: Run) -> list[float]:
    """Test accuracy of a parity run for each range of string lengths."""
    task = run.experiment.task
    split = task.split("test")
    scores = scores_on(run.model(), split, task.objective)
    lengths = np.asarray(split.at(jnp.arange(split.size, dtype=jnp.int32)).lengths)
    bins = np.digitize(lengths, LENGTH_BINS[1:-1])
    return [float(scores[bins == i].mean()) for i in range(len(LENGTH_BINS) - 1)]


def ramp(run: Run) -> dict[str, Any]:
    """The states of a copy-first model while a symbol fades in, out, and the same reversed."""
    up = np.linspace(0, RAMP_HEIGHT, RAMP_STEPS)
    swing = np.concatenate([up, up[::-1], -up, -up[::-1], np.zeros(RAMP_STEPS)])
    first = first_batch(run.experiment.task.split("test"), 1)
    symbol, empty = np.asarray(first.inputs.dense())[0, :2]
    inputs = (empty + swing[:, None] * (symbol - empty)).astype(np.float32)
    block = trace(run.model(), Batch(Dense(jnp.asarray(inputs[None])), first.targets))[0]
    return {"input": numbers(swing), **block_lines(block, 0, np.arange(len(swing)))}


def next_commands(rows: Sequence[DemoRun]) -> list[tuple[str, str]]:
    """Three commands to go on with, and what each of them does."""
    run = rows[0].run.path
    return [
        (f"persistor evaluate {run} --lengths 10000", "is it exact on strings ten times longer?"),
        (f"persistor inspect {run}", "what does its unit do, in words and as a picture?"),
        ("persistor train smnist --cell cmru --state 32", "real data, fetched and checked"),
    ]


def demo_page(rows: Sequence[DemoRun], path: Path) -> None:
    """Write the page that shows what was trained."""
    parity = [row for row in rows if isinstance(row.run.experiment.task, Parity)]
    middles = (np.array(LENGTH_BINS[:-1]) + np.array(LENGTH_BINS[1:]) - 1) / 2
    short = Parity(test_lengths=(SHOWN_LENGTH, SHOWN_LENGTH))
    states = [watch(row.run, short) for row in parity]
    data: dict[str, Any] = {
        "lengths": [
            {
                "name": row.planned.what.removeprefix("parity, "),
                "steps": middles.tolist(),
                "values": accuracy_by_length(row.run),
            }
            for row in parity
        ],
        "seen": Parity().train_lengths,
        "states": states,
    }
    ramped = [row for row in rows if row not in parity]
    data["ramps"] = [{"name": row.planned.what, **ramp(row.run)} for row in ramped]
    ramps = "".join(
        f'<h3>{html.escape(row.planned.what)}</h3><div id="ramp-{number}"></div>'
        f'<p id="ramp-files-{number}" class="files"></p>'
        for number, row in enumerate(ramped)
    )
    commands = "".join(
        f"<li><code>{html.escape(command)}</code><br>{html.escape(why)}</li>"
        for command, why in next_commands(rows)
    )
    text = filled(
        "demo.html",
        SCRIPTS,
        data,
        rows="".join(map(_row, rows)),
        inside=inside(states, []),
        ramps=ramps,
        commands=commands,
    )
    write_atomically(path, text.encode())


def _row(row: DemoRun) -> str:
    planned = row.planned
    cells = (f"{row.ours:.2%}", row.paper, planned.budget)
    data = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
    return f'<tr><th scope="row">{html.escape(planned.what)}</th>{data}</tr>'
