"""What a trained model does inside: when units update, which levels they visit, how far gradients
reach. `persistor inspect` shows it as a table and as a picture."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from persistor._tools.errors import PersistorError
from persistor.analysis.theory import gradient_flow
from persistor.arrays import Array, Bool, Float, Inexact
from persistor.cells import Ladder
from persistor.model import Backbone
from persistor.nn.sequence import inside
from persistor.recurrence.transition import Affine
from persistor.tasks import Batch

LEVEL_DIGITS = 3  # states that are equal to this many decimals are one level


class BlockTrace(eqx.Module):
    """What happened in one block on a batch."""

    transitions: Affine  # for a ladder: at its states, so the decay is 0 where an end stops it
    states: Inexact[Array, "b t d"]
    flow: Float[Array, "b t d"]
    levels: int | None = eqx.field(static=True, default=None)  # of a ladder

    @property
    def updates(self) -> Bool[Array, "b t d"]:
        """Whether a step may change a state: its transition is not the identity."""
        return (self.transitions.decay != 1) | (self.transitions.drive != 0)


@eqx.filter_jit
def trace(model: Backbone, batch: Batch) -> list[BlockTrace]:
    """Transitions, states and gradient flow of every block on a batch."""
    xs, traces = model.encode(batch.inputs), []
    encoding = model.encode_positions(batch.inputs.length)
    for block in model.blocks:
        us = block.cell_inputs(xs, encoding)
        transitions = block.cell.gate(us.linear(block.cell.project).dense())
        if batch.lengths is not None:
            real = inside(batch.lengths, batch.inputs.length)
            transitions = transitions.keep_where(real[..., None])
        states, _ = block.cell.states(us, lengths=batch.lengths)
        first = block.cell.initial_state((*us.batch, 1))
        transitions = transitions.at(jnp.concatenate([first, states[..., :-1, :]], axis=-2))
        levels = block.cell.levels if isinstance(block.cell, Ladder) else None
        traces.append(BlockTrace(transitions, states, gradient_flow(transitions), levels))
        xs, _ = block(xs, encoding, None, lengths=batch.lengths)
    return traces


@dataclass(frozen=True)
class UnitReport:
    """One unit of one block, over all steps of all sequences."""

    block: int
    unit: int
    retains: float  # share of steps that leave the state as it was
    retains_after_first: float  # the same, without the first step
    count: float  # net sum of what is added after the first step, mean over sequences
    levels: int  # distinct states visited
    lowest: float
    highest: float
    flow: float  # |dh_T / dh_1|, mean over sequences
    reflects: bool  # some update reverses the sign of the state: its decay is negative
    at_level: tuple[float, ...] = ()  # for a ladder: the share of steps at each level, 0 to N

    @property
    def verdict(self) -> str:
        """What the unit does with its state after the first step, in one word."""
        if self.retains_after_first == 1.0:
            return "keeps"
        if self.flow < 1e-3:
            return "forgets"
        if self.reflects:
            return "flips"
        return "counts" if self.flow == 1.0 else "fades" if self.flow < 1.0 else "updates"


def report_units(traces: list[BlockTrace], lengths: Array | None) -> list[UnitReport]:
    """A report for every unit of every block."""
    reports = []
    for number, block_trace in enumerate(traces):
        decay, drive = (
            np.asarray(block_trace.transitions.decay),
            np.asarray(block_trace.transitions.drive),
        )
        states, flow = np.asarray(block_trace.states), np.asarray(block_trace.flow)
        length = states.shape[-2]
        real = np.ones(states.shape[:-1], bool)
        if lengths is not None:
            real = np.asarray(inside(lengths, length))
        later = real.copy()
        later[:, 0] = False
        still = ~np.asarray(block_trace.updates)
        # An update that the end of a ladder stops adds nothing; any other adds the drive.
        added = drive if block_trace.levels is None else np.where(decay == 0, 0, drive)
        for unit in range(states.shape[-1]):
            values = np.real(states[..., unit][real])
            retains = still[..., unit]
            reports.append(
                UnitReport(
                    block=number,
                    unit=unit,
                    retains=float(retains[real].mean()),
                    retains_after_first=float(retains[later].mean()) if later.any() else 1.0,
                    count=float(np.real(np.where(later, added[..., unit], 0)).sum(-1).mean()),
                    levels=len(np.unique(np.round(values, LEVEL_DIGITS))),
                    lowest=float(values.min()),
                    highest=float(values.max()),
                    flow=float(flow[:, 0, unit].mean()),
                    reflects=bool((np.real(decay[..., unit][later]) < 0).any()),
                    at_level=_shares(values, block_trace.levels),
                )
            )
    return reports


def _shares(values: np.ndarray, levels: int | None) -> tuple[float, ...]:
    """The share of the values at each level of a ladder; empty for other cells."""
    if levels is None:
        return ()
    return tuple(float((values == level).mean()) for level in range(levels + 1))


def as_json(reports: list[UnitReport]) -> list[dict[str, Any]]:
    """The reports as plain values."""
    return [{**asdict(report), "verdict": report.verdict} for report in reports]


def look(model: Backbone, batch: Batch) -> tuple[list[BlockTrace], list[UnitReport]]:
    """Trace a model on a batch and report on its units."""
    traces = jax.block_until_ready(trace(model, batch))
    return traces, report_units(traces, batch.lengths)


def first_batch(split, examples: int) -> Batch:
    """The first examples of a split."""
    if examples < 1:
        raise PersistorError(f"examples is {examples}; it must be at least 1")
    return split.at(jnp.arange(min(examples, split.size), dtype=jnp.int32))
