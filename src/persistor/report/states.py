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
POINTS = 1_000  # of a line; fewer where a run would need more than
BYTES = 100_000


def watched(
    folder: Path,
    report: Callable[[int, int], None] = lambda done, total: None,
    *,
    most: int = RUNS,
) -> tuple[list[dict[str, Any]], list[str]]:
    """The states of the runs that still have weights, newest first; a line for each left out."""
    there = sorted(folder.glob("*/best.safetensors"), key=lambda p: (-p.stat().st_mtime_ns, p))
    seen, left = [], []
    for number, path in enumerate(there[:most]):
        report(number, min(len(there), most))
        try:
            seen.append(_watch(Run.open(path.parent)))
        except PersistorError as error:
            left.append(f"{path.parent.name} is not shown: {error}")
    if len(there) > most:
        left.append(f"Of {len(there)} runs with weights, the {most} newest are looked into.")
    return seen, left


def _watch(run: Run) -> dict[str, Any]:
    """A run's states on examples from all over its test set, in as many points as there is room."""
    task, model = run.experiment.task, run.model()
    batch = spread(task.split("test"), EXAMPLES)
    traces = trace(model, batch)[:BLOCKS]
    names, inputs = _inputs(batch)
    state, blocks, width = run.experiment.model.state_size, len(model.blocks), task.inputs
    left = [f"the first {UNITS} of {state} units"] * (state > UNITS)
    left += [f"the first {BLOCKS} of {blocks} blocks"] * (blocks > BLOCKS)
    left += [f"the first {len(names)} of {width} inputs of a step"] * (1 < len(names) < width)
    left += ["the real part of complex states"] * any(np.iscomplexobj(t.states) for t in traces)
    made: dict[str, Any] = {"run": run.path.name, "left": left, "inputs": names}
    points = POINTS
    while True:
        made["examples"] = [
            _example(task, batch, traces, inputs[i], i, points) for i in range(len(inputs))
        ]
        if len(as_text(made)) <= BYTES:
            return made
        points = points * 3 // 4


def as_text(value: Any) -> str:
    """As JSON without blanks."""
    return json.dumps(value, separators=(",", ":"))


def _inputs(batch: Batch) -> tuple[list[str], NDArray[Any]]:
    """What to draw of the inputs: names, and values (b, t, names).

    Of a one-hot input the number of its value stands for all of it.
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
    """Inputs, states and updates at the steps that are kept: every so many, and the last."""
    steps = len(inputs) if batch.lengths is None else int(batch.lengths[index])
    every = -(-steps // points)
    kept = kept_steps(steps, every)
    return {
        "target": target(task, batch, index),
        "steps": steps,
        "every": every,
        "inputs": [_numbers(line) for line in inputs[kept].T],
        "letters": [task.letters[i] for i in inputs[kept, 0]] if task.letters else None,
        "blocks": [_block(part, index, kept) for part in traces],
    }


def kept_steps(steps: int, every: int) -> NDArray[np.int64]:
    """The steps that are shown: the first, every so many after it, and the last."""
    return np.unique([*range(0, steps, every), steps - 1])


def _block(part: BlockTrace, index: int, kept: NDArray[np.int64]) -> dict[str, Any]:
    """The states of a block's first units; an update is marked at the first step kept after it."""
    states = np.real(np.asarray(part.states[index]))[kept, :UNITS]
    updates = np.asarray(part.updates[index])[: kept[-1] + 1, :UNITS]
    since = np.logical_or.reduceat(updates, np.concatenate([[0], kept[:-1] + 1]))
    if not np.isfinite(states).all():
        raise PersistorError("its states are not finite")
    return {
        "states": [_numbers(line) for line in states.T],
        "updates": ["".join("01"[int(x)] for x in line) for line in since.T],
    }


def _numbers(values: NDArray[Any]) -> list[float | int]:
    """To four digits, whole numbers without a point."""
    rounded = (float(f"{x:.4g}") for x in values)
    return [int(x) if x.is_integer() else x for x in rounded]
