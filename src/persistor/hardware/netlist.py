"""From circuits to SPICE: subcircuits of transistors, and the benches that drive them.

Every block has a supply of its own (v_cells, v_integrators, v_references, v_inputs), so that its
power is its supply's current. References and inputs are ideal current sources.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from persistor.hardware.circuit import Bistable, Ladder, Size, Sizes
from persistor.hardware.spice import Job

BLOCKS = ("cells", "integrators", "references", "inputs")
LOAD_VOLTAGE = 0.6  # where an output is read: about the drop of an NMOS diode
DIFFUSION = 0.29  # um: drain and source extend this far beyond the gate
COMPLIANCE = 0.05  # V: an ideal input stops pushing this close to the rail


class Netlist:
    """Lines of SPICE, growing."""

    def __init__(self, sizes: Sizes = Sizes()):  # noqa: B008
        self.lines: list[str] = []
        self.sizes = sizes
        self.transistors = 0

    def job(self, vectors: list[str], stop: float, step: float, low: Sequence[str]) -> Job:
        """A transient that begins with the nodes `low` at ground; supply currents are printed."""
        supplies = [f"i(v_{block})" for block in BLOCKS]
        initial = dict.fromkeys(low, 0.0)
        return Job(self.lines, [*vectors, *supplies], stop, step, initial, self.transistors)

    def nmos(self, name: str, drain: str, gate: str, source: str, size: Size | None = None):
        """An NMOS transistor, its bulk at ground."""
        self._mos(name, "nfet_01v8", drain, gate, source, "0", size or self.sizes.nmos)

    def pmos(self, name: str, drain: str, gate: str, supply: str):
        """A PMOS transistor, source and bulk at a supply."""
        self._mos(name, "pfet_01v8", drain, gate, supply, supply, self.sizes.pmos)

    def _mos(self, name: str, kind: str, d: str, g: str, s: str, b: str, size: Size):
        area, around = size.width * DIFFUSION, 2 * (size.width + DIFFUSION)
        self.transistors += 1
        self.lines.append(
            f"x{name} {d} {g} {s} {b} sky130_fd_pr__{kind} w={size.width:g} l={size.length:g} "
            f"ad={area:g} as={area:g} pd={around:g} ps={around:g}"
        )

    def capacitor(self, name: str, one: str, two: str, picofarad: float):
        """A capacitor."""
        self.lines.append(f"c{name} {one} {two} {picofarad:g}p")

    def reference(self, name: str, nanoampere: float):
        """An ideal reference into an NMOS diode: sinks of that current take node b_`name`."""
        self.lines.append(f"i_{name} v_references b_{name} {nanoampere:.6g}n")
        self.nmos(f"ref_{name}", f"b_{name}", f"b_{name}", "0")

    def supplies(self, volts: float):
        """One supply a block."""
        self.lines += [f"v_{block} v_{block} 0 {volts:g}" for block in BLOCKS]

    def load(self, node: str):
        """Read the current that flows into a node, at the voltage of a diode."""
        self.lines.append(f"v_{node} {node} 0 {LOAD_VOLTAGE:g}")

    def input(self, name: str, node: str, points: Sequence[tuple[float, float]]):
        """An ideal input of (s, nA) points that cannot push its node beyond the rail."""
        self.waveform(f"drive_{name}", points)
        limit = f"tanh(max(v(v_inputs)-v({node}),0)/{COMPLIANCE:g})"
        self.lines.append(f"b_{name} v_inputs {node} i=v(drive_{name})*1n*{limit}")

    def waveform(self, node: str, points: Sequence[tuple[float, float]]):
        """A voltage through (s, V) points; as an input, one volt stands for one nA."""
        self.lines.append(f"v_{node} {node} 0 pwl(")
        for start in range(0, len(points), 8):
            pairs = " ".join(f"{t:.9g} {v:.6g}" for t, v in points[start : start + 8])
            self.lines.append(f"+ {pairs}")
        self.lines.append("+ )")


def bistable(net: Netlist, k: str, biases: dict[str, str], tail: str = "") -> None:
    """The nine transistors of a cell: input x`k`, output `out`, biases by name.

    With a `tail`, the scale branch goes through that node (the pair of an integrator).
    """
    switch = net.sizes.switch
    net.nmos(f"threshold{k}", f"x{k}", biases["threshold"], "0")
    net.nmos(f"gate_width{k}", f"pw{k}", f"x{k}", f"nw{k}", switch)
    net.nmos(f"width{k}", f"nw{k}", biases["width"], "0")
    net.pmos(f"width_in{k}", f"pw{k}", f"pw{k}", "v_cells")
    net.pmos(f"width_out{k}", f"x{k}", f"pw{k}", "v_cells")
    net.nmos(f"gate_scale{k}", tail or f"ps{k}", f"x{k}", f"ns{k}", switch)
    net.nmos(f"scale{k}", f"ns{k}", biases["scale"], "0")
    net.pmos(f"scale_in{k}", f"ps{k}", f"ps{k}", "v_cells")
    net.pmos(f"scale_out{k}", f"out{k}", f"ps{k}", "v_cells")


def integrator(net: Netlist, k: str, targets: Sequence[str], capacitance: float) -> None:
    """A DPI: the pair over node tail`k`, the capacitor at syn`k`, a PMOS for every target node.

    tau dI/dt = -I + I (I_w / I_tau) / (1 + I / I_gain); I_gain is set by the voltage of `gain`.
    """
    net.nmos(f"pair_in{k}", f"syn{k}", f"syn{k}", f"tail{k}")
    net.nmos(f"pair_gain{k}", f"ps{k}", "gain", f"tail{k}")
    net.pmos(f"tau{k}", f"syn{k}", "b_tau", "v_integrators")
    net.capacitor(f"_syn{k}", f"syn{k}", "v_integrators", capacitance)
    for target in targets:
        net.pmos(f"dpi{k}_{target}", target, f"syn{k}", "v_integrators")


def gain_loop(net: Netlist, ladder: Ladder) -> None:
    """A replica integrator at its steady state, whose output is held at the scale.

    The loop finds the gain voltage at which an integrator settles at the scale whatever the
    corner: an excess of output current raises `gain`, which lowers the output.
    """
    net.nmos("loop_tail", "loop_t", "b_scale", "0")
    net.nmos("loop_in", "loop_syn", "loop_syn", "loop_t")
    net.nmos("loop_gain", "v_integrators", "gain", "loop_t")
    net.pmos("loop_tau", "loop_syn", "b_tau", "v_integrators")
    net.pmos("loop_out", "gain", "loop_syn", "v_integrators")
    net.nmos("loop_sink", "gain", "b_level", "0")
    net.capacitor("_loop", "gain", "0", ladder.loop_capacitance)


def cell_bench(cell: Bistable, supply: float, inputs: dict[str, list], sizes: Sizes) -> Netlist:
    """Cells that share their references, each with an input of its own."""
    net = Netlist(sizes)
    net.supplies(supply)
    for name, current in cell.references().items():
        net.reference(name, current)
    biases = {name: f"b_{name}" for name in ("threshold", "width", "scale")}
    for k, points in inputs.items():
        bistable(net, k, biases)
        net.input(f"in{k}", f"x{k}", points)
        net.load(f"out{k}")
    return net


def ladder_bench(ladder: Ladder, supply: float, points: list, sizes: Sizes) -> Netlist:
    """A ladder: the same input into every cell, the outputs summed."""
    net = Netlist(sizes)
    net.supplies(supply)
    references = ladder.cell.references()
    for name, current in references.items():
        net.reference(name, current)
    net.reference("raised", references["threshold"] + ladder.cell.scale)
    net.reference("level", ladder.cell.scale * ladder.level_trim)
    net.pmos("ref_tau", "b_tau", "b_tau", "v_references")
    net.lines.append(f"i_tau b_tau 0 {ladder.tau_current:.6g}n")
    gain_loop(net, ladder)
    for k in range(ladder.levels):
        threshold = "b_threshold" if k == 0 else "b_raised"
        biases = {"threshold": threshold, "width": "b_width", "scale": "b_scale"}
        neighbours = [f"x{n}" for n in (k - 1, k + 1) if 0 <= n < ladder.levels]
        bistable(net, str(k), biases, tail=f"tail{k}")
        integrator(net, str(k), neighbours, ladder.capacitance)
        net.input(f"in{k}", f"x{k}", points)
        net.load(f"out{k}")
    return net


def staircase(levels: np.ndarray, period: float, ramp: float) -> list[tuple[float, float]]:
    """Points of an input that holds each level for a period, with ramps between them."""
    points = [(0.0, float(levels[0]))]
    for i, level in enumerate(levels):
        if i:
            points.append((i * period + ramp, float(level)))
        points.append(((i + 1) * period, float(level)))
    return points
