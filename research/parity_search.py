"""Of which starts does one unit find parity within an evaluation?

    python research/parity_search.py --tries 60

A try is what a search does after a restart: other weights, an optimiser that remembers nothing, and 64 steps at the
learning rate of step 320 of a schedule of 1,500. It counts if the evaluation after them is perfect. A line of JSON a
cell and start: the number of tries and of perfect ones.
"""

import argparse
import dataclasses
import json
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from persistor import Experiment, ModelSpec, TrainingSpec
from persistor.model import start
from persistor.tasks import Parity
from persistor.training import Trainer
from persistor.training.loop import State

STARTS = {  # (search, hold, are thresholds alike for all inputs, are the biases behind the cell random)
    "the paper's": (False, 0.0, False, False),
    "hold 5": (False, 5.0, False, False),
    "poised, without biases behind the cell": (True, 0.0, True, False),
    "poised, with thresholds of each input": (True, 0.0, False, True),
    "poised": (True, 0.0, True, True),
}


def of(cell, name):
    """The models of a start: a function of the number of the try."""
    search, hold, alike, biases = STARTS[name]
    model = ModelSpec((cell,), state=1, epsilon=-1.0, hold=hold)
    experiment = Experiment(Parity(), model, TrainingSpec(steps=1500, search=search))
    plain = dataclasses.replace(experiment, training=TrainingSpec(steps=1500))

    def make(number):
        made, before = experiment.build(number), plain.build(number)
        if search and not biases:
            bias = jnp.zeros_like(made.blocks[0].readout.bias)
            made = eqx.tree_at(lambda m: m.blocks[0].readout.bias, made, bias)
        if search and not alike:
            weight = made.blocks[0].cell.project.weight
            weight = weight.at[:, 1].set(before.blocks[0].cell.project.weight[:, 1])
            made = eqx.tree_at(lambda m: m.blocks[0].cell.project.weight, made, weight)
        return made

    return experiment, make


def main():
    ask = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ask.add_argument("--tries", type=int, default=60)
    ask.add_argument("--cells", nargs="+", default=["cmru", "alpha-cmru"])
    ask.add_argument("--out", type=Path, default=Path("parity_search.jsonl"))
    args = ask.parse_args()
    for cell in args.cells:
        for name in STARTS:
            experiment, make = of(cell, name)
            trainer, perfect = Trainer(experiment), 0
            for number in range(1, args.tries + 1):
                params = jax.tree.map(jnp.copy, eqx.filter(make(number), trainer.trainable))
                schedule = optax.ScaleByScheduleState(jnp.asarray(320, jnp.int32))
                memory = optax.tree.set(
                    trainer.optimiser.init(params), ScaleByScheduleState=schedule
                )
                state = State(params, memory, jnp.asarray(64 * number, jnp.int32))
                state, _ = trainer.advance(state, 64)
                perfect += trainer.validate(state)[1] == 1.0
            record = {"cell": cell, "start": name, "threshold": start.THRESHOLD}
            record |= {"tries": args.tries, "perfect": perfect}
            print(record, flush=True)
            with args.out.open("a") as file:
                file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
