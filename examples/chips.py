"""A chip's yield: a network of 16 Schmitt triggers on a thousand chips that all differ."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from matplotlib.figure import Figure

import persistor
from persistor import Experiment, train
from persistor.analysis.inspection import first_batch
from persistor.hardware.chips import of_run
from persistor.hardware.deployment import Deployment


def main(folder, steps=6_000, chips=1_000):
    figure = Figure(figsize=(7, 3.4), layout="constrained")
    axes = figure.subplots()
    with TemporaryDirectory() as runs:
        for name, dropout in {"plain": 0.0, "dropout 0.2": 0.2}.items():
            experiment = Experiment.of(
                "copy-first-discrete",
                length=20,
                state_size=16,
                deployable=True,
                steps=steps,
                dropout=dropout,
            )
            train(experiment, runs=runs)
            model = persistor.load(experiment.name, runs=runs)
            batch = first_batch(experiment.task.split("test"), 60)
            found = of_run(Deployment.of(model), batch, experiment.task.objective, chips, noise=0.0)
            facts, bars = found["behaviour"], found["histogram"]
            print(
                f"{name:12} the model {facts['model']:.1%}, chips {facts['mean accuracy']:.1%} "
                f"on average and {facts['worst']:.1%} at worst; "
                f"{facts['yield']:.1%} lose two points or less"
            )
            edges = 100 * np.array(bars["edges"])
            axes.stairs(bars["counts"], edges, fill=True, alpha=0.5, label=name)
    axes.set(xlabel="accuracy of a chip, %", ylabel=f"chips of {chips:,}")
    axes.legend(title="trained", fontsize="small", loc="upper left")
    figure.savefig(folder / "chips.svg")


if __name__ == "__main__":
    main(Path(*sys.argv[1:]))
