"""From circuits to SPICE: subcircuits of transistors, and the benches that drive them.

Every block has its own supply (v_cells, v_integrators, v_mirrors, v_references, v_inputs), whose
current gives the power of the block. References and inputs are ideal current sources.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from persistor._tools.errors import PersistorError
from persistor.hardware.circuit import Bistable, LadderCircuit, Size, Sizes
from persistor.hardware.mirrors import Mirrors, Weights
from persistor.hardware.spice import Job

BLOCKS = ("cells", "integrators", "mirrors", "references", "inputs")
LOAD_VOLTAGE = 0.6  # V at which an output is read: about the drop of an NMOS diode
DIFFUSION = 0.29  # um: drain and source extend this far beyond the gate
DECISION_VOLTAGE = 0.4  # V of node x when a cell decides (0.45 going up, 0.3 down; simulated)
RAMP = 1e-3  # s in which an input changes to the next
COMPLIANCE = 0.05  # V from the rail at which an ideal input stops pushing


class Netlist:
    """A netlist that grows line by line."""

    def __init__(self, sizes: Sizes = Sizes()):  # noqa: B008
        self.lines: list[str] = []
        self.sizes = sizes
        self.transistors = 0

    def job(self, vectors: list[str], stop: float, step: float, low: Sequence[str]) -> Job:
        """A transient that starts with the nodes `low` at ground and prints supply currents."""
        supplies = [f"i(v_{block})" for block in BLOCKS]
        initial = dict.fromkeys(low, 0.0)
        return Job(self.lines, [*vectors, *supplies], stop, step, initial, self.transistors)

    def nmos(
        self, name: str, drain: str, gate: str, source: str, size: Size | None = None, count=1
    ):
        """An NMOS transistor of `count` devices in parallel, with its bulk at ground."""
        self._mos(name, "nfet_01v8", (drain, gate, source, "0"), size or self.sizes.nmos, count)

    def pmos(
        self, name: str, drain: str, gate: str, supply: str, size: Size | None = None, count=1
    ):
        """A PMOS transistor of `count` devices in parallel, with source and bulk at a supply."""
        self._mos(name, "pfet_01v8", (drain, gate, supply, supply), size or self.sizes.pmos, count)

    def _mos(self, name: str, kind: str, nodes: tuple[str, ...], size: Size, count: int):
        area, around = size.width * DIFFUSION, 2 * (size.width + DIFFUSION)
        many = f" m={count} mult={count}" if count > 1 else ""  # the models scale mismatch by mult
        self.transistors += 1
        self.lines.append(
            f"x{name} {' '.join(nodes)} sky130_fd_pr__{kind} w={size.width:g} l={size.length:g} "
            f"ad={area:g} as={area:g} pd={around:g} ps={around:g}{many}"
        )

    def capacitor(self, name: str, one: str, two: str, picofarad: float):
        """A capacitor."""
        self.lines.append(f"c{name} {one} {two} {picofarad:g}p")

    def reference(self, name: str, nanoampere: float):
        """An ideal reference into an NMOS diode; node b_`name` is the gate of its sinks."""
        self.lines.append(f"i_{name} v_references b_{name} {nanoampere:.6g}n")
        self.nmos(f"ref_{name}", f"b_{name}", f"b_{name}", "0")

    def supplies(self, volts: float):
        """One supply for each block."""
        self.lines += [f"v_{block} v_{block} 0 {volts:g}" for block in BLOCKS]

    def load(self, node: str):
        """Read the current that flows into a node, at the voltage of a diode."""
        self.lines.append(f"v_{node} {node} 0 {LOAD_VOLTAGE:g}")

    def input(self, name: str, node: str, points: Sequence[tuple[float, float]]):
        """An ideal input through (s, nA) points that cannot push its node beyond a rail."""
        self.waveform(f"drive_{name}", points)
        drive, room = f"v(drive_{name})", f"v(v_inputs)-v({node})"
        push = f"max({drive},0)*tanh(max({room},0)/{COMPLIANCE:g})"
        pull = f"min({drive},0)*tanh(max(v({node}),0)/{COMPLIANCE:g})"
        self.lines.append(f"b_{name} v_inputs {node} i=1n*({push}+{pull})")

    def waveform(self, node: str, points: Sequence[tuple[float, float]]):
        """A voltage through (s, V) points; one volt of an input means one nA."""
        self._through(f"v_{node} {node} 0", points)

    def current(self, name: str, supply: str, node: str, points: Sequence[tuple[float, float]]):
        """An ideal current through (s, nA) points from a supply into a diode."""
        self._through(f"i_{name} {supply} {node}", points, "n")

    def _through(self, source: str, points: Sequence[tuple[float, float]], unit: str = ""):
        self.lines.append(f"{source} pwl(")
        for start in range(0, len(points), 8):
            pairs = " ".join(f"{t:.9g} {v:.6g}{unit}" for t, v in points[start : start + 8])
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

    tau dI/dt = -I + I (I_w / I_tau) / (1 + I / I_gain), where the voltage of `gain` sets I_gain.
    """
    net.nmos(f"pair_in{k}", f"syn{k}", f"syn{k}", f"tail{k}")
    net.nmos(f"pair_gain{k}", f"ps{k}", "gain", f"tail{k}")
    net.pmos(f"tau{k}", f"syn{k}", "b_tau", "v_integrators")
    net.capacitor(f"_syn{k}", f"syn{k}", "v_integrators", capacitance)
    for target in targets:
        net.pmos(f"dpi{k}_{target}", target, f"syn{k}", "v_integrators")


def gain_loop(net: Netlist, ladder: LadderCircuit) -> None:
    """A replica integrator in its steady state, whose output the loop holds at the scale.

    The loop finds the gain voltage at which an integrator settles at the scale in every corner: too
    much output current raises `gain`, which lowers the output.
    """
    net.nmos("loop_tail", "loop_t", "b_scale", "0")
    net.nmos("loop_in", "loop_syn", "loop_syn", "loop_t")
    net.nmos("loop_gain", "v_integrators", "gain", "loop_t")
    net.pmos("loop_tau", "loop_syn", "b_tau", "v_integrators")
    net.pmos("loop_out", "gain", "loop_syn", "v_integrators")
    net.nmos("loop_sink", "gain", "b_level", "0")
    net.capacitor("_loop", "gain", "0", ladder.loop_capacitance)


def mirror(
    net: Netlist, name: str, mirrors: Mirrors, outputs: dict[str, int], times: int = 1
) -> None:
    """Mirror the current into node n_`name`; `outputs` counts unit devices of sources (positive)
    and sinks (negative) by node."""
    device, sink, source = mirrors.device, f"n_{name}", f"p_{name}"
    net.nmos(f"diode_{name}", sink, sink, "0", device, times * mirrors.diode)
    net.nmos(f"copy_{name}", source, sink, "0", device, times * mirrors.copy)
    net.pmos(f"turn_{name}", source, source, "v_mirrors", device, times * mirrors.diode)
    for node, count in outputs.items():
        if count > 0:
            net.pmos(f"source_{name}_{node}", node, source, "v_mirrors", device, count)
        elif count < 0:
            net.nmos(f"sink_{name}_{node}", node, sink, "0", device, -count)


def weighted(net: Netlist, weights: Weights, features: np.ndarray, period: float) -> None:
    """The weighted sums of features (n, m), one row per period, into nodes x0, x1, ..."""
    mirrors, units = weights.mirrors, range(len(weights.counts))
    for sign, half in mirrors.halves(features).items():
        for j, levels in enumerate(half.T):
            name = f"{'plus' if sign > 0 else 'minus'}{j}"
            net.current(name, "v_inputs", f"n_{name}", staircase(levels, period))
            outputs = {f"x{k}": sign * int(weights.counts[k, j]) for k in units}
            mirror(net, name, mirrors, outputs)
    net.current("bias", "v_references", "n_bias", [(0.0, mirrors.reference)])
    biases = {f"x{k}": int(weights.biases[k]) for k in units}
    mirror(net, "bias", mirrors, biases, mirrors.bias)
    for k, levels in enumerate(weights.ideal_sums(features).T):
        if levels.any():
            net.input(f"in{k}", f"x{k}", staircase(levels, period))


def cells(net: Netlist, cell: Bistable, names: Sequence[str]) -> None:
    """Cells that share their references, with a load at every output."""
    for name, current in cell.references().items():
        net.reference(name, current)
    biases = {name: f"b_{name}" for name in ("threshold", "width", "scale")}
    for k in names:
        bistable(net, k, biases)
        net.load(f"out{k}")


def cell_bench(cell: Bistable, supply: float, inputs: dict[str, list], sizes: Sizes) -> Netlist:
    """Cells, each with its own ideal input."""
    net = Netlist(sizes)
    net.supplies(supply)
    cells(net, cell, list(inputs))
    for k, points in inputs.items():
        net.input(f"in{k}", f"x{k}", points)
    return net


def layer_bench(
    cell: Bistable,
    weights: Weights,
    features: np.ndarray,
    resets: np.ndarray,
    period: float,
    supply: float,
    sizes: Sizes,
) -> Netlist:
    """Cells with their weights; a switch pulls every node x down in the periods of `resets`."""
    units = range(len(weights.counts))
    net = Netlist(sizes)
    net.supplies(supply)
    cells(net, cell, [str(k) for k in units])
    weighted(net, weights, features, period)
    net.waveform("reset", staircase(supply * resets, period))
    for k in units:
        net.nmos(f"reset{k}", f"x{k}", "reset", "0", sizes.switch)
    return net


def sums_bench(
    weights: Weights, features: np.ndarray, period: float, supply: float, sizes: Sizes
) -> Netlist:
    """Weights alone: every node x is held at the decision voltage, and its current is read."""
    net = Netlist(sizes)
    net.supplies(supply)
    weighted(net, weights, features, period)
    net.lines += [f"v_x{k} x{k} 0 {DECISION_VOLTAGE:g}" for k in range(len(weights.counts))]
    return net


def ladder_bench(ladder: LadderCircuit, supply: float, points: list, sizes: Sizes) -> Netlist:
    """A ladder: every cell gets the same input and has a load at its output."""
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


def staircase(levels: np.ndarray, period: float) -> list[tuple[float, float]]:
    """Points of an input that holds each level for a period, with ramps between them."""
    if period <= RAMP:
        raise PersistorError(
            f"period is {period:g} s; it must be above {RAMP:g} s, an input's ramp"
        )
    points = [(0.0, float(levels[0]))]
    for i, level in enumerate(levels):
        if i:
            points.append((i * period + RAMP, float(level)))
        points.append(((i + 1) * period, float(level)))
    return points
