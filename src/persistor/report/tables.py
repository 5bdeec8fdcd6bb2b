"""The paper's tables beside our numbers as HTML, folded by claim of the paper."""

from __future__ import annotations

import html
from collections.abc import Sequence

from persistor.paper.claims import grouped
from persistor.report.map import bar
from persistor.reproduction.comparison import Comparison
from persistor.reproduction.standing import EITHER, in_words, standing


def claims(compared: Sequence[Comparison]) -> str:
    """Every claim with its tables; the first is unfolded."""
    by_name = {comparison.table.name: comparison for comparison in compared}
    groups = grouped(list(by_name)).items()
    return "".join(
        _claim(text, [by_name[name] for name in names], number == 0)
        for number, (text, names) in enumerate(groups)
    )


def _claim(text: str, compared: list[Comparison], unfolded: bool) -> str:
    counts = standing(compared)[EITHER]
    return (
        f'<details class="claim"{" open" * unfolded}><summary><h3>{html.escape(text)}</h3>'
        f"<p>{in_words(counts)}.</p>{bar(counts)}</summary>"
        f"{''.join(map(_table, compared))}</details>"
    )


def _table(comparison: Comparison) -> str:
    """A table with a place for its plot, all its numbers, and the command that repeats it."""
    name = comparison.table.name
    head = "".join(f'<th scope="col">{title or "entry"}</th>' for title in comparison.titles)
    rows, there = [], comparison.measured
    for number, entry in enumerate(comparison.entries):
        label, *cells = map(html.escape, comparison.columns(entry))
        kind = "" if entry in there else ' class="empty"'
        data = "".join(f"<td>{cell}</td>" for cell in cells)
        rows.append(f'<tr id="{name}-{number}"{kind}><th scope="row">{label}</th>{data}</tr>')
    return (
        f'<h4 id="{name}">{html.escape(comparison.heading)}</h4>'
        f"<p>{comparison.summary()}. <code>persistor reproduce {name}</code></p>"
        f'<div class="plot" data-table="{name}"></div>'
        f'<details class="numbers{"" if there else " empty"}">'
        f"<summary>All numbers of {name}</summary>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="All numbers of {name}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        "</div></details>"
    )
