"""One self-contained HTML page for a folder of runs.

It has a map of the reproduction, tables by claim, learning curves, states and the playground.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from persistor._tools.progress import without_hash
from persistor.kernels.doctor import examine
from persistor.paper.tables import tables
from persistor.report import map as heat
from persistor.report.states import as_text, watched
from persistor.report.tables import claims
from persistor.reproduction.comparison import Comparison, compare_both, overall
from persistor.reproduction.outcomes import Outcome, find_outcomes
from persistor.reproduction.standing import standing

POINTS = 100  # of a learning curve, at most
NO_WEIGHTS = (
    "No run here has its weights. Train one, for example with <code>persistor train parity "
    "--epsilon -1 --state 16 --steps 200</code>; then <code>persistor report</code> shows its "
    "states."
)
SCRIPTS = ("playground.js", "charts.js", "map.js", "curves.js", "states.js", "page.js")


def page(folder: Path, report: Callable[[int, int], None] = lambda done, total: None) -> str:
    """The page for the runs in a folder."""
    states, unseen = watched(folder, report)
    outcomes, problems = find_outcomes(folder)
    compared = [compare_both(table, outcomes) for table in tables().values()]
    curves = [curve(outcome) for outcome in outcomes if outcome.record is not None]
    data = {
        "tables": [_plotted(c) for c in compared if c.measured],
        "curves": curves,
        "states": states,
    }
    facts = {"runs": f"{len(outcomes)} in {folder.name}", **examine(), "again": _command(folder)}
    return filled(
        "page.html",
        SCRIPTS,
        data,
        summary=_coded(" ".join(overall(compared))),
        bars=heat.bars(standing(compared)),
        legend=heat.legend(),
        maps="".join(map(heat.grid, compared)),
        claims=claims(compared),
        inside=inside(states, unseen),
        facts="".join(f"<dt>{k}</dt><dd>{html.escape(str(v))}</dd>" for k, v in facts.items()),
        problems="".join(f"<p>{html.escape(problem)}</p>" for problem in problems),
    )


def filled(name: str, scripts: tuple[str, ...], data: dict[str, Any], **parts: str) -> str:
    """A page from its template: with the style, the scripts and their data in it."""
    return Template(_read(name)).substitute(
        css=_read("page.css"),
        scripts="\n".join(map(_read, scripts)),
        data=as_text(data).replace("<", "\\u003c"),  # so that no text can end the script
        **parts,
    )


def _read(name: str) -> str:
    return (files("persistor.report") / name).read_text()


def _coded(text: str) -> str:
    """Text as HTML, with what stands in backticks as code."""
    return re.sub("`(.*?)`", r"<code>\1</code>", html.escape(text))


def _command(folder: Path) -> str:
    return f"persistor report --runs {folder.name}"


def inside(states: list[dict[str, Any]], unseen: list[str]) -> str:
    """The viewer of states, or how to get states to view; and which runs are not shown."""
    text = f"<p>{NO_WEIGHTS}</p>"
    if states:
        choices = "".join(
            f'<option value="{number}">{html.escape(run["run"])}</option>'
            for number, run in enumerate(states)
        )
        text = Template(_read("states.html")).substitute(choices=choices)
    return text + "".join(f"<p>{html.escape(line)}</p>" for line in unseen)


def _plotted(comparison: Comparison) -> dict[str, Any]:
    """What the page's plots need to know about a table."""
    size = {"scale": comparison.table.scale, "places": comparison.table.places}
    return {**comparison.to_json(), **size}


def curve(outcome: Outcome) -> dict[str, Any]:
    """A run's validation metric over its steps, thinned out evenly."""
    record = outcome.record
    assert record is not None
    lines = record.progress()
    kept = lines[:: -(-len(lines) // POINTS)]
    kept = kept if kept[-1] is lines[-1] else [*kept, lines[-1]]
    return {
        "run": record.name,
        "label": without_hash(record.name),
        "metric": record.metric,
        "test": float(f"{outcome.value:.5g}"),
        "steps": [line["step"] for line in kept],
        "values": [float(f"{line[record.metric]:.5g}") for line in kept],
    }
