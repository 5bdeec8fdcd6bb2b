"""One self-contained HTML page from a folder of runs: tables, plots, curves and a playground."""

from __future__ import annotations

import html
import json
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from persistor.doctor import examine
from persistor.paper.comparison import COLUMNS, Comparison, compare, overall
from persistor.paper.outcomes import find_outcomes
from persistor.paper.tables import tables
from persistor.training import Run

POINTS = 200  # of a learning curve, at most


def page(folder: Path) -> str:
    """The page for the runs below a folder."""
    outcomes, problems = find_outcomes(folder)
    compared = [compare(part, outcomes) for part in tables().values()]
    measured = [c for c in compared if any(entry.values for entry in c.entries)]
    curves = [_curve(Run.open(folder / outcome.experiment.name)) for outcome in outcomes]
    data = {"tables": [_plotted(c) for c in measured], "curves": curves}
    choices = "".join(
        f'<option value="{number}">{html.escape(curve["run"])}</option>'
        for number, curve in enumerate(curves)
    )
    facts = {"runs": f"{len(outcomes)} in {folder.name}", **examine(), "again": _command(folder)}
    return Template(_read("page.html")).substitute(
        css=_read("page.css"),
        cells=_read("cells.js"),
        js=_read("page.js"),
        summary=html.escape(" ".join(overall(compared))),
        tables="\n".join(map(_table, measured)) or "<p>No run of the paper's yet.</p>",
        choices=choices,
        facts="".join(f"<dt>{k}</dt><dd>{html.escape(str(v))}</dd>" for k, v in facts.items()),
        problems="".join(f"<p>{html.escape(problem)}</p>" for problem in problems),
        data=json.dumps(data).replace("<", "\\u003c"),  # nothing in it can end the script
    )


def _read(name: str) -> str:
    return (files("persistor.report") / name).read_text()


def _command(folder: Path) -> str:
    return f"persistor report --runs {folder.name}"


def _plotted(comparison: Comparison) -> dict[str, Any]:
    """What the page's plots need to know of a table."""
    size = {"scale": comparison.table.scale, "places": comparison.table.places}
    return {**comparison.to_json(), **size}


def _curve(run: Run) -> dict[str, Any]:
    """A run's validation metric over its steps, thinned out evenly."""
    metric = run.experiment.task.objective.metric
    lines = run.progress()
    kept = lines[:: -(-len(lines) // POINTS)]
    kept = kept if kept[-1] is lines[-1] else [*kept, lines[-1]]
    return {
        "run": run.path.name,
        "metric": metric,
        "steps": [line["step"] for line in kept],
        "values": [line[metric] for line in kept],
    }


def _table(comparison: Comparison) -> str:
    """A table as HTML, with a place for its plot."""
    name = comparison.table.name
    head = "".join(f'<th scope="col">{title or "entry"}</th>' for title in COLUMNS)
    rows = []
    for entry in comparison.entries:
        label, *cells = map(html.escape, comparison.cells(entry))
        kind = "" if entry.values else ' class="empty"'
        data = "".join(f"<td>{cell}</td>" for cell in cells)
        rows.append(f'<tr{kind}><th scope="row">{label}</th>{data}</tr>')
    return (
        f'<h3 id="{name}">{html.escape(comparison.heading)}</h3>'
        f'<p>{comparison.summary()}.</p><div id="plot-{name}"></div>'
        f'<details><summary>All numbers of {name}</summary><div class="scroll" tabindex="0">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        "</div></details>"
    )
