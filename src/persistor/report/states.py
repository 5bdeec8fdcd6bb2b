"""The states inside trained runs, step by step on a few test examples, thinned out for the page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor.analysis.examples import spread, target
from persistor.analysis.inspection import BlockTrace, trace
from persistor.nn.sequence import Indexed
from persistor.tasks import Batch, Task
from persistor.training import Run

RUNS = 12
EXAMPLES = 3
BLOCKS = 4
UNITS = 8  # of a block
FEATURES = 4  # of an input
POINTS = 1_000  # of a line; fewer if a run would need more than `BYTES`
BYTES = 100_000


def watched(
    folder: Path,
    report: Callable[[int, int], None] = lambda done, total: None,
    *,
    most: int = RUNS,
) -> tuple[list[dict[str, Any]], list[str]]:
    """The states of the runs that have weights, newest first, and a line for each run left out."""
    paths = sorted(folder.glob("*/best.safetensors"), key=lambda p: (-p.stat().st_mtime_ns, p))
    shown, left_out = [], []
    for number, path in enumerate(paths[:most]):
        report(number, min(len(paths), most))
        try:
            shown.append(watch(Run.open(path.parent)))
        except PersistorError as error:
            left_out.append(f"{path.parent.name} is not shown: {error}")
    if len(paths) > most:
        left_out.append(f"Of {len(paths)} runs with weights, the {most} newest are shown.")
    return shown, left_out


def watch(run: Run, other: Task | None = None) -> dict[str, Any]:
    """A run's states on examples from all over its test set, with as many points as fit.

    `other` is a task whose test set is taken instead.
    """
    task, model = other or run.experiment.task, run.model()
    batch = spread(task.split("test"), EXAMPLES)
    traces = trace(model, batch)[:BLOCKS]
    names, inputs = _inputs(batch)
    state, blocks, width = run.experiment.model.state_size, len(model.blocks), task.inputs
    left = [f"the first {UNITS} of {state} units"] * (state > UNITS)
    left += [f"the first {BLOCKS} of {blocks} blocks"] * (blocks > BLOCKS)
    left += [f"the first {len(names)} of {width} inputs of a step"] * (1 < len(names) < width)
    left += ["the real part of complex states"] * any(np.iscomplexobj(t.states) for t in traces)
    watched_run: dict[str, Any] = {"run": run.path.name, "left": left, "inputs": names}
    points = POINTS
    while True:
        watched_run["examples"] = [
            _example(task, batch, traces, inputs[i], i, points) for i in range(len(inputs))
        ]
        if len(as_text(watched_run)) <= BYTES:
            return watched_run
        points = points * 3 // 4


def as_text(value: Any) -> str:
    """As JSON without spaces."""
    return json.dumps(value, separators=(",", ":"))


def _inputs(batch: Batch) -> tuple[list[str], NDArray[Any]]:
    """The inputs to draw: names, and values (b, t, names).

    A one-hot input is drawn as one line: the number of its symbol.
    """
    if isinstance(batch.inputs, Indexed) and batch.inputs.rows.shape[-1] > 1:
        return ["symbol"], np.asarray(batch.inputs.whole().ids)[..., None]
    values = np.asarray(batch.inputs.dense())[..., :FEATURES]
    count = values.shape[-1]
    return ["input"] if count == 1 else [f"input {i}" for i in range(count)], values


def _example(
    task: Task,
    batch: Batch,
    traces: list[BlockTrace],
    inputs: NDArray[Any],
    index: int,
    points: int,
) -> dict[str, Any]:
    """Inputs, states and updates of an example at the steps that are shown."""
    steps = len(inputs) if batch.lengths is None else int(batch.lengths[index])
    every = -(-steps // points)
    kept = kept_steps(steps, every)
    return {
        "target": target(task, batch, index),
        "steps": steps,
        "every": every,
        "inputs": [numbers(line) for line in inputs[kept].T],
        "letters": [task.letters[i] for i in inputs[kept, 0]] if task.letters else None,
        "blocks": [block_lines(block_trace, index, kept) for block_trace in traces],
    }


def kept_steps(steps: int, every: int) -> NDArray[np.int64]:
    """The steps that are shown: the first, then one in `every`, and the last."""
    return np.unique([*range(0, steps, every), steps - 1])


def block_lines(block_trace: BlockTrace, index: int, kept: NDArray[np.int64]) -> dict[str, Any]:
    """The states of a block's first units. An update is marked at the next step that is shown."""
    states = np.real(np.asarray(block_trace.states[index]))[kept, :UNITS]
    updates = np.asarray(block_trace.updates[index])[: kept[-1] + 1, :UNITS]
    since = np.logical_or.reduceat(updates, np.concatenate([[0], kept[:-1] + 1]))
    if not np.isfinite(states).all():
        raise PersistorError("its states are not finite")
    return {
        "states": [numbers(line) for line in states.T],
        "updates": ["".join("01"[int(x)] for x in line) for line in since.T],
    }


def numbers(values: NDArray[Any]) -> list[float | int]:
    """Numbers with four digits; whole numbers without a decimal point."""
    rounded = (float(f"{x:.4g}") for x in values)
    return [int(x) if x.is_integer() else x for x in rounded]
