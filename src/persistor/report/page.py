"""One self-contained HTML page for a folder of runs: tables, plots, curves, states, playground."""

from __future__ import annotations

import html
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from persistor.kernels.doctor import examine
from persistor.paper.tables import tables
from persistor.report.states import as_text, watched
from persistor.reproduction.comparison import Comparison, compare_both, overall
from persistor.reproduction.outcomes import find_outcomes
from persistor.reproduction.record import Record

POINTS = 200  # of a learning curve, at most
NO_WEIGHTS = (
    "No run here has its weights. Train one, for example with <code>persistor train parity "
    "--epsilon -1 --state 16 --steps 200</code>; then <code>persistor report</code> shows its "
    "states."
)


def page(folder: Path, report: Callable[[int, int], None] = lambda done, total: None) -> str:
    """The page for the runs in a folder."""
    states, unseen = watched(folder, report)
    outcomes, problems = find_outcomes(folder)
    compared = [compare_both(table, outcomes) for table in tables().values()]
    measured = [c for c in compared if c.measured]
    curves = [_curve(outcome.record) for outcome in outcomes if outcome.record is not None]
    data = {"tables": [_plotted(c) for c in measured], "curves": curves, "states": states}
    facts = {"runs": f"{len(outcomes)} in {folder.name}", **examine(), "again": _command(folder)}
    return Template(_read("page.html")).substitute(
        css=_read("page.css"),
        playground=_read("playground.js"),
        js=_read("page.js"),
        states=_read("states.js"),
        summary=html.escape(" ".join(overall(compared))),
        tables="\n".join(map(_table, measured))
        or "<p>No run here belongs to a table of the paper yet.</p>",
        choices=_choices(curves),
        inside=_inside(states, unseen),
        facts="".join(f"<dt>{k}</dt><dd>{html.escape(str(v))}</dd>" for k, v in facts.items()),
        problems="".join(f"<p>{html.escape(problem)}</p>" for problem in problems),
        data=as_text(data).replace("<", "\\u003c"),  # so that no text can end the script
    )


def _read(name: str) -> str:
    return (files("persistor.report") / name).read_text()


def _command(folder: Path) -> str:
    return f"persistor report --runs {folder.name}"


def _choices(runs: list[dict[str, Any]]) -> str:
    """The options of a menu of runs."""
    return "".join(
        f'<option value="{number}">{html.escape(run["run"])}</option>'
        for number, run in enumerate(runs)
    )


def _inside(states: list[dict[str, Any]], unseen: list[str]) -> str:
    """The viewer of states, or how to get states to view; and which runs are not shown."""
    text = f"<p>{NO_WEIGHTS}</p>"
    if states:
        text = Template(_read("states.html")).substitute(choices=_choices(states))
    return text + "".join(f"<p>{html.escape(line)}</p>" for line in unseen)


def _plotted(comparison: Comparison) -> dict[str, Any]:
    """What the page's plots need to know about a table."""
    size = {"scale": comparison.table.scale, "places": comparison.table.places}
    return {**comparison.to_json(), **size}


def _curve(record: Record) -> dict[str, Any]:
    """A run's validation metric over its steps, thinned out evenly."""
    lines = record.progress()
    kept = lines[:: -(-len(lines) // POINTS)]
    kept = kept if kept[-1] is lines[-1] else [*kept, lines[-1]]
    return {
        "run": record.name,
        "metric": record.metric,
        "steps": [line["step"] for line in kept],
        "values": [line[record.metric] for line in kept],
    }


def _table(comparison: Comparison) -> str:
    """A table as HTML, with a place for its plot."""
    name = comparison.table.name
    head = "".join(f'<th scope="col">{title or "entry"}</th>' for title in comparison.titles)
    rows, there = [], comparison.measured
    for entry in comparison.entries:
        label, *cells = map(html.escape, comparison.columns(entry))
        kind = "" if entry in there else ' class="empty"'
        data = "".join(f"<td>{cell}</td>" for cell in cells)
        rows.append(f'<tr{kind}><th scope="row">{label}</th>{data}</tr>')
    return (
        f'<h3 id="{name}">{html.escape(comparison.heading)}</h3>'
        f'<p>{comparison.summary()}.</p><div id="plot-{name}"></div>'
        f'<details><summary>All numbers of {name}</summary><div class="scroll" tabindex="0">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        "</div></details>"
    )
