"""Trained parameters to currents and back.

A unit updates when its candidate c = W x + b leaves [-beta, beta]. With a unit current g (nA per
unit of the candidate) and a rest current in the middle of the cell's window, the input current is

    I = retain + g c,   g = (upper - lower) / (2 beta)

so that c = beta is `upper` and c = -beta is `lower`. All cells have the same thresholds; the
weights g W carry the differences. A current cannot be negative and need not be large: outside
[0, 2 retain] the decision is clear, so an ideal input is clipped there without changing a state.
Weights as mirrors (`hardware.mirrors`) clip nothing: node x goes to a rail and comes back.
The state alpha is the cell's output `scale`, read back with a gain of alpha / scale per nA.

This is exact only for a threshold that does not depend on the input and for epsilon 0: a positive
CMRU after annealing. Any other cell is an error.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from persistor._tools.errors import PersistorError
from persistor.arrays import Array, Float
from persistor.cells import Cell, Ladder, PositiveCMRU
from persistor.hardware.circuit import Bistable, Trim


@dataclass(frozen=True)
class Unit:
    """One unit of a layer: the factors between its numbers and its currents."""

    gain: float  # input per unit of the candidate, nA: g
    weights: tuple[float, ...]  # input per unit of every feature, nA: g W
    offset: float  # input when all features are zero, nA: retain + g b
    state: float  # state per nA of output: alpha / scale


@dataclass(frozen=True)
class Layer:
    """A recurrent layer as a circuit: one kind of cell, and one unit for each state."""

    cell: Bistable
    units: tuple[Unit, ...]

    def sums(self, features: np.ndarray) -> np.ndarray:
        """Input currents for features (n, m), nA, not clipped: (n, d)."""
        weights = np.array([unit.weights for unit in self.units])
        return features @ weights.T + np.array([unit.offset for unit in self.units])

    def currents(self, candidates: Float[Array, "*s d"] | np.ndarray) -> np.ndarray:
        """Input currents for candidates W x + b, nA, clipped where the decision is clear."""
        gains = np.array([unit.gain for unit in self.units])
        raw = self.cell.retain + gains * np.asarray(candidates, np.float64)
        return np.clip(raw, 0.0, 2 * self.cell.retain)

    def states(self, outputs: np.ndarray) -> np.ndarray:
        """The model's states for output currents in nA."""
        return np.array([unit.state for unit in self.units]) * outputs

    def ups(self, states: Float[Array, "*s d"] | np.ndarray) -> np.ndarray:
        """Whether each state is the upper one of its unit's two states."""
        scales = np.array([unit.state for unit in self.units]) * self.cell.scale
        return np.asarray(states, np.float64) / scales > 0.5

    def to_json(self) -> dict[str, Any]:
        """The bias table: currents in nA."""
        return {
            "cell": {
                "upper_nA": self.cell.upper,
                "lower_nA": self.cell.lower,
                "scale_nA": self.cell.scale,
                "retain_nA": self.cell.retain,
                "references_nA": self.cell.references(),
                "trim": asdict(self.cell.trim),
            },
            "units": [
                {
                    "gain_nA": unit.gain,
                    "weights_nA": list(unit.weights),
                    "offset_nA": unit.offset,
                    "state_per_nA": unit.state,
                }
                for unit in self.units
            ],
        }

    @staticmethod
    def from_json(value: dict[str, Any]) -> Layer:
        """The layer that `to_json` described."""
        try:
            cell, trim = value["cell"], Trim(**value["cell"]["trim"])
            units = tuple(
                Unit(u["gain_nA"], tuple(u["weights_nA"]), u["offset_nA"], u["state_per_nA"])
                for u in value["units"]
            )
            bistable = Bistable(cell["upper_nA"], cell["lower_nA"], cell["scale_nA"], trim)
            return Layer(bistable, units)
        except (KeyError, TypeError) as error:
            raise PersistorError(f"this is not a bias table: {error} is missing") from None


def mappable(cell: Cell) -> PositiveCMRU:
    """The cell, if it has an exact circuit; otherwise an error that says what to do."""
    name = type(cell).__name__
    if isinstance(cell, Ladder):
        raise PersistorError(
            "Ladder has a circuit (persistor hardware netlist ladder), but a trained layer of "
            "ladders cannot be mapped yet; train with --deployable and without --levels"
        )
    if not isinstance(cell, PositiveCMRU):
        raise PersistorError(
            f"{name} has no exact circuit: its threshold depends on the input, or its states are "
            "signed; train with --deployable (cell positive-cmru)"
        )
    if np.any(np.asarray(cell.epsilon) != 0):
        raise PersistorError(
            f"epsilon is {np.max(np.asarray(cell.epsilon)):g}; a cell of two states needs 0: "
            "train with --deployable, which anneals it"
        )
    return cell


def to_currents(cell: Cell, bistable: Bistable = Bistable()) -> Layer:  # noqa: B008
    """The layer of circuits that computes what a trained cell computes."""
    cell = mappable(cell)
    gains = bistable.width / 2 / np.abs(np.asarray(cell.threshold, np.float64))
    weights = gains * np.asarray(cell.project.weight, np.float64)
    offsets = bistable.retain + gains * np.asarray(cell.project.bias, np.float64)
    states = np.asarray(cell.scale, np.float64) / bistable.scale
    units = zip(gains, weights.T, offsets, states, strict=True)
    return Layer(
        bistable,
        tuple(Unit(float(g), tuple(map(float, w)), float(o), float(s)) for g, w, o, s in units),
    )


def to_cell(layer: Layer) -> PositiveCMRU:
    """The cell that a layer of circuits computes: the inverse of `to_currents`."""
    gains = np.array([unit.gain for unit in layer.units])
    offsets = np.array([unit.offset for unit in layer.units])
    weights = np.array([unit.weights for unit in layer.units]).T
    cell = PositiveCMRU(*weights.shape, epsilon=0.0, key=jax.random.key(0))
    values = (
        weights / gains,
        (offsets - layer.cell.retain) / gains,
        layer.cell.width / 2 / gains,
        np.array([unit.state for unit in layer.units]) * layer.cell.scale,
    )
    return eqx.tree_at(
        lambda c: (c.project.weight, c.project.bias, c.threshold, c.scale),
        cell,
        tuple(jnp.asarray(v, jnp.float32) for v in values),
    )
