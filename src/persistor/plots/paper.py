"""The paper's figures with our results. Hollow and dashed: the paper's; filled and solid: ours.

A point is a mean, and a bar goes from the lowest to the highest seed. The colours are those of
Okabe and Ito, which most colour-blind people can distinguish; cells also differ by marker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from persistor._tools.errors import unknown
from persistor.analysis.theory import gradient_flow, quantisation_limit
from persistor.cells import CELLS, CMRU
from persistor.paper.tables import Published, Row, table
from persistor.reproduction.comparison import Comparison, Entry, compare
from persistor.reproduction.outcomes import Outcome

STYLES = {
    "cmru": ("CMRU", "#D55E00", "o"),
    "alpha-cmru": (r"$\alpha$CMRU", "#0072B2", "s"),
    "lru": ("LRU", "#009E73", "^"),
    "mingru": ("minGRU", "#CC79A7", "D"),
}
APART = 0.13  # between the points of two cells at the same place
PRINT: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.9",
    "axes.axisbelow": True,
    "pdf.fonttype": 42,  # text stays text
}


@dataclass(frozen=True)
class Panel:
    """A part of a figure: the rows of a table that pass the filters, along one option."""

    title: str
    table: str
    along: str
    filters: tuple[str, ...] = ()
    log: bool = False


PANELS = {
    "smnist": (
        Panel("sMNIST, d = 32", "smnist-epsilon", "epsilon"),
        Panel("sMNIST, ε = 1", "smnist-state", "state"),
    ),
    "copy-first-noisy": tuple(
        Panel(
            f"r = {r}, d = {d}", "copy-first-noisy", "length", (f"state={d}", f"blocks={r}"), True
        )
        for r, d in ((1, 4), (1, 16), (4, 16))
    ),
    "copy-first": (
        Panel("15 symbols, d = 4", "copy-first-discrete", "length"),
        Panel("a number then zeros, d = 4", "copy-first-clean", "length", log=True),
    ),
    "annealing": tuple(
        Panel(title, "annealing", "state", (f"epsilon={epsilon}",))
        for title, epsilon in (("ε = 0", "0"), ("ε annealed to 0", "anneal"), ("ε = 1", "1"))
    ),
    "pmnist": tuple(
        Panel(title, "pmnist", "epsilon", (f"task={task}",))
        for title, task in (
            ("sMNIST", "smnist"),
            ("pMNIST", "pmnist"),
            ("pMNIST, seed 24", "pmnist-24"),
            ("pMNIST, seed 36", "pmnist-36"),
        )
    ),
}
NAMES = {"epsilon": "ε", "state": "state width d", "length": "length L"}
METRICS = {"accuracy": "accuracy (%)", "mae": "mean absolute error", "cross_entropy": "nats"}


def draw(name: str, outcomes: Sequence[Outcome]) -> Figure:
    """The figure with this name, including the outcomes so far."""
    import matplotlib

    if name not in FIGURES:
        raise unknown("figure", name, FIGURES)
    with matplotlib.rc_context(PRINT):
        return FIGURES[name](outcomes)


def _panels(panels: tuple[Panel, ...]) -> Callable[[Sequence[Outcome]], Figure]:
    def make(outcomes: Sequence[Outcome]) -> Figure:
        figure = Figure(figsize=(3.4 * len(panels), 3.2), layout="constrained")
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for ax, panel in zip(axes, panels, strict=True):
            _panel(ax, panel, compare(table(panel.table).only(panel.filters), outcomes))
        drawn = [cell for cell in STYLES if any(cell in line.get_label() for line in _lines(axes))]
        figure.legend(handles=_legend(drawn), loc="outside lower center", ncols=6, frameon=False)
        return figure

    return make


def _lines(axes: Iterable[Axes]) -> list[Any]:
    return [container for ax in axes for container in ax.containers]


def _legend(cells: list[str]) -> list[Line2D]:
    markers = [
        Line2D([], [], color=STYLES[c][1], marker=STYLES[c][2], linestyle="", label=STYLES[c][0])
        for c in cells
    ]
    paper = Line2D([], [], color="0.3", linestyle="--", marker="o", mfc="white", label="paper")
    ours = Line2D([], [], color="0.3", linestyle="-", marker="o", label="ours")
    return [*markers, paper, ours]


def _place(row: Row, along: str) -> str:
    """The position of a row on the axis; a cell without epsilon has its own position."""
    return row.options()[along] or STYLES[row.cells[0]][0]


def _panel(ax: Axes, panel: Panel, comparison: Comparison) -> None:
    entries = comparison.entries
    places = list(dict.fromkeys(_place(e.row, panel.along) for e in entries))
    cells = list(dict.fromkeys(e.row.cells[0] for e in entries))
    for number, cell in enumerate(cells):
        of_cell = [e for e in entries if e.row.cells[0] == cell]
        shift = APART * (number - (len(cells) - 1) / 2)
        x = np.array([places.index(_place(e.row, panel.along)) for e in of_cell]) + shift
        _series(ax, x, [e.row.published for e in of_cell], cell, comparison.table.scale, paper=True)
        _series(ax, x, [_full(e) for e in of_cell], cell, comparison.table.scale, paper=False)
    if panel.log:
        ax.set_yscale("log")
        limit = quantisation_limit(entries[0].row.state_size)
        if limit > 1e-4:
            ax.axhline(limit, color="0.4", linestyle=":", linewidth=1)
            end = {"color": "0.4", "fontsize": 7, "va": "top", "ha": "right"}
            ax.annotate("limit of CMRU", (len(places) - 0.6, limit * 0.93), **end)
    ax.set_xticks(range(len(places)), places)
    ax.set(title=panel.title, xlabel=NAMES[panel.along])
    ax.set_ylabel(METRICS[comparison.table.metric])


def _full(entry: Entry) -> Published | None:
    """Our numbers at full budget; None for a reduced run, which is not drawn."""
    return entry.ours if entry.budget == 1 else None


def _series(
    ax: Axes, x: Any, numbers: list[Published | None], cell: str, scale: int, *, paper: bool
) -> None:
    known = [(place, n) for place, n in zip(x, numbers, strict=True) if n is not None]
    if not known:
        return
    _, colour, marker = STYLES[cell]
    at = np.array([place for place, _ in known]) + (-0.03 if paper else 0.03)
    mean, low, high = scale * np.array([n for _, n in known]).T
    low, high = np.minimum(low, mean), np.maximum(high, mean)
    ax.errorbar(
        at,
        mean,
        yerr=[mean - low, high - mean],
        color=colour,
        marker=marker,
        markerfacecolor="white" if paper else colour,
        linestyle="--" if paper else "-",
        linewidth=0.8 if paper else 1.4,
        elinewidth=0.8,
        markersize=4.5,
        alpha=0.75 if paper else 1.0,
        label=f"{cell} {'paper' if paper else 'ours'}",
    )


def _fixed_points(_: Sequence[Outcome]) -> Figure:
    """The states at which a unit may rest while it retains (section "Fixed Point Structure")."""
    threshold, levels = 1.0, 3
    figure = Figure(figsize=(6.8, 3), layout="constrained")
    for ax, epsilon in zip(figure.subplots(1, 2, sharey=True), (0, 1), strict=True):
        reach = [-1, 1] if epsilon == 0 else range(-levels, levels + 1)
        for level in reach:
            ax.plot([-threshold, threshold], [level, level], color="#0072B2", linewidth=2)
        for side in (-1, 1):
            ax.axvline(side * threshold, color="0.4", linestyle="--", linewidth=1)
            for level in reach:
                after = epsilon * level + side
                if abs(after) <= levels and after != level:
                    ax.annotate(
                        "",
                        (side * 1.5, after),
                        (side * 1.5, level),
                        arrowprops={"arrowstyle": "->", "color": "#D55E00", "linewidth": 1.2},
                    )
        name = "BMRU" if epsilon == 0 else "CMRU"
        ax.set(title=f"ε = {epsilon} ({name})", xlabel="candidate", xlim=(-2.1, 2.1))
        ax.set_xticks([-threshold, 0, threshold], ["-β", "0", "β"])
        ax.set_yticks(
            range(-levels, levels + 1), [rf"{k}$\alpha$" if k else "0" for k in range(-3, 4)]
        )
    figure.axes[0].set_ylabel("state")
    return figure


def _gradient_flow(_: Sequence[Outcome]) -> Figure:
    """|dh_T / dh_t| of untrained cells on noise, averaged over units (section "Gradient Flow")."""
    width, state_size, length = 16, 64, 200
    key, data = jax.random.split(jax.random.key(0))
    inputs = jax.random.normal(data, (length, width))
    figure = Figure(figsize=(4.6, 3.2), layout="constrained")
    ax = figure.subplots()
    persistent = [
        (
            f"CMRU, ε = {epsilon:g}",
            CMRU(width, state_size, epsilon=epsilon, key=key),
            STYLES["cmru"],
            line,
        )
        for epsilon, line in ((0.0, ":"), (0.5, "-."), (0.9, "--"), (1.0, "-"))
    ]
    make: dict[str, Any] = dict(CELLS)
    fading = [
        (STYLES[name][0], make[name](width, state_size, key=key), STYLES[name], "-")
        for name in ("lru", "mingru")
    ]
    for label, cell, (_, colour, _), line in [*persistent, *fading]:
        flow = np.asarray(gradient_flow(cell.transition(inputs))).mean(-1)
        ax.semilogy(np.maximum(flow, 1e-12), color=colour, linestyle=line, label=label)
    ax.set(xlabel="step t", ylabel="|dh_T / dh_t|", ylim=(1e-12, 3), title="gradient flow")
    ax.legend(fontsize=7)
    return figure


FIGURES: dict[str, Callable[[Sequence[Outcome]], Figure]] = {
    "fixed-points": _fixed_points,
    "gradient-flow": _gradient_flow,
    **{name: _panels(panels) for name, panels in PANELS.items()},
}
