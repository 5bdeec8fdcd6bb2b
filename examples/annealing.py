"""What annealing does: epsilon falls from 1 to 0 in training, and what is stored stays for good."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import persistor
from persistor import Experiment, Run, evaluate, train

LENGTHS = (100, 300, 1_000, 3_000, 10_000)


def main(folder, steps=1_000, lengths=LENGTHS):
    figure = Figure(figsize=(7, 5.4), layout="constrained")
    (top, across), *rest = figure.subplots(2, 2)
    with TemporaryDirectory() as runs:
        for (name, options), ax in zip(
            {"epsilon 1": {"epsilon": 1.0}, "annealed": {"anneal": True}}.items(),
            rest[0],
            strict=True,
        ):
            experiment = Experiment.of(
                "copy-first-discrete",
                length=100,
                cell="cmru",
                encoding=0,
                state_size=32,
                architecture="paper",
                width=64,
                steps=steps,
                **options,
            )
            run = Run.create(experiment, Path(runs))
            train(run)
            lines = run.progress()
            top.plot([x["step"] for x in lines], [x["accuracy"] for x in lines], label=name)

            model, scores = persistor.load(run.path), []
            for length in lengths:
                task = experiment.task.with_length(length)
                scores.append(evaluate(model, task.split("test"), task.objective))
            print(f"{name:9}", *(f"{n:,}: {s:.0%}" for n, s in zip(lengths, scores, strict=True)))
            across.semilogx(lengths, scores, marker="o", label=name)

            symbol = jnp.eye(15)[:1]
            xs = jnp.concatenate([symbol, jnp.zeros((99, 15))])
            memory, states = model.initial_state(()), []
            for x in xs:
                _, memory = model.step(x, memory)
                states.append(np.asarray(memory.cells[0]))
            ax.plot(states, linewidth=1)
            ax.set(title=f"{name}: states after one symbol", xlabel="step")
    top.set(xlabel="step of training", ylabel="accuracy at length 100", ylim=(0, 1.05))
    across.set(xlabel="length", ylabel="accuracy", ylim=(0, 1.05))
    top.legend(fontsize="small")
    across.legend(fontsize="small")
    figure.savefig(folder / "annealing.svg")


if __name__ == "__main__":
    main(Path(*sys.argv[1:]))
