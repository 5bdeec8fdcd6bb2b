"""From which starts does one unit find parity within an evaluation?

    python research/parity_search.py --tries 60

A try is what a search does after a restart: other weights, an optimiser that remembers nothing, and
64 steps at the learning rate of step 320 of a schedule of 1,500. It counts if the evaluation after
them is perfect. A line of JSON for each cell and start: the number of tries and of perfect ones.
(The records of before version 0.2 drew the biases behind the cell from other keys.)
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from persistor import Experiment
from persistor.training import Trainer
from persistor.training.loop import Checkpoint

ALIKE, BIASES = {"thresholds": "constant"}, {"readout_bias": 1.0}
STARTS: dict[str, dict[str, object]] = {
    "the paper's": {},
    "hold 5": {"hold": 5.0},
    "poised, without biases behind the cell": {"hold": 5.0, **ALIKE},
    "poised, with thresholds of each input": {"hold": 5.0, **BIASES},
    "poised": {"hold": 5.0, **ALIKE, **BIASES},
}
LEARNING_RATE_OF = 320  # the step whose learning rate every try has


def experiment_of(cell: str, start: str) -> Experiment:
    """One unit on parity, from that start."""
    changes = STARTS[start]
    if start.startswith("poised") and cell == "alpha-cmru":
        changes = {**changes, "scales": "one"}
    return Experiment.of(
        "parity", cell=cell, epsilon=-1.0, steps=1500, search=False, changes=changes
    )


def perfect_tries(experiment: Experiment, tries: int) -> int:
    """How many tries end in a perfect evaluation."""
    trainer, perfect = Trainer(experiment), 0
    for number in range(1, tries + 1):
        params = eqx.filter(experiment.build(number), trainer.trainable)
        params = jax.tree.map(jnp.copy, params)
        schedule = optax.ScaleByScheduleState(jnp.asarray(LEARNING_RATE_OF, jnp.int32))
        memory = optax.tree.set(trainer.optimiser.init(params), ScaleByScheduleState=schedule)
        state = Checkpoint(params, memory, jnp.asarray(64 * number, jnp.int32))
        state, _ = trainer.advance(state, 64)
        perfect += trainer.validate(state)[1] == 1.0
    return perfect


def main(arguments: Sequence[str] | None = None) -> None:
    """Count, and append a line for each cell and start."""
    ask = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ask.add_argument("--tries", type=int, default=60)
    ask.add_argument("--cells", nargs="+", default=["cmru", "alpha-cmru"])
    ask.add_argument("--starts", nargs="+", default=list(STARTS), choices=STARTS)
    ask.add_argument("--out", type=Path, default=Path("parity_search.jsonl"))
    args = ask.parse_args(arguments)
    for cell in args.cells:
        for start in args.starts:
            perfect = perfect_tries(experiment_of(cell, start), args.tries)
            record = {"cell": cell, "start": start, "tries": args.tries, "perfect": perfect}
            print(record, flush=True)
            with args.out.open("a") as file:
                file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
