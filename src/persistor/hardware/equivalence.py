"""The trained model and its netlist on the same sequences, state by state."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from persistor.hardware.deployment import Deployment, inside
from persistor.hardware.measure import NANO, Bench
from persistor.hardware.mirrors import Weights
from persistor.hardware.netlist import BLOCKS, RAMP, cell_bench, layer_bench, staircase
from persistor.hardware.spice import Job
from persistor.tasks import Batch, Objective

LARGE = {"ideal": "weights too large for a mirror", "bias_ideal": "biases too large for one"}


def ideal(weights: Weights | None) -> str:
    """The parts of a layer's netlist that are ideal sources."""
    if weights is None:
        return "inputs (weights included), references"
    counts = weights.summary()
    large = [f"{counts[key]} {what}" for key, what in LARGE.items() if counts[key]]
    return ", ".join(["features", "references", *large])


@dataclass(frozen=True)
class Divergence:
    """A state in which model and netlist differ, although they agreed one step before."""

    sequence: int
    step: int
    unit: int
    current: float  # input from the model's weights, nA
    model_is_up: bool


@dataclass(frozen=True)
class Agreement:
    """How well a netlist agrees with the model."""

    cell_steps: int
    equal: int
    changes: int  # times that a state of the model changes; a constant would miss them
    divergences: list[Divergence]
    metric: str
    of_model: float  # the metric on these sequences
    of_netlist: float  # the same, with the states read from the circuit's output currents
    transistors: int
    seconds: float  # of simulated time
    power: dict[str, float]  # nW by block, mean over the run
    ideal: str
    weights: dict[str, int] | None  # number of each kind; None if all are ideal

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
            + f")\nideal: {self.ideal}"
        )
        if self.weights is not None:
            counts = ", ".join(f"{n:,} {name}" for name, n in self.weights.items())
            text += f"\nweights: {counts.replace('_', ' ')}"
        if not self.divergences:
            return text
        f = self.divergences[0]
        return text + (
            f"\nfirst divergence of {len(self.divergences)}: sequence {f.sequence}, step {f.step}, "
            f"unit {f.unit}, input {f.current:.4f} nA, the model's state is "
            f"{'up' if f.model_is_up else 'down'}"
        )

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return {"agreement": self.share, **asdict(self)}


def layer_job(
    deployment: Deployment, batch: Batch, bench: Bench, period: float, weights: Weights | None
) -> Job:
    """A simulation of all units on the sequences in a row, with a reset period before each.

    Without `weights`, the input of every unit is one ideal source that carries its whole sum. It
    resets the unit by carrying nothing.
    """
    volts, cell = bench.conditions.supply, deployment.layer.cell
    if weights is None:
        flat = _with_resets(deployment.currents(batch))
        inputs = {str(k): staircase(levels, period) for k, levels in enumerate(flat.T)}
        net = cell_bench(cell, volts, inputs, bench.sizes)
    else:
        flat = _with_resets(deployment.features(batch))
        resets = np.arange(len(flat)) % (batch.inputs.length + 1) == 0
        net = layer_bench(cell, weights, flat, resets, period, volts, bench.sizes)
    names = [str(k) for k in range(len(deployment.layer.units))]
    vectors = [f"i(v_out{k})" for k in names]
    return net.job(vectors, len(flat) * period, period / 2, [f"x{k}" for k in names])


def _with_resets(values: np.ndarray) -> np.ndarray:
    """Sequences (b, t, f) in a row (time, f), with a step of zeros before each."""
    return np.pad(values, ((0, 0), (1, 0), (0, 0))).reshape(-1, values.shape[-1])


def verify(
    deployment: Deployment,
    batch: Batch,
    objective: Objective,
    bench: Bench,
    period: float = 0.02,
    weights: Weights | None = None,
) -> Agreement:
    """Simulate the layer on a batch and compare every state of every unit at every step."""
    currents = deployment.currents(batch)
    size, length, units = currents.shape
    job = layer_job(deployment, batch, bench, period, weights)
    traces = bench.run(job)
    moments = (np.arange(size * (length + 1)) + 1) * period - RAMP / 10
    outputs = NANO * np.stack([traces.at(f"i(v_out{k})", moments) for k in range(units)], -1)
    outputs = outputs.reshape(size, length + 1, units)[:, 1:]
    ups = outputs > deployment.layer.cell.scale / 2
    model = deployment.layer.ups(deployment.states(batch))
    counted = np.repeat(inside(batch)[..., None], units, axis=-1)
    before = np.concatenate([np.zeros((size, 1, units), bool), model[:, :-1]], axis=1)
    read = {"of_netlist": outputs, "of_model": deployment.layer.cell.scale * model}
    scores = {
        who: objective.score(deployment.answers(batch, currents_out), batch.targets).mean()
        for who, currents_out in read.items()
    }
    power = bench.power(traces)
    return Agreement(
        cell_steps=int(counted.sum()),
        equal=int(((ups == model) & counted).sum()),
        changes=int(((model != before) & counted).sum()),
        divergences=_divergences((ups != model) & counted, currents, model),
        metric=objective.metric,
        **{who: float(score) for who, score in scores.items()},
        transistors=job.transistors,
        seconds=job.stop,
        power={b: float(np.trapezoid(power[b], traces.time) / job.stop) for b in BLOCKS},
        ideal=ideal(weights),
        weights=None if weights is None else weights.summary(),
    )


def _divergences(wrong: np.ndarray, currents: np.ndarray, model: np.ndarray) -> list[Divergence]:
    before = np.pad(wrong, ((0, 0), (1, 0), (0, 0)))[:, :-1]
    return [
        Divergence(
            *map(int, at), current=float(currents[tuple(at)]), model_is_up=bool(model[tuple(at)])
        )
        for at in np.argwhere(wrong & ~before)
    ]
