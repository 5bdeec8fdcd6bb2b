"""The paper's hardware figure: input, staircase output and power of a native CMRU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from persistor.hardware.circuit import Bistable, LadderCircuit
from persistor.hardware.measure import NANO, Bench
from persistor.hardware.netlist import BLOCKS
from persistor.hardware.spice import Traces
from persistor.plots import save_figure


def draw_ladder(ladder: LadderCircuit, traces: Traces, bench: Bench, path: Path) -> None:
    """Figure "Native CMRU analog circuit", panel C, with the power of each block."""
    figure = Figure(figsize=(8, 6.4), layout="constrained")
    top, middle, bottom = figure.subplots(3, 1, sharex=True)
    ms, cell = 1e3 * traces.time, ladder.cell
    top.plot(ms, traces["v(drive_in0)"], color="C0")
    top.axhspan(cell.lower, cell.upper, color="0.9", label="window")
    top.axhline(cell.retain, color="0.6", linewidth=0.8, linestyle="--", label="retain")
    top.set(ylabel="input (nA)")
    top.legend(loc="upper right", fontsize="small")
    total = NANO * sum(traces[f"i(v_out{k})"] for k in range(ladder.levels))
    for k in range(ladder.levels + 1):
        middle.axhline(k * cell.scale, color="0.85", linewidth=0.8)
    middle.plot(ms, total, color="C1")
    middle.set(ylabel="output (nA)")
    power = bench.power(traces)
    bottom.stackplot(ms, [power[b] for b in BLOCKS], labels=BLOCKS, alpha=0.8)
    bottom.set(xlabel="time (ms)", ylabel="power (nW)", ylim=(0, None))
    bottom.legend(loc="upper right", fontsize="small", ncols=2)
    figure.suptitle(f"Native CMRU, {ladder.levels} levels, ngspice with SkyWater 130 nm models")
    save_figure(figure, path, dpi=140)


def draw_cell(cell: Bistable, traces: Traces, path: Path) -> None:
    """The hysteresis of a BMRU cell: output against input, up and down."""
    figure = Figure(figsize=(5, 3.6), layout="constrained")
    axes = figure.subplots()
    drive, output = traces["v(drive_in0)"], NANO * traces["i(v_out0)"]
    turn = int(np.argmax(drive))
    axes.plot(drive[:turn], output[:turn], label="input rising")
    axes.plot(drive[turn:], output[turn:], label="input falling")
    for threshold in (cell.lower, cell.upper):
        axes.axvline(threshold, color="0.7", linewidth=0.8, linestyle="--")
    axes.axhline(cell.scale, color="0.7", linewidth=0.8, linestyle="--")
    axes.set(xlabel="input (nA)", ylabel="output (nA)", title="BMRU cell; dashed: as programmed")
    axes.legend(fontsize="small")
    save_figure(figure, path, dpi=140)
