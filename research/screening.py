"""Which start and which rates learn every task, with every cell, from every seed?

    python research/screening.py --out results/trials.jsonl          # continues where it stopped
    python research/screening.py --out results/trials.jsonl --show   # what is known so far

A *setting* is an architecture with rates of training, a *probe* a short task whose score lies in
[0, 1]: 0 is a guess and 1 is all that can be had. Every pair is trained with seeds that no table
and no claim uses. One line of JSON is added for each trained model, so that the screening can be
stopped at any time; a model that has a line is not trained again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from persistor import Experiment, ModelSpec, Task, TrainingSpec, train
from persistor.data import mnist
from persistor.model.architecture import architecture_named
from persistor.tasks import TASKS
from persistor.tasks.images import GreyImages, PixelsOfDigits

SEEDS = (11, 12, 13)


@dataclass(frozen=True)
class SmallDigits(PixelsOfDigits):
    """sMNIST at half its resolution, 196 pixels row by row: a quarter of the time."""

    name = "small-digits"
    summary = "name the digit, pixel by pixel, at half the resolution"
    fixed_length = "an image has 196 pixels"
    picture = (14, 14)
    permutation = None

    def split(self, name: str) -> GreyImages:
        """50,000 / 10,000 / 10,000, with every pixel the mean of four."""
        pixels, digits = mnist.load(self.source)
        chosen = self.source.slice(name)
        blocks = pixels[chosen].reshape(-1, 14, 2, 14, 2).mean((2, 4))
        small = np.rint(blocks).astype(np.uint8).reshape(-1, 196)
        return GreyImages(jnp.asarray(small), jnp.asarray(digits[chosen], jnp.int32))


@dataclass(frozen=True)
class Probe:
    """A short training: a task, a cell, a width and a number of steps."""

    task: Task
    cell: str
    state_size: int
    steps: int
    anneal: bool = False
    options: Mapping[str, float] = field(default_factory=dict)

    def experiment(self, setting: Mapping[str, Any], seed: int) -> Experiment:
        """The training of this probe with a setting."""
        changes = dict(setting)
        architecture = architecture_named(changes.pop("architecture", "paper"))
        model = ModelSpec(
            (self.cell,),
            self.state_size,
            architecture=architecture.but(changes),
            options=self.options.items(),
        )
        training = TrainingSpec(steps=self.steps, anneal=self.anneal, patience=5)
        return Experiment(self.task, model, training, seed)

    def shortened(self, share: float) -> Probe:
        """The same with a share of the steps."""
        return replace(self, steps=max(1, round(share * self.steps)))

    def score(self, metric: float) -> float:
        """A metric between that of a guess, 0, and the best that there is, 1."""
        best = 1.0 if self.task.objective.higher_is_better else 0.0
        return max(0.0, (metric - self.task.chance) / (best - self.task.chance))


def copy_first(kind: str, length: int) -> Task:
    """Copy-first at a length."""
    return TASKS[f"copy-first-{kind}"]().with_length(length)


REFLECT, HALF = {"epsilon": -1.0}, {"epsilon": 0.5}
PROBES = {
    "parity-cmru": Probe(TASKS["parity"](), "cmru", 1, 1500, options=REFLECT),
    "parity-alpha": Probe(TASKS["parity"](), "alpha-cmru", 1, 1500, options=REFLECT),
    "copy-1000": Probe(copy_first("discrete", 1000), "cmru", 4, 4000),
    "copy-5000": Probe(copy_first("discrete", 5000), "cmru", 4, 2000),
    "clean-1000": Probe(copy_first("clean", 1000), "cmru", 4, 4000),
    "digits-mingru": Probe(SmallDigits(), "mingru", 16, 2560),
    "digits-lru": Probe(SmallDigits(), "lru", 16, 2560),
    "digits-cmru": Probe(SmallDigits(), "cmru", 8, 2560),
    "digits-half": Probe(SmallDigits(), "cmru", 32, 2560, options=HALF),
    "annealed-alpha": Probe(SmallDigits(), "alpha-cmru", 4, 5120, anneal=True),
    "annealed-cmru": Probe(SmallDigits(), "cmru", 32, 5120, anneal=True),
}

FIRST = {"architecture": "norm-first"}
QUIET = {**FIRST, "empty": "zero", "norm_epsilon": 1.0, "position_scale": 0.01}
CHRONO = {"longest": 1000.0}
EVENTS = {"hold": 0.5, "gain": 4.0, "thresholds": "constant", "scales": "one", "readout_bias": 1.0}
PLACED = {**QUIET, **CHRONO, **EVENTS, "base": 100.0, "places": 8.0}
STILL = {**PLACED, "loudness": 1.0}
SETTINGS: dict[str, dict[str, Any]] = {
    "paper": {},
    "norm-first": FIRST,
    "chrono": {**FIRST, **CHRONO},
    "quiet": {**QUIET, **CHRONO},
    "events": {**QUIET, **CHRONO, **EVENTS},
    "events-sleep": {**QUIET, **CHRONO, **EVENTS, "gate_sleep": 0.05},
    "placed": PLACED,
    "placed-slow": {**PLACED, "gate_rate": 0.1},
    "placed-sleep": {**PLACED, "gate_rate": 0.1, "gate_sleep": 0.05},
    "still": STILL,
    "still-sleep": {**STILL, "gate_sleep": 0.05},
    "still-slow": {**STILL, "gate_sleep": 0.05, "gate_rate": 0.1},
    "robust": {"architecture": "robust"},  # still, gates asleep for 5%, then at 0.3 of the rate
    "still-varied": {**STILL, "scales": "inputs"},
    "still-long": {**STILL, "base": 10_000.0},
    "placed-slower": {**PLACED, "gate_rate": 0.02, "gate_sleep": 0.05},
    # What annealed units need: which part of `robust` costs them what the norm first has?
    "still-positions": {**STILL, "position_scale": 1.0},
    "still-own": {**STILL, "position_scale": 1.0, "scales": "inputs", "thresholds": "inputs"},
    "first-silent": {**FIRST, "empty": "zero", "norm_epsilon": 1.0, "loudness": 1.0},
    "first-placed": {**FIRST, "places": 8.0},
    "first-silent-placed": {
        **FIRST,
        "empty": "zero",
        "norm_epsilon": 1.0,
        "loudness": 1.0,
        "places": 8.0,
    },
}

# A third round for four annealed units: five factors at two levels in eight settings, the last two
# confounded with products of the first three (2^(5-2), resolution III). It decides which of them
# moves the mean score, over three seeds; what moves it is confirmed on fresh seeds.
ANNEALED_FACTORS = {
    "soft": ({}, {"gain": 1.0, "hold": 0.125}),  # margins within reach of the surrogate
    "varied": ({}, {"scales": "inputs"}),  # alpha is a function of the place from the start
    "long": ({}, {"base": 10_000.0}),  # slow positions
    "narrow": ({"places": 8.0}, {"places": 2.0}),  # fewer inputs are far beyond their threshold
    "quick": ({}, {"gate_rate": 1.0}),  # gates learn at the full rate once they are awake
}


def annealed_design() -> Iterator[tuple[str, dict[str, Any]]]:
    """The eight settings, named by the levels of their factors."""
    for soft, varied, long in itertools.product((0, 1), repeat=3):
        levels = (soft, varied, long, soft ^ varied, soft ^ long)
        setting: dict[str, Any] = {"architecture": "robust"}
        for choices, level in zip(ANNEALED_FACTORS.values(), levels, strict=True):
            setting |= choices[level]
        yield "annealed-" + "".join(map(str, levels)), setting


SETTINGS |= annealed_design()


def done(path: Path) -> list[dict[str, Any]]:
    """The lines that are there."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [line for line in map(json.loads, lines) if line["trial"] == "screening"]


def trained(probe: Probe, experiment: Experiment) -> dict[str, Any]:
    """Train in a folder that does not stay: test and validation, and the curve in brief."""
    with tempfile.TemporaryDirectory() as folder:
        result = train(experiment, runs=folder)
        assert result is not None
        curve = (Path(folder) / experiment.name / "progress.jsonl").read_text().splitlines()
    metric = experiment.task.objective.metric
    values = [json.loads(line)[metric] for line in curve]
    return {
        "score": round(probe.score(result["test"][metric]), 4),
        "test": result["test"][metric],
        "valid": result["valid"],
        "steps": result["steps"],
        "seconds": result["seconds"],
        "curve": [round(values[i], 4) for i in np.linspace(0, len(values) - 1, 12).astype(int)],
    }


def screen(path: Path, settings: list[str], probes: dict[str, Probe], seeds: Sequence[int]) -> None:
    """Train what is missing: all pairs with a seed before any with the next."""
    known = {line["hash"] for line in done(path)}
    for seed in seeds:
        for name in settings:
            for which, probe in probes.items():
                experiment = probe.experiment(SETTINGS[name], seed)
                if experiment.hash in known:
                    continue
                known.add(experiment.hash)
                found = trained(probe, experiment)
                line = {
                    "trial": "screening",
                    "setting": name,
                    "probe": which,
                    "seed": seed,
                    "hash": experiment.hash,
                    **found,
                    "experiment": experiment.to_json(),
                }
                with path.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                print(name, which, seed, found["score"], f"{found['seconds']:.0f} s", flush=True)


def table(path: Path, settings: list[str], probes: dict[str, Probe]) -> Iterator[str]:
    """The mean score and the number of seeds, by setting and probe."""
    by_hash = {line["hash"]: line for line in done(path)}
    yield "setting         " + " ".join(f"{name:>14}" for name in probes)
    for name in settings:
        setting, cells = SETTINGS[name], []
        for probe in probes.values():
            hashes = (probe.experiment(setting, seed).hash for seed in SEEDS)
            scores = [by_hash[h]["score"] for h in hashes if h in by_hash]
            low = f"{min(scores):.2f}" if scores else ""
            cells.append(f"{statistics.mean(scores):.2f} {low} {len(scores)}" if scores else "-")
        yield f"{name:16}" + " ".join(f"{cell:>14}" for cell in cells)


def main(words: Sequence[str] | None = None) -> None:
    """Train, or show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the file of lines to add to")
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--probes", nargs="+", choices=PROBES, default=list(PROBES))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--share", type=float, default=1.0, help="of the steps of every probe")
    parser.add_argument("--show", action="store_true", help="print what is known")
    options = parser.parse_args(words)
    chosen = {name: PROBES[name].shortened(options.share) for name in options.probes}
    if options.show:
        print("\n".join(table(options.out, options.settings, chosen)))
    else:
        screen(options.out, options.settings, chosen, options.seeds)


if __name__ == "__main__":
    main()
