"""How often does one unit find parity, under which reading of the paper's silent points?

    python research/parity_readings.py --readings after first both --cells cmru --seeds 0 1 2 3 4

Each run is the package's own, with the map in front of the cell exchanged where a reading says so. It ends
after `--patience` perfect evaluations in a row, or at `--give-up` if none has been perfect by then. A line of
JSON a run: the first perfect validation, the test accuracy of the last weights (lengths 50 to 1,000), and at
every evaluation [step, candidate at 0 and 1, threshold at 0 and 1, share of positions that update at 0 and 1],
so that one sees what the gates did. A run already in the file is not computed again.
"""

import argparse
import json
import time
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from persistor import Experiment, ModelSpec, TrainingSpec
from persistor.model.block import Block
from persistor.nn.layers import LayerNorm
from persistor.nn.sequence import Indexed
from persistor.tasks import Parity
from persistor.training import Trainer
from persistor.training.evaluation import evaluate

WIDTH = 256

# What the cell receives. The package's own reading is `after`.
READINGS = {
    "after": Block.cell_inputs,
    "first": lambda block, xs, table: block.position(xs.map(block.norm), table),
    "both": lambda block, xs, table: block.position(xs.map(block.norm), table).normalise(
        LayerNorm(WIDTH)
    ),
}
IDENTITY = ("reading", "cell", "seed", "steps", "learning_rate", "warmup", "encoding", "state")


@eqx.filter_jit
def gates(model, table):
    """For a zero and a one: mean candidate, mean threshold, share of positions that update."""
    ids = jnp.stack([jnp.full(table.length, bit, jnp.int32) for bit in (0, 1)])
    block = model.blocks[0]
    inputs = block.cell_inputs(model.encode(Indexed(jnp.array([[0.0], [1.0]]), ids)), table)
    projections = inputs.linear(block.cell.project).dense()
    candidate, threshold = projections[..., 0], jnp.abs(projections[..., block.cell.state_size])
    return candidate.mean(1), threshold.mean(1), (jnp.abs(candidate) >= threshold).mean(1)


def one_run(identity, patience, give_up):
    """Train one model; what became of it and of the gates of its first unit."""
    reading, cell, seed, steps, rate, warmup, encoding, state = identity
    Block.cell_inputs = READINGS[reading]
    spec = TrainingSpec(steps=steps, learning_rate=rate, warmup=warmup)
    model = ModelSpec((cell,), state=state, epsilon=-1.0, encoding=encoding)
    experiment = Experiment(Parity(), model, spec, seed)
    trainer = Trainer(experiment)
    at, story, first_perfect, in_a_row, step = trainer.start(), [], None, 0, 0
    began, trained = time.monotonic(), None
    while step < steps and in_a_row < patience and (first_perfect or step < give_up):
        leg = min(spec.evaluate_every, steps - step)
        at, _ = trainer.advance(at, leg)
        step += leg
        trained, accuracy = trainer.validate(at)
        in_a_row = in_a_row + 1 if accuracy == 1.0 else 0
        first_perfect = first_perfect or (step if accuracy == 1.0 else None)
        seen = np.concatenate(gates(trained, trainer.table))
        story.append([step, *(round(float(x), 2) for x in seen)])
    test = evaluate(trained, experiment.task.split("test"), experiment.task.objective)
    return {
        **dict(zip(IDENTITY, identity, strict=True)),
        "first_perfect": first_perfect, "done": step, "test": test,
        "seconds": round(time.monotonic() - began), "gates": story,
    }  # fmt: skip


def main():
    ask = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ask.add_argument("--readings", nargs="+", default=["after"], choices=READINGS)
    ask.add_argument("--cells", nargs="+", default=["cmru"], choices=["cmru", "alpha-cmru"])
    ask.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    ask.add_argument("--steps", type=int, default=1500, help="length of the schedule")
    ask.add_argument("--learning-rate", type=float, default=1e-3)
    ask.add_argument("--warmup", type=float, default=0.01, help="share of the schedule")
    ask.add_argument("--encoding", type=int, default=WIDTH, help="width of the encoding")
    ask.add_argument("--state", type=int, default=1, help="number of units")
    ask.add_argument("--patience", type=int, default=4)
    ask.add_argument("--give-up", type=int, default=10**9)
    ask.add_argument("--out", type=Path, default=Path("parity.jsonl"))
    args = ask.parse_args()
    for reading in args.readings:
        for seed in args.seeds:
            for cell in args.cells:
                numbers = (args.learning_rate, args.warmup, args.encoding, args.state)
                identity = (reading, cell, seed, args.steps, *numbers)
                lines = args.out.read_text().splitlines() if args.out.exists() else []
                if any(identity == tuple(json.loads(x)[k] for k in IDENTITY) for x in lines):
                    continue
                record = one_run(identity, args.patience, args.give_up)
                with args.out.open("a") as file:
                    file.write(json.dumps(record) + "\n")
                print({k: v for k, v in record.items() if k != "gates"}, flush=True)


if __name__ == "__main__":
    main()
