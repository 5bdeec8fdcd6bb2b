"""Weights as ratios of current mirrors.

A feature u is two currents, rest + max(u, 0) and rest + max(-u, 0) in units of `feature`. Their
difference is u, so u need not be bounded, and the error of a mirror grows with u instead of with an
offset that every feature would carry. The small rest current keeps the diodes fast: a diode with
less current is slower. Each half goes into an NMOS diode, and through an NMOS copy into a PMOS
diode. A positive weight is a PMOS output (a source) of the first half and an NMOS output (a sink)
of the second half at node x of its unit. A negative weight is the other way round. A bias is an
output of one reference.

A ratio is the number of unit devices of an output over that of the diode. The width of a device
cannot set the ratio, because the current per width depends on the width: in the models, a PMOS of
1 um carries more than four times the current that scaling down one of 7 um would give. So weights
lie on a grid that includes zero, and a weight that would need more than `most` unit devices stays
an ideal source. The unit device is narrow because node x carries the drains of all of them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from persistor.hardware.circuit import Size
from persistor.hardware.mapping import Layer


@dataclass(frozen=True)
class Mirrors:
    """The mirrors of a layer's features; currents in nA for a feature of one.

    The copy and the two gains are trims like `circuit.Trim`: they were measured once on the nominal
    corner (`persistor hardware simulate RUN` shows the remaining error).
    """

    device: Size = Size(0.55, 8.0)  # the unit device, NMOS and PMOS
    diode: int = 64  # unit devices of a diode
    copy: int = 59  # unit devices of the copy: fewer, so that sources and sinks have equal gain
    most: int = 256  # unit devices of one weight or bias, at most
    bias: int = 4  # size of the biases' reference and its diodes, relative to a feature's
    feature: float = 0.16
    rest: float = 0.04
    gain: float = 1.012  # output of a weight, relative to its nominal output
    bias_gain: float = 1.019  # the same for a bias

    @property
    def grid(self) -> float:
        """The weight of one unit device, nA."""
        return self.feature / self.diode

    def halves(self, features: np.ndarray) -> dict[int, np.ndarray]:
        """The two currents of every feature by sign, nA, trimmed."""
        return {
            sign: (self.rest + self.feature * np.maximum(sign * features, 0)) / self.gain
            for sign in (1, -1)
        }

    @property
    def reference(self) -> float:
        """The reference current of the biases, nA, trimmed."""
        return self.bias * self.feature / self.bias_gain


@dataclass(frozen=True)
class Weights:
    """The weights of a layer as unit devices; a positive number is a source, a negative a sink."""

    mirrors: Mirrors
    counts: np.ndarray  # (d, m) unit devices
    biases: np.ndarray  # (d,) unit devices
    ideal: np.ndarray  # (d, m) nA: weights that are too large
    ideal_biases: np.ndarray  # (d,) nA

    @staticmethod
    def of(layer: Layer, mirrors: Mirrors = Mirrors()) -> Weights:
        """The weights of a layer, rounded to unit devices."""
        weights = np.array([unit.weights for unit in layer.units])
        offsets = np.array([unit.offset for unit in layer.units])
        counts, biases = (np.rint(w / mirrors.grid).astype(int) for w in (weights, offsets))
        fits, bias_fits = (np.abs(n) <= mirrors.most for n in (counts, biases))
        return Weights(
            mirrors,
            np.where(fits, counts, 0),
            np.where(bias_fits, biases, 0),
            np.where(fits, 0.0, weights),
            np.where(bias_fits, 0.0, offsets),
        )

    def sums(self, features: np.ndarray) -> np.ndarray:
        """The input currents of features with perfect mirrors, nA: (n, m) to (n, d)."""
        grid = self.mirrors.grid
        return (
            features @ (grid * self.counts + self.ideal).T + grid * self.biases + self.ideal_biases
        )

    def ideal_sums(self, features: np.ndarray) -> np.ndarray:
        """The part of the input currents from ideal sources, nA: (n, m) to (n, d)."""
        return features @ self.ideal.T + self.ideal_biases

    def devices_at_x(self) -> np.ndarray:
        """The number of unit devices with a drain at each unit's node x: (d,)."""
        return 2 * np.abs(self.counts).sum(1) + np.abs(self.biases)

    def summary(self) -> dict[str, int]:
        """The number of weights and biases of each kind."""
        small = (self.counts == 0) & (self.ideal == 0)
        stages = 2 * self.counts.shape[1] + self.mirrors.bias
        diodes = stages * (2 * self.mirrors.diode + self.mirrors.copy)
        return {
            "mirrors": int((self.counts != 0).sum()),
            "left_out": int(small.sum()),
            "ideal": int((self.ideal != 0).sum()),
            "bias_mirrors": int((self.biases != 0).sum()),
            "bias_ideal": int((self.ideal_biases != 0).sum()),
            "unit_devices": int(self.devices_at_x().sum() + diodes),
        }

    def __str__(self) -> str:
        n = self.summary()
        return (
            f"weights: {n['mirrors']} mirrors, {n['left_out']} left out (below half of "
            f"{1e3 * self.mirrors.grid:g} pA), {n['ideal']} ideal (above {self.mirrors.most} unit "
            f"devices); biases: {n['bias_mirrors']} mirrors, {n['bias_ideal']} ideal; "
            f"{n['unit_devices']:,} unit devices"
        )

    def as_json(self) -> dict[str, Any]:
        """As plain values: a table to build from."""
        return {
            **asdict(self.mirrors),
            "counts": self.counts.tolist(),
            "biases": self.biases.tolist(),
            "ideal_nA": self.ideal.tolist(),
            "ideal_biases_nA": self.ideal_biases.tolist(),
        }


def mean_power(weights: Weights, features: np.ndarray, volts: float) -> dict[str, float]:
    """The mean power of the mirrors on features (n, m), nW: for all features, and for one unit."""
    mirrors = weights.mirrors
    halves = {sign: half.mean(0) for sign, half in mirrors.halves(features).items()}
    per_unit = mirrors.gain / mirrors.diode  # output of a unit device per nA of its half, nA
    sources = sum(np.maximum(sign * weights.counts, 0) @ half for sign, half in halves.items())
    biases = mirrors.grid * np.maximum(weights.biases, 0)
    inputs = sum(float(half.sum()) for half in halves.values())
    copies = mirrors.copy / mirrors.diode * (inputs + mirrors.reference)
    return {
        "inputs": volts * inputs,
        "references": volts * mirrors.reference,
        "features": volts * copies,
        "unit": volts * float((per_unit * sources + biases).mean()),
    }
