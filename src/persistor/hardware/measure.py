"""Measurements of simulated circuits: thresholds, output, retention, levels, power by block."""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from persistor._tools.errors import PersistorError
from persistor.hardware.circuit import Bistable, LadderCircuit, Sizes
from persistor.hardware.mirrors import Weights
from persistor.hardware.netlist import BLOCKS, cell_bench, ladder_bench, sums_bench
from persistor.hardware.spice import Conditions, Job, Report, Traces, find_models, simulate

NANO = 1e9


@dataclass(frozen=True)
class Bench:
    """Where and how circuits are simulated."""

    models: Path = field(default_factory=find_models)
    conditions: Conditions = Conditions()
    sizes: Sizes = Sizes()
    limit: float = 300.0
    report: Report | None = None

    def at(self, **changes: Any) -> Bench:
        """The same bench under other conditions."""
        return replace(self, conditions=replace(self.conditions, **changes))

    def run(self, job: Job) -> Traces:
        """Simulate."""
        return simulate(job, self.models, self.conditions, limit=self.limit, report=self.report)

    def power(self, traces: Traces) -> dict[str, np.ndarray]:
        """Power of every block over time, nW."""
        volts = self.conditions.supply
        return {b: -NANO * volts * traces[f"i(v_{b})"] for b in BLOCKS}


@dataclass(frozen=True)
class CellReport:
    """One cell: its thresholds (nA), its output (nA) and its power (nW)."""

    upper: float
    lower: float
    output: float
    output_low: float
    power_low: dict[str, float]
    power_high: dict[str, float]

    def __str__(self) -> str:
        low, high = sum(self.power_low.values()), sum(self.power_high.values())
        return (
            f"up at {self.upper:.3f} nA, down at {self.lower:.3f} nA, "
            f"output {self.output:.3f} nA ({1e3 * self.output_low:.2g} pA when down)\n"
            f"power {low:.2f} nW down, {high:.2f} nW up (references and inputs included)"
        )

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def hysteresis_job(cell: Bistable, bench: Bench, seconds: float = 1.0) -> Job:
    """A cell whose input slowly sweeps up and down."""
    points = [(0.0, 0.0), (seconds, 2 * cell.retain), (2 * seconds, 0.0)]
    net = cell_bench(cell, bench.conditions.supply, {"0": points}, bench.sizes)
    vectors = ["v(drive_in0)", "i(v_out0)", "v(x0)"]
    return net.job(vectors, 2 * seconds, seconds / 200, ["x0"])


def hysteresis(cell: Bistable, bench: Bench, seconds: float = 1.0) -> tuple[CellReport, Traces]:
    """Sweep the input up and down, and measure where the output switches."""
    top = 2 * cell.retain
    traces = bench.run(hysteresis_job(cell, bench, seconds))
    output, drive = NANO * traces["i(v_out0)"], traces["v(drive_in0)"]
    high = output > cell.scale / 2
    rises, falls = (np.flatnonzero(np.diff(high.astype(int)) == sign) for sign in (1, -1))
    if len(rises) != 1 or len(falls) != 1:
        raise PersistorError(
            f"the cell does not switch once each way ({len(rises)} up, {len(falls)} down) "
            f"while its input sweeps 0 to {top:g} nA; check its currents with `hardware check`"
        )
    middle = np.array([cell.retain, 2 * top - cell.retain]) / top * seconds
    power = {b: np.interp(middle, traces.time, p) for b, p in bench.power(traces).items()}
    low, output_high = np.interp(middle, traces.time, output)
    return CellReport(
        upper=float(drive[rises[0]]),
        lower=float(drive[falls[0]]),
        output=float(output_high),
        output_low=float(low),
        power_low={b: float(p[0]) for b, p in power.items()},
        power_high={b: float(p[1]) for b, p in power.items()},
    ), traces


def retention(cell: Bistable, bench: Bench, seconds: float = 10.0) -> dict[str, float]:
    """Set one cell, reset another, hold both at the retain input: their outputs at the end, nA."""
    pulse = 0.05
    drives = {
        name: [(0.0, level), (pulse, level), (2 * pulse, cell.retain)]
        for name, level in (("1", 2 * cell.retain), ("0", 0.0))
    }
    net = cell_bench(cell, bench.conditions.supply, drives, bench.sizes)
    vectors = ["i(v_out0)", "i(v_out1)"]
    traces = bench.run(net.job(vectors, seconds + 2 * pulse, seconds / 200, ["x0", "x1"]))
    names = {"low": "i(v_out0)", "high": "i(v_out1)"}
    return {state: NANO * float(traces[name][-1]) for state, name in names.items()}


@dataclass(frozen=True)
class SumReport:
    """Errors of a layer's weighted sums compared with the model's, nA (mean, rms, largest)."""

    sums: int
    rounding: dict[str, float]  # of perfect mirrors, from the grid of unit devices
    nominal: dict[str, float]  # of simulated mirrors
    chips: list[dict[str, float]]  # of simulated mirrors with mismatch

    def __str__(self) -> str:
        lines = {"rounding alone": self.rounding, "simulated": self.nominal}
        lines |= {f"chip {i}": chip for i, chip in enumerate(self.chips)}
        return f"error of {self.sums} weighted sums, pA\n" + "\n".join(
            f"{what:15}" + ", ".join(f"{k} {1e3 * v:.1f}" for k, v in error.items())
            for what, error in lines.items()
        )

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def sums(weights: Weights, features: np.ndarray, bench: Bench, period: float = 0.02) -> np.ndarray:
    """The mirrors' sums of features (n, m), each at the end of a period, nA: (n, d)."""
    net = sums_bench(weights, features, period, bench.conditions.supply, bench.sizes)
    vectors = [f"i(v_x{k})" for k in range(len(weights.counts))]
    traces = bench.run(net.job(vectors, len(features) * period, period / 10, []))
    ends = (np.arange(len(features)) + 1) * period - 1e-4
    return NANO * np.stack([traces.at(name, ends) for name in vectors], -1)


def weighted_sums(
    weights: Weights, wanted: np.ndarray, features: np.ndarray, bench: Bench, chips: int
) -> SumReport:
    """Simulate the weights on features (n, m), without and with mismatch: errors of the sums."""

    def error(measured: np.ndarray) -> dict[str, float]:
        difference = measured - wanted
        return {
            "mean": float(difference.mean()),
            "rms": float(np.sqrt((difference**2).mean())),
            "largest": float(np.abs(difference).max()),
        }

    return SumReport(
        sums=wanted.size,
        rounding=error(weights.sums(features)),
        nominal=error(sums(weights, features, bench)),
        chips=[error(sums(weights, features, bench.at(seed=seed))) for seed in range(chips)],
    )


def _ms(seconds: list[float]) -> str:
    return " ".join(f"{1e3 * s:.1f}" for s in seconds) or "none"


@dataclass(frozen=True)
class LadderReport:
    """A ladder under a drive: the level at the end of every piece of the drive, and the power."""

    levels: list[int]  # cells that are up at the end of each piece
    outputs: list[float]  # nA at the same moments
    steps_up: list[float]  # s between one level and the next
    steps_down: list[float]
    power: dict[int, dict[str, float]]  # nW by level and block, at the retain input

    def __str__(self) -> str:
        power = ", ".join(f"{k}: {sum(p.values()):.1f}" for k, p in sorted(self.power.items()))
        outputs = " ".join(f"{o:.2f}" for o in self.outputs[::2])
        return (
            f"levels held {self.levels[::2]}, outputs {outputs} nA\n"
            f"steps up {_ms(self.steps_up)}, down {_ms(self.steps_down)} ms\n"
            f"power by level (nW) {power}"
        )

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Piece:
    """A piece of a drive: an input (nA) for some time (s)."""

    current: float
    seconds: float


def targets(ladder: LadderCircuit) -> list[int]:
    """The levels at which `climb` rests: zero, three (or all), two less, the top, zero."""
    first = min(3, ladder.levels)
    return [0, first, max(first - 2, 0), ladder.levels, 0]


def climb(ladder: LadderCircuit) -> list[Piece]:
    """A drive that goes up and down by several levels and rests at each of `targets`.

    The first cell moves nearly at once in a pulse, so pulses end midway between their target level
    and the next one.
    """
    _, first, second, _, _ = targets(ladder)
    rest = Piece(ladder.cell.retain, 5 * ladder.step_down)
    ends = ladder.levels + 1
    return [
        rest,
        Piece(ladder.up, (first - 0.5) * ladder.step_up),
        rest,
        Piece(ladder.down, (first - second - 0.4) * ladder.step_down),
        rest,
        Piece(ladder.up, ends * ladder.step_up),
        rest,
        Piece(ladder.down, ends * ladder.step_down),
        rest,
    ]


def climb_one_by_one(ladder: LadderCircuit) -> list[Piece]:
    """A drive that goes up and rests at every level."""
    rest = Piece(ladder.cell.retain, 5 * ladder.step_down)
    pulse = Piece(ladder.up, 0.5 * ladder.step_up)
    return [rest, *(piece for _ in range(ladder.levels) for piece in (pulse, rest))]


def drive_points(pieces: list[Piece], ramp: float = 2e-4) -> list[tuple[float, float]]:
    """The pieces as points of a waveform."""
    points, now = [(0.0, pieces[0].current)], 0.0
    for piece in pieces:
        if now:
            points.append((now + ramp, piece.current))
        now += piece.seconds
        points.append((now, piece.current))
    return points


def ladder_job(ladder: LadderCircuit, pieces: list[Piece], bench: Bench) -> Job:
    """A ladder under a drive."""
    net = ladder_bench(ladder, bench.conditions.supply, drive_points(pieces), bench.sizes)
    vectors = ["v(drive_in0)", "v(gain)", *(f"i(v_out{k})" for k in range(ladder.levels))]
    stop = sum(piece.seconds for piece in pieces)
    return net.job(vectors, stop, ladder.time_constant / 8, [f"x{k}" for k in range(ladder.levels)])


def run_ladder(
    ladder: LadderCircuit, pieces: list[Piece], bench: Bench
) -> tuple[LadderReport, Traces]:
    """Drive a ladder and report the levels it reaches."""
    cells = range(ladder.levels)
    ends = np.cumsum([piece.seconds for piece in pieces])
    traces = bench.run(ladder_job(ladder, pieces, bench))
    outputs = NANO * np.stack([traces[f"i(v_out{k})"] for k in cells])
    total = outputs.sum(0)
    level = (outputs > ladder.cell.scale / 2).sum(0)
    power = bench.power(traces)
    before_end = np.searchsorted(traces.time, ends - 1e-4)
    rest = ladder.cell.retain
    retained = [i for i, p in zip(before_end, pieces, strict=True) if p.current == rest]
    return LadderReport(
        levels=[int(level[i]) for i in before_end],
        outputs=[float(total[i]) for i in before_end],
        steps_up=_between(traces.time, level, 1),
        steps_down=_between(traces.time, level, -1),
        power={int(level[i]): {b: float(p[i]) for b, p in power.items()} for i in retained},
    ), traces


def _between(time: np.ndarray, level: np.ndarray, sign: int) -> list[float]:
    """Times between consecutive level changes in one direction."""
    changes = np.diff(level)
    at = np.flatnonzero(changes)
    return [
        float(time[b] - time[a])
        for a, b in itertools.pairwise(at)
        if np.sign(changes[a]) == np.sign(changes[b]) == sign
    ]
