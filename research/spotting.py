"""What helps a small model to hear more words? Trials on `kws-12`.

    python research/spotting.py --out results/trials.jsonl --teacher RUN   # continues
    python research/spotting.py --out results/trials.jsonl --show

Every trial trains the same network of fewer than 10,000 parameters, two blocks of CMRU units
without positions, for the same number of steps and with the same seeds, and changes one thing. A
*taught* model also learns what a wide one says of each clip (Hinton et al., 2015).
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

import persistor
from persistor import Backbone, Experiment, train
from persistor.arrays import Array, Float, Int
from persistor.data.preparation import Preparation
from persistor.tasks import KWS12, Split
from persistor.tasks.spotting import Variation
from persistor.tasks.task import Batch, Classification, Task

TEMPERATURE = 2.0
SEEDS = (11, 12)
STEPS = 5_000
NETWORK: dict[str, Any] = {
    "cell": "cmru",
    "width": 20,
    "state_size": 24,
    "blocks": 2,
    "encoding": 0,
    "changes": {"hidden": 2},
    "learning_rate": 0.004,
}


class Taught(Classification):
    """The mean of two cross-entropies; in training a target is a class and a teacher's outputs."""

    def loss(
        self, outputs: Float[Array, "b c"], targets: Float[Array, "b _"] | Int[Array, " b"]
    ) -> Float[Array, " b"]:
        """With the class, and with the teacher's probabilities at a temperature."""
        classes, said = targets[:, 0].astype(jnp.int32), targets[:, 1:]
        wanted = jax.nn.softmax(said / TEMPERATURE)
        got = jax.nn.log_softmax(outputs / TEMPERATURE)
        return (super().loss(outputs, classes) - TEMPERATURE**2 * (wanted * got).sum(-1)) / 2


class Lesson(eqx.Module):
    """Examples with the answers of a teacher."""

    examples: Split
    teacher: Backbone

    @property
    def size(self) -> int:
        """The number of examples."""
        return self.examples.size

    def at(self, indices: Int[Array, " b"]) -> Batch:
        """The examples, with what the teacher says of them."""
        batch = self.examples.at(indices)
        said = jax.lax.stop_gradient(self.teacher(batch.inputs)[0])
        classes = batch.targets.astype(said.dtype)[:, None]
        return Batch(batch.inputs, jnp.concatenate([classes, said], axis=1))


def varied(**changes: Any) -> Task:
    """The task with clips that vary in another way."""
    kind: Any = type("Varied", (KWS12,), {"variation": Variation(**changes), "name": KWS12.name})
    return kind()


def taught(teacher: Backbone) -> Task:
    """The task with a teacher."""

    class Lessons(KWS12):
        name = KWS12.name
        objective = Taught()

        def split(self, name: str) -> Any:
            examples = super().split(name)
            return Lesson(examples, teacher) if name == "train" else examples

        def preparation(self) -> Preparation:
            return KWS12().preparation()

    return Lessons()


NEVER = (200.0, 200.0)  # decibels below the loudest frame: a noise that nobody hears
NEAR = (5.0, 50.0)
STILL: dict[str, Any] = {"tempo": 0.0, "shift": 0.0, "loudness": 0.0, "noise": NEVER, "gap": 0.0}


@dataclass(frozen=True)
class Trial:
    """A name, how its task is made, and what it changes in the experiment."""

    task: Callable[[], Task]
    changes: tuple[tuple[str, Any], ...] = ()


TRIALS: dict[str, Trial] = {
    "varied": Trial(varied),
    "not varied": Trial(lambda: varied(**STILL)),
    "no noise": Trial(lambda: varied(noise=NEVER)),
    "near noise": Trial(lambda: varied(noise=NEAR)),
    "near noise, not moved": Trial(lambda: varied(noise=NEAR, tempo=0.0, shift=0.0)),
    "near noise, no gap": Trial(lambda: varied(noise=NEAR, gap=0.0)),
    "one block": Trial(varied, (("blocks", 1), ("width", 28), ("state_size", 24))),
    "three blocks": Trial(varied, (("blocks", 3), ("width", 16))),
    "alpha-cmru": Trial(varied, (("cell", "alpha-cmru"), ("state_size", 18))),
    "mingru": Trial(varied, (("cell", "mingru"),)),
    "lru": Trial(varied, (("cell", "lru"),)),
}
TAUGHT = "taught"


def done(path: Path) -> list[dict[str, Any]]:
    """The lines that are there."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [line for line in map(json.loads, lines) if line["trial"] == "spotting"]


def trained(trial: Trial, steps: int, seed: int) -> dict[str, Any]:
    """Train in a folder that does not stay."""
    network = {**NETWORK, **dict(trial.changes)}
    experiment = Experiment.of(trial.task(), steps=steps, seed=seed, **network)
    with tempfile.TemporaryDirectory() as folder:
        result = train(experiment, runs=folder)
    assert result is not None
    weights = jax.tree.leaves(eqx.filter(experiment.build(), eqx.is_inexact_array))
    return {
        "parameters": sum(w.size for w in weights),
        "score": result["test"]["accuracy"],
        "valid": result["valid"]["accuracy"],
        "seconds": result["seconds"],
        "experiment": experiment.to_json(),
    }


def run(path: Path, trials: dict[str, Trial], steps: int, seeds: Sequence[int]) -> None:
    """Train what is missing, all trials with a seed before any with the next."""
    known = {(line["name"], line["seed"]) for line in done(path)}
    for seed in seeds:
        for name, trial in trials.items():
            if (name, seed) in known:
                continue
            line = {"trial": "spotting", "name": name, "seed": seed, **trained(trial, steps, seed)}
            with path.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(name, seed, round(line["score"], 4), f"{line['seconds']:.0f} s", flush=True)


def table(path: Path) -> Iterator[str]:
    """The mean accuracy of each trial, its range, and the number of seeds."""
    lines = done(path)
    for name in dict.fromkeys(line["name"] for line in lines):
        of_trial = [line for line in lines if line["name"] == name]
        tests = [100 * line["score"] for line in of_trial]
        size = of_trial[0]["parameters"]
        span = f"[{min(tests):.2f}; {max(tests):.2f}]"
        yield f"{name:20} {size:6,} {statistics.mean(tests):6.2f} {span} {len(tests)}"


def main(words: Sequence[str] | None = None) -> None:
    """Train, or show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the file of lines to add to")
    parser.add_argument("--trials", nargs="+", choices=[*TRIALS, TAUGHT], default=list(TRIALS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--teacher", help="a run or a model, for the trial `taught`")
    parser.add_argument("--show", action="store_true", help="print what is known")
    options = parser.parse_args(words)
    if options.show:
        print("\n".join(table(options.out)))
        return
    trials = dict(TRIALS)
    if options.teacher:
        trials[TAUGHT] = Trial(lambda: taught(persistor.load(options.teacher)))
    chosen = {name: trials[name] for name in options.trials}
    run(options.out, chosen, options.steps, options.seeds)


if __name__ == "__main__":
    main()
