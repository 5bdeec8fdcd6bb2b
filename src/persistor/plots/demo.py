"""The two pictures of `persistor demo`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from persistor.plots import save_figure


def draw_lengths(
    accuracies: Mapping[str, Sequence[float]],
    edges: Sequence[int],
    seen: tuple[int, int],
    path: Path,
) -> None:
    """Accuracy against length, with one line for each model; `seen` is the range in training."""
    figure = Figure(figsize=(6.4, 4), layout="constrained")
    axes = figure.subplots()
    middles = np.mean([edges[:-1], edges[1:]], axis=0)
    for (label, values), marker in zip(accuracies.items(), "osD^", strict=True):
        axes.plot(middles, values, marker=marker, label=label)
    axes.axvspan(*seen, color="0.92", label="lengths seen in training")
    axes.set(
        xlabel="length", ylabel="accuracy", ylim=(0.4, 1.05), title="parity: one unit, one block"
    )
    axes.legend()
    save_figure(figure, path, dpi=140)


def draw_trajectories(bits: np.ndarray, states: dict[str, np.ndarray], path: Path) -> None:
    """The states (t, d) of each model on one string of bits."""
    figure = Figure(figsize=(8, 1.6 * (len(states) + 1)), layout="constrained")
    axes = figure.subplots(len(states) + 1, sharex=True)
    axes[0].step(np.arange(len(bits)), bits, where="mid", color="0.3")
    axes[0].set(ylabel="bit", title="states while reading bits, one line per unit")
    for ax, (label, values) in zip(axes[1:], states.items(), strict=True):
        ax.step(np.arange(len(bits)), np.real(values), where="mid")
        ax.set_ylabel(label.replace(" epsilon", "\nepsilon"))
    axes[-1].set_xlabel("step")
    save_figure(figure, path, dpi=140)
