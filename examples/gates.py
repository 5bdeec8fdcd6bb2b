"""Gates inside a trained model: which steps write, and how far a gradient reaches."""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import persistor
from persistor.analysis.inspection import first_batch, look
from persistor.tasks import CopyFirstDiscrete, Parity


def main(folder, length=60):
    tasks = {
        "copy-first": CopyFirstDiscrete(length=length),
        "parity": Parity(test_lengths=(length, length)),
    }
    figure = Figure(figsize=(7, 5.2), layout="constrained")
    for row, (name, task) in zip(figure.subplots(2, 2), tasks.items(), strict=True):
        model = persistor.load(name)
        (trace,), units = look(model, first_batch(task.split("test"), 12))
        for unit in units:
            retained = f"retains {unit.retains:.1%} of all steps"
            print(f"{name:10} unit {unit.unit} {unit.verdict:8} {retained}, flow {unit.flow:g}")
        writes = np.asarray(trace.updates)[0].T
        row[0].imshow(writes, aspect="auto", cmap="Greys", interpolation="nearest", vmin=0, vmax=1)
        row[0].set(title=f"{name}: when it writes", ylabel="unit", xlabel="step")
        row[0].set_yticks(range(len(writes)))
        row[1].step(range(length), np.asarray(trace.states)[0], where="post")
        row[1].set(title=f"{name}: the states", xlabel="step")
    figure.savefig(folder / "gates.svg")


if __name__ == "__main__":
    main(Path(*sys.argv[1:]))
