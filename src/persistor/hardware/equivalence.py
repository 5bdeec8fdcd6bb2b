"""The trained model and its netlist on the same sequences, state by state."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from persistor.hardware.deployment import Deployment, inside
from persistor.hardware.measure import NANO, Bench
from persistor.hardware.netlist import BLOCKS, cell_bench, staircase
from persistor.hardware.spice import Job
from persistor.tasks import Batch, Objective

IDEAL = "inputs (weights included), references"  # what the netlist leaves to ideal sources
RAMP = 1e-3  # s between one input and the next


@dataclass(frozen=True)
class Divergence:
    """A state in which model and netlist differ."""

    sequence: int
    step: int
    unit: int
    current: float  # nA of input
    model_is_up: bool


@dataclass(frozen=True)
class Agreement:
    """How far a netlist is the model."""

    cell_steps: int
    equal: int
    changes: int  # states of the model that differ from the one before: what a constant would miss
    first: Divergence | None
    metric: str
    of_model: float  # the metric on these sequences
    of_netlist: float  # the same, with the states read from the circuit's output currents
    transistors: int
    seconds: float  # of simulated time
    power: dict[str, float]  # nW by block, mean over the run

    @property
    def share(self) -> float:
        """The share of equal states."""
        return self.equal / self.cell_steps

    def __str__(self) -> str:
        text = (
            f"{self.equal:,} of {self.cell_steps:,} states equal ({self.share:.2%}); "
            f"the model's states change {self.changes:,} times\n"
            f"{self.metric} {self.of_netlist:.4f}, the model's {self.of_model:.4f}\n"
            f"{self.transistors} transistors, {self.seconds:g} s simulated, "
            f"{sum(self.power.values()):.1f} nW on average ("
            + ", ".join(f"{b} {p:.1f}" for b, p in self.power.items())
            + f")\nideal: {IDEAL}"
        )
        if self.first is None:
            return text
        f = self.first
        return text + (
            f"\nfirst divergence: sequence {f.sequence}, step {f.step}, unit {f.unit}, "
            f"input {f.current:.4f} nA, the model's state is {'up' if f.model_is_up else 'down'}"
        )

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return {"agreement": self.share, **asdict(self), "ideal": IDEAL}


def layer_job(deployment: Deployment, currents: np.ndarray, bench: Bench, period: float) -> Job:
    """All units of the layer; the sequences one after the other, a reset period before each.

    Weights are ideal: every unit's input is one source that carries its whole sum.
    """
    size, steps, units = currents.shape
    reset = np.zeros((size, 1, units))
    flat = np.concatenate([reset, currents], axis=1).reshape(-1, units)
    inputs = {str(k): staircase(flat[:, k], period, RAMP) for k in range(units)}
    net = cell_bench(deployment.layer.cell, bench.conditions.supply, inputs, bench.sizes)
    vectors = [f"i(v_out{k})" for k in range(units)]
    stop = size * (steps + 1) * period
    return net.job(vectors, stop, period / 2, [f"x{k}" for k in range(units)])


def verify(
    deployment: Deployment, batch: Batch, objective: Objective, bench: Bench, period: float = 0.02
) -> Agreement:
    """Simulate the layer on a batch and compare every state of every unit at every step."""
    currents = deployment.currents(batch)
    size, steps, units = currents.shape
    job = layer_job(deployment, currents, bench, period)
    traces = bench.run(job)
    moments = (np.arange(size * (steps + 1)) + 1) * period - RAMP / 10
    outputs = NANO * np.stack([traces.at(f"i(v_out{k})", moments) for k in range(units)], -1)
    outputs = outputs.reshape(size, steps + 1, units)[:, 1:]
    ups = outputs > deployment.layer.cell.scale / 2
    model = deployment.layer.ups(deployment.states(batch))
    counted = np.repeat(inside(batch)[..., None], units, axis=-1)
    before = np.concatenate([np.zeros((size, 1, units), bool), model[:, :-1]], axis=1)
    read = {"of_netlist": outputs, "of_model": deployment.layer.cell.scale * model}
    scores = {
        who: objective.score(deployment.answers(batch, given), batch.targets).mean()
        for who, given in read.items()
    }
    power = bench.power(traces)
    return Agreement(
        cell_steps=int(counted.sum()),
        equal=int(((ups == model) & counted).sum()),
        changes=int(((model != before) & counted).sum()),
        first=_first(np.argwhere((ups != model) & counted), currents, model),
        metric=objective.metric,
        **{who: float(score) for who, score in scores.items()},
        transistors=job.transistors,
        seconds=job.stop,
        power={b: float(np.trapezoid(power[b], traces.time) / job.stop) for b in BLOCKS},
    )


def _first(where: np.ndarray, currents: np.ndarray, model: np.ndarray) -> Divergence | None:
    if not len(where):
        return None
    sequence, step, unit = (int(i) for i in where[0])
    at = sequence, step, unit
    return Divergence(*at, current=float(currents[at]), model_is_up=bool(model[at]))
