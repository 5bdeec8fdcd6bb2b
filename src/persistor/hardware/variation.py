"""Mismatch: simulated cells with the mismatch of many seeds, and the spread fitted to them."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from importlib.resources import files

import numpy as np

from persistor.hardware.circuit import Bistable
from persistor.hardware.measure import Bench, CellReport, hysteresis
from persistor.hardware.spice import CORNERS, Conditions, Report


@dataclass(frozen=True)
class Spread:
    """Standard deviations over chips, nA; `correlation` is that of the two thresholds."""

    upper: float
    lower: float
    output: float
    correlation: float
    level: float  # of an integrator's settled current: fitted to ladders in SPICE
    seeds: int


def fit(cells: list[CellReport]) -> dict[str, float]:
    """The spread of simulated cells."""
    table = np.array([[cell.upper, cell.lower, cell.output] for cell in cells])
    spread = dict(zip(("upper", "lower", "output"), table.std(0, ddof=1).tolist(), strict=True))
    return {**spread, "correlation": float(np.corrcoef(table[:, 0], table[:, 1])[0, 1])}


def monte_carlo(
    cell: Bistable, bench: Bench, seeds: int, report: Report | None = None
) -> list[CellReport]:
    """One cell, simulated with the mismatch of `seeds` different chips."""
    cells = []
    for seed in range(seeds):
        cells.append(hysteresis(cell, bench.at(seed=seed))[0])
        if report is not None:
            report(seed + 1, seeds)
    return cells


def everywhere(conditions: Conditions) -> list[Conditions]:
    """All corners at three temperatures, and the supply 10% lower and higher."""
    process = [
        replace(conditions, corner=corner, temperature=temperature)
        for corner in CORNERS
        for temperature in (-20.0, 27.0, 85.0)
    ]
    volts = conditions.supply
    return [*process, *(replace(conditions, supply=round(volts * f, 3)) for f in (0.9, 1.1))]


def over_corners(
    cell: Bistable, bench: Bench, report: Report | None = None
) -> list[tuple[Conditions, CellReport]]:
    """One cell under all conditions of `everywhere`."""
    places, reports = everywhere(bench.conditions), []
    for place in places:
        reports.append((place, hysteresis(cell, replace(bench, conditions=place))[0]))
        if report is not None:
            report(len(reports), len(places))
    return reports


def spread_of(cell: Bistable) -> Spread:
    """The spread of a cell with other currents: the error of a mirror grows with its current."""

    ratio = cell.upper / Bistable().upper
    currents = ("upper", "lower", "output", "level")
    return replace(SPREAD, **{name: ratio * getattr(SPREAD, name) for name in currents})


def measured() -> Spread:
    """The spread of the standard cell in SPICE; `persistor hardware yield cell` measures it."""
    value = json.loads(files("persistor.hardware").joinpath("spread.json").read_text())
    return Spread(**value["spread"])


SPREAD = measured()
