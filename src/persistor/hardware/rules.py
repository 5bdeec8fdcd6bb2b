"""Can a circuit be built? Each rule is one function that finds a value, a limit and a remedy.

A rule that does not apply returns None. To add a rule, write a function and list it in `RULES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from persistor.hardware.circuit import Bistable, LadderCircuit
from persistor.hardware.mapping import Layer
from persistor.hardware.mirrors import Weights
from persistor.hardware.variation import spread_of

LEAKAGE = 1e-4  # nA: a closed switch at 27 C, simulated
WEAK_INVERSION = 5.0  # nA, above which mirrors are no longer subthreshold
NODE = 0.06  # pF at node x: the gates of two switches and the drains at it
DRAIN = 4e-4  # additional pF for the drain of every unit device of a weight, simulated


@dataclass(frozen=True)
class Design:
    """The design to check: a cell, a ladder, or a layer with the inputs that it will receive."""

    cell: Bistable
    period: float = 0.02  # s between two inputs
    ladder: LadderCircuit | None = None
    inputs: np.ndarray | None = None  # input currents of trained units, nA, in any shape
    layer: Layer | None = None  # its weights become mirrors
    features: np.ndarray | None = None  # (n, m): the inputs of the weights


@dataclass(frozen=True)
class Finding:
    """The outcome of one rule."""

    rule: str
    says: str
    value: float
    limit: float
    unit: str
    holds: bool
    remedy: str

    def __str__(self) -> str:
        verdict = "ok  " if self.holds else "FAIL"
        text = f"{verdict} {self.rule:14} {self.says}: {self.value:.4g} {self.unit}, "
        text += f"limit {self.limit:.4g} {self.unit}"
        return text if self.holds else f"{text}; {self.remedy}"


Rule = Callable[[Design], Finding | None]


def _at_least(rule: str, says: str, value: float, limit: float, unit: str, remedy: str) -> Finding:
    return Finding(rule, says, value, limit, unit, value >= limit, remedy)


def _at_most(rule: str, says: str, value: float, limit: float, unit: str, remedy: str) -> Finding:
    return Finding(rule, says, value, limit, unit, value <= limit, remedy)


def smallest_current(design: Design) -> Finding:
    """Every programmed current is well above the leakage."""
    currents = [*design.cell.references().values(), design.cell.lower]
    if design.ladder is not None:
        currents.append(design.ladder.tau_current)
    return _at_least(
        "leakage",
        "smallest current",
        min(currents),
        100 * LEAKAGE,
        "nA",
        "scale all currents up",
    )


def largest_current(design: Design) -> Finding:
    """No device leaves weak inversion."""
    currents = [*design.cell.references().values(), 2 * design.cell.retain]
    if design.ladder is not None:
        currents.append(design.cell.upper + design.cell.scale)
    return _at_most(
        "subthreshold",
        "largest current",
        max(currents),
        WEAK_INVERSION,
        "nA",
        "scale all currents down, or widen the devices",
    )


def retain_margin(design: Design) -> Finding:
    """The retain input lies inside the window of nearly every chip."""
    margin = min(design.cell.upper - design.cell.retain, design.cell.retain - design.cell.lower)
    spread = spread_of(design.cell)
    return _at_least(
        "retain margin",
        "from the retain input to the nearer threshold",
        margin,
        4 * max(spread.upper, spread.lower),
        "nA",
        "widen the window, or enlarge the devices",
    )


def decision_time(design: Design) -> Finding | None:
    """An input that is beyond a threshold by a tenth of the window switches a cell in a period."""
    if design.ladder is not None:
        return None
    drains = 0 if design.layer is None else int(Weights.of(design.layer).devices_at_x().max())
    time = 1e-3 * (NODE + DRAIN * drains) * 1.8 / (0.1 * design.cell.width)
    return _at_least(
        "decision time",
        "period",
        design.period,
        time,
        "s",
        "sample more slowly, or scale all currents up",
    )


def input_margin(design: Design) -> Finding | None:
    """Few of the task's inputs are so close to a threshold that mismatch decides."""
    if design.inputs is None:
        return None
    cell, spread = design.cell, spread_of(design.cell)
    up, down = np.abs(design.inputs - cell.upper), np.abs(design.inputs - cell.lower)
    close = (up < 2 * spread.upper) | (down < 2 * spread.lower)
    return _at_most(
        "input margin",
        "share of inputs within two sigma of a threshold",
        float(close.mean()),
        0.05,
        "",
        "train longer or with input noise, or enlarge the devices",
    )


def weight_range(design: Design) -> Finding | None:
    """No weight or bias needs more unit devices than a mirror may have; larger ones stay ideal."""
    if design.layer is None:
        return None
    weights = Weights.of(design.layer)
    largest = max(
        np.abs(values).max()
        for unit in design.layer.units
        for values in (unit.weights, unit.offset)
    )
    return _at_most(
        "weight range",
        "unit devices of the largest weight or bias",
        float(largest / weights.mirrors.grid),
        weights.mirrors.most + 0.5,
        "",
        "it stays an ideal source; train with more weight decay",
    )


def weight_grid(design: Design) -> Finding | None:
    """Rounding weights to unit devices matters less than the mismatch of a cell."""
    if design.layer is None or design.features is None:
        return None
    error = Weights.of(design.layer).sums(design.features) - design.layer.sums(design.features)
    return _at_most(
        "weight grid",
        "rounding of a weighted sum, rms",
        float(np.sqrt((error**2).mean())),
        0.5 * spread_of(design.cell).upper,
        "nA",
        "give the diodes more unit devices",
    )


def ladder_hold(design: Design) -> Finding | None:
    """A level that was just reached holds when the drive returns to rest."""
    if design.ladder is None:
        return None
    ladder = design.ladder
    swing = max(ladder.up - ladder.cell.retain, ladder.cell.retain - ladder.down)
    return _at_most(
        "ladder hold",
        "swing of the drive around the retain input",
        swing,
        ladder.cell.width * (1 + 1e-9),
        "nA",
        "drive more gently, or widen the window",
    )


def ladder_drive(design: Design) -> Finding | None:
    """The drive is strong enough to move the ladder."""
    if design.ladder is None:
        return None
    ladder, spread = design.ladder, spread_of(design.cell)
    return _at_least(
        "ladder drive",
        "from the drive to the threshold it must pass",
        min(ladder.up - ladder.cell.upper, ladder.cell.lower - ladder.down),
        3 * max(spread.upper, spread.lower),
        "nA",
        "drive harder",
    )


def ladder_period(design: Design) -> Finding | None:
    """A period is long enough to change by one level."""
    if design.ladder is None:
        return None
    return _at_least(
        "ladder period",
        "period",
        design.period,
        max(design.ladder.step_up, design.ladder.step_down),
        "s",
        "sample more slowly, or take a smaller capacitor",
    )


RULES: tuple[Rule, ...] = (
    smallest_current,
    largest_current,
    retain_margin,
    decision_time,
    input_margin,
    weight_range,
    weight_grid,
    ladder_hold,
    ladder_drive,
    ladder_period,
)


def check(design: Design) -> list[Finding]:
    """The findings of all rules that apply to a design."""
    return [finding for rule in RULES if (finding := rule(design)) is not None]
