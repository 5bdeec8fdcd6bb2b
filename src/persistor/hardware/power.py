"""The power of each block of a cell, of a ladder, and of layers of many cells, in nW."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from persistor.hardware.circuit import Bistable, LadderCircuit
from persistor.hardware.deployment import Deployment, inside
from persistor.hardware.measure import Bench, climb_one_by_one, hysteresis, run_ladder
from persistor.hardware.mirrors import Weights, mean_power
from persistor.tasks import Batch

Rows = dict[str, dict[str, float]]  # circuit or state -> block -> nW


def of_cell(bench: Bench) -> Rows:
    """The power of a cell at the retain input, down and up."""
    report, _ = hysteresis(Bistable(), bench)
    return {"down": report.power_low, "up": report.power_high}


def of_ladder(levels: int, bench: Bench) -> Rows:
    """The power of a ladder at the retain input, on every level."""
    ladder = LadderCircuit(levels)
    report, _ = run_ladder(ladder, climb_one_by_one(ladder), bench)
    return {f"level {k}": report.power[k] for k in sorted(report.power)}


def share_up(deployment: Deployment, batch: Batch) -> float:
    """The share of a model's states that are up, over the steps of a batch."""
    return float(deployment.layer.ups(deployment.states(batch))[inside(batch)].mean())


def of_layers(cell: Bistable, up: float, widths: Sequence[int], bench: Bench) -> Rows:
    """The power of layers of d cells that are up for a share of the time and share references."""
    report, _ = hysteresis(cell, bench)
    low, high = report.power_low, report.power_high
    mean = {block: (1 - up) * low[block] + up * high[block] for block in low}
    return {
        f"d = {d}": {b: p if b == "references" else d * p for b, p in mean.items()} for d in widths
    }


def with_mirrors(
    rows: Rows, widths: Sequence[int], weights: Weights, features: np.ndarray, volts: float
) -> Rows:
    """The same layers with weights as mirrors; all units share the mirrors of the features (n, m).

    The currents of the mirrors are computed, not simulated: the halves and copies of each feature,
    and the sources of each unit.
    """
    power = mean_power(weights, features, volts)
    return {
        what: {
            **row,
            "inputs": power["inputs"],
            "references": row["references"] + power["references"],
            "mirrors": power["features"] + d * power["unit"],
        }
        for (what, row), d in zip(rows.items(), widths, strict=True)
    }


def table(rows: Rows) -> str:
    """The rows as text, with their totals."""
    blocks = list(next(iter(rows.values())))
    lines = [f"{'nW':10}" + "".join(f"{name:>13}" for name in [*blocks, "total"])]
    for what, power in rows.items():
        values = [*power.values(), sum(power.values())]
        lines.append(f"{what:10}" + "".join(f"{value:13.3f}" for value in values))
    return "\n".join(lines)
