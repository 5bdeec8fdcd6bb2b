"""What `persistor inspect` draws: gates, states and gradient flow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from persistor.analysis.inspection import BlockTrace
from persistor.plots import save_figure

PICTURE_SEQUENCES = 8


def draw_inspection(traces: list[BlockTrace], title: str, path: Path) -> None:
    """Draw the gates, states and gradient flow of every block over time."""
    figure = Figure(figsize=(13, 3.4 * len(traces)), layout="constrained")
    axes = figure.subplots(len(traces), 3, squeeze=False)
    for row, block_trace in zip(axes, traces, strict=True):
        updates = np.asarray(block_trace.updates).mean(0).T
        states = np.real(np.asarray(block_trace.states))[:PICTURE_SEQUENCES]
        flow = np.asarray(block_trace.flow).mean(0)
        picture = row[0].imshow(
            updates, aspect="auto", vmin=0, vmax=1, cmap="viridis", interpolation="nearest"
        )
        figure.colorbar(picture, ax=row[0], label="share of sequences updating")
        row[0].set(ylabel="unit", xlabel="step", title="gates")
        row[0].set_yticks(range(0, len(updates), max(1, len(updates) // 8)))
        for unit in range(min(states.shape[-1], 8)):
            row[1].plot(states[..., unit].T, color=f"C{unit}", alpha=0.5, linewidth=0.9)
            row[1].plot([], color=f"C{unit}", label=f"unit {unit}")
        row[1].legend(fontsize="small", loc="upper left")
        row[1].set(xlabel="step", ylabel="state", title=f"states of {len(states)} sequences")
        row[2].semilogy(np.maximum(flow, 1e-12), linewidth=1.2)
        row[2].set_ylim(1e-12, 10)
        row[2].set(
            xlabel="step t", ylabel="|dh_T / dh_t|", title="gradient flow, one line per unit"
        )
    figure.suptitle(title)
    save_figure(figure, path, dpi=140)
