"""Circuits as values. Currents are in nA, times in s, capacitances in pF, sizes in um.

The bistable cell (nine transistors): node x takes the input current and the feedback, against a
threshold sink. x gates two switches; each sits over a bias sink (width, scale) and pulls on a PMOS
mirror. The first mirror feeds the width back into x, the second delivers the scale to the output.
So x goes up if the input exceeds `upper`, goes down if it falls below `lower = upper - width`, and
stays in between: a current-mode Schmitt trigger, which is a BMRU.

The ladder (native CMRU, epsilon = 1): the scale branch of every cell is also the tail of a
differential pair integrator (DPI). Cell k receives the integrators of its neighbours k - 1 and
k + 1, and every cell above the first has its threshold raised by one scale. A cell can therefore go
up only above a cell that is up, and down only below a cell that is down: one level at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from persistor._tools.errors import PersistorError

THERMAL_VOLTAGE = 0.02585  # V, at 27 C
FALL = 2.0  # time constants that node x takes to fall after a decaying integrator, simulated
KAPPA = 0.7  # slope of a subthreshold gate, PMOS of this technology


@dataclass(frozen=True)
class Size:
    """Width and length of a transistor, um."""

    width: float
    length: float


@dataclass(frozen=True)
class Sizes:
    """The size of every kind of device: long mirrors for small mismatch, and small switches."""

    nmos: Size = Size(5.0, 20.0)
    pmos: Size = Size(7.0, 20.0)
    switch: Size = Size(1.0, 1.0)


@dataclass(frozen=True)
class Trim:
    """Factors on the references that compensate for the finite resistance of their mirrors.

    Measured once on the nominal corner (`persistor hardware simulate` shows what remains).
    """

    threshold: float = 1.0
    width: float = 1.0
    scale: float = 1.0


@dataclass(frozen=True)
class Bistable:
    """The programmed currents of one BMRU cell, nA: h' = scale above `upper`, 0 below `lower`."""

    upper: float = 0.35
    lower: float = 0.15
    scale: float = 0.5
    trim: Trim = Trim(threshold=1.018, width=1.0, scale=0.889)

    def __post_init__(self):
        if not 0 < self.lower < self.upper:
            raise PersistorError(
                f"thresholds are {self.lower:g} and {self.upper:g} nA; "
                "the lower must be positive and the upper above it"
            )
        if self.scale <= 0:
            raise PersistorError(f"scale is {self.scale:g} nA; it must be positive")

    @property
    def width(self) -> float:
        """The hysteresis window, nA."""
        return self.upper - self.lower

    @property
    def retain(self) -> float:
        """The input that holds best: the middle of the window, nA."""
        return (self.upper + self.lower) / 2

    def references(self) -> dict[str, float]:
        """The three reference currents, trimmed, nA."""
        return {
            "threshold": self.upper * self.trim.threshold,
            "width": self.width * self.trim.width,
            "scale": self.scale * self.trim.scale,
        }


@dataclass(frozen=True)
class LadderCircuit:
    """A native CMRU with `levels` levels above zero, and the drive that moves it."""

    levels: int = 4
    cell: Bistable = Bistable(trim=Trim(threshold=1.018, width=1.0, scale=0.95))
    level_trim: float = 0.87  # of the reference that the integrators' gain loop holds
    tau_current: float = 0.0142
    capacitance: float = 1.5
    loop_capacitance: float = 30.0
    up: float = 0.45
    down: float = 0.05

    def __post_init__(self):
        if self.levels < 1:
            raise PersistorError(f"levels is {self.levels}; a ladder needs at least 1")

    @property
    def time_constant(self) -> float:
        """tau = C U_T / (kappa I_tau), s."""
        return 1e-3 * self.capacitance * THERMAL_VOLTAGE / (KAPPA * self.tau_current)

    @property
    def step_up(self) -> float:
        """The time from one level to the next above, s.

        An integrator has to reach upper + scale - up: tau ln(scale / (up - upper)). Before that
        its capacitor slews from the rail to the gain bias (about 0.6 V) at the tail current.
        """
        settle = self.time_constant * math.log(self.cell.scale / (self.up - self.cell.upper))
        return settle + 1e-3 * self.capacitance * 0.6 / self.cell.scale

    @property
    def step_down(self) -> float:
        """The time from one level to the next below, s.

        An integrator has to decay to lower - down: tau ln(scale / (lower - down)). Then node x,
        whose sources have left saturation, takes FALL time constants to fall.
        """
        settle = math.log(self.cell.scale / (self.cell.lower - self.down))
        return self.time_constant * (settle + FALL)

    @property
    def fall_charge(self) -> float:
        """The charge that node x loses as it falls for FALL time constants, nA s.

        After an integrator decays through its threshold, the missing current grows as
        (lower - down) (1 - exp(-t / tau)).
        """
        missing = (self.cell.lower - self.down) * self.time_constant
        return missing * (FALL - 1 + math.exp(-FALL))
