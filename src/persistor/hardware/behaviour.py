"""The behaviour of circuits in JAX: thousands of chips at once, while SPICE simulates one.

A cell is a hysteretic comparator of currents whose thresholds and output differ from chip to chip
as they do in SPICE (`variation.Spread`). An integrator follows the equation of the DPI in the
logarithm of its current, so that it includes the slew from the rail.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from persistor.arrays import Array, Float, Int, Key
from persistor.hardware.circuit import Bistable, LadderCircuit
from persistor.hardware.measure import Piece
from persistor.hardware.variation import Spread, spread_of

RAIL = 21.0  # e-folds of current between an integrator at its level and one at the rail


class Chips(eqx.Module):
    """Thresholds, output and settled integrator level of every cell of many chips, nA."""

    upper: Float[Array, "n d"]
    lower: Float[Array, "n d"]
    output: Float[Array, "n d"]
    level: Float[Array, "n d"]


def make_chips(
    key: Key, cell: Bistable, chips: int, cells: int, spread: Spread | None = None
) -> Chips:
    """Draw chips. The two thresholds of a cell share a sink, and so part of their error."""
    spread = spread_of(cell) if spread is None else spread
    one, two, three, four = jax.random.normal(key, (4, chips, cells))
    shared = spread.correlation
    separate = (1 - shared**2) ** 0.5
    return Chips(
        cell.upper + spread.upper * one,
        cell.lower + spread.lower * (shared * one + separate * two),
        cell.scale + spread.output * three,
        cell.scale + spread.level * four,
    )


@eqx.filter_jit
def run_cells(
    chips: Chips,
    currents: Float[Array, "b t d"],
    *,
    lengths: Int[Array, " b"] | None = None,
    noise: float = 0.0,
    key: Key,
) -> Float[Array, "n b t d"]:
    """Output currents of every chip after every input, nA. All cells are down at first.

    `noise` is the standard deviation of the noise that is added to every input current, nA.
    """
    batch, length, _ = currents.shape
    ends = jnp.full((batch,), length, jnp.int32) if lengths is None else lengths

    def one_chip(args):
        upper, lower, output, key = args

        def step(up, inputs):
            t, current, key = inputs
            if noise:
                current = current + noise * jax.random.normal(key, current.shape)
            moved = (current > upper[None, :]) | (up & (current >= lower[None, :]))
            up = jnp.where((t < ends)[:, None], moved, up)
            return up, up

        times = jnp.arange(length, dtype=jnp.int32)
        inputs = (times, jnp.moveaxis(currents, 1, 0), jax.random.split(key, length))
        _, ups = jax.lax.scan(step, jnp.zeros(currents.shape[::2], bool), inputs)
        return jnp.where(jnp.moveaxis(ups, 0, 1), output[None, None, :], 0.0)

    keys = jax.random.split(key, chips.upper.shape[0])
    return jax.vmap(one_chip)((chips.upper, chips.lower, chips.output, keys))


def run_ladders(
    ladder: LadderCircuit, chips: Chips, pieces: list[Piece], resolution: int = 40
) -> tuple[np.ndarray, Int[Array, "n t"]]:
    """Times, and the number of cells that are up in every chip's ladder under a drive.

    `chips` has one column for each cell. Thresholds above the first cell are raised by the scale,
    and their error grows with the current of their sink.
    """
    tau, level, cell = ladder.time_constant, ladder.cell.scale, ladder.cell
    dt = tau / resolution
    ends = np.cumsum([piece.seconds for piece in pieces])
    times = np.arange(0.0, ends[-1], dt)
    drive = np.array([piece.current for piece in pieces])[np.searchsorted(ends, times, "right")]
    ratio = level / ladder.tau_current
    gain = level / (ratio - 1)  # I_gain at which an integrator settles at the level
    above = jnp.arange(ladder.levels) > 0
    raised = jnp.where(above, level, 0.0)[None, :]
    worse = jnp.where(above, (cell.upper + level) / cell.upper, 1.0)[None, :]
    upper = cell.upper + raised + worse * (chips.upper - cell.upper)
    lower = cell.lower + raised + worse * (chips.lower - cell.lower)

    def step(carry, current: Float[Array, ""]):
        up, log_current, taken = carry
        dpi = jnp.exp(log_current)
        around = jnp.pad(dpi * chips.level / level, ((0, 0), (1, 1)))
        total = current + around[:, :-2] + around[:, 2:]
        taken = jnp.where(up & (total < lower), taken + dt * (lower - total), 0.0)
        up = (up & (taken < ladder.fall_charge)) | (total > upper)
        growth = jnp.where(up, ratio / (1 + dpi / gain), 0.0) - 1.0
        # A step at a constant growth rate would overshoot the level, so it is clipped there.
        log_current = jnp.clip(log_current + dt / tau * growth, _floor(level), jnp.log(level))
        return (up, log_current, taken), up.sum(-1, dtype=jnp.int32)

    shape = chips.upper.shape
    start = (jnp.zeros(shape, bool), jnp.full(shape, _floor(level)), jnp.zeros(shape))
    _, levels = jax.lax.scan(step, start, jnp.asarray(drive, jnp.float32))
    return times, jnp.moveaxis(levels, 0, 1)


def _floor(level: float) -> float:
    """The logarithm of an integrator's current at the rail."""
    return float(np.log(level)) - RAIL


def levels_at_ends(times: np.ndarray, levels: Array, pieces: list[Piece]) -> np.ndarray:
    """The level of every chip at the end of every piece of a drive."""
    ends = np.cumsum([piece.seconds for piece in pieces])
    return np.asarray(levels)[:, np.searchsorted(times, ends - 1e-4) - 1]
