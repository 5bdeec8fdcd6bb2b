"""The map of the reproduction: every entry of the paper as a cell, with what is known of it."""

from __future__ import annotations

import html
from collections import Counter

from persistor.paper.tables import Row, Table
from persistor.reproduction.comparison import Comparison, Entry
from persistor.reproduction.standing import EITHER, KINDS, kinds

# Shapes, so that colour is not needed: what is filled was measured at full budget.
GLYPHS = {"better": "+", "inside": "=", "at chance": "≈", "worse": "-", "reduced": "○", "open": "·"}
ALONG = ("epsilon", "length", "state", "blocks", "task")
WORDS = {"epsilon": "eps", "length": "length", "state": "d", "blocks": "r", "task": "task"}
NAMES = {"paper": "our reading", "robust": "robust", EITHER: "the better of both"}


def bars(counts: dict[str, Counter[str]]) -> str:
    """A bar for each architecture: how many entries are of each kind."""
    return "".join(
        f'<div class="bar-name">{NAMES[name]}</div>{bar(found)}' for name, found in counts.items()
    )


def bar(counts: Counter[str]) -> str:
    """The counts of some entries as one bar."""
    parts = "".join(
        f'<span class="{_css(kind)}" style="flex-grow:{counts[kind]}" title="{counts[kind]} '
        f'{text}"><b aria-hidden="true">{GLYPHS[kind]}</b> {counts[kind]}'
        f'<span class="aside"> {text}</span></span>'
        for kind, text in KINDS.items()
        if counts[kind]
    )
    return f'<div class="bar">{parts}</div>'


def legend() -> str:
    """What the cells mean."""
    return "".join(
        f'<span><span class="half {_css(kind)}" aria-hidden="true">{GLYPHS[kind]}</span> {text}'
        "</span>"
        for kind, text in KINDS.items()
    )


def grid(comparison: Comparison) -> str:
    """The entries of a table as a small grid. In a cell: left our reading, right `robust`."""
    table, along = comparison.table, _along(comparison.table)
    columns = sorted({_place(e.row, along) for e in comparison.entries}, key=_order)
    lines: dict[str, dict[str, str]] = {}
    for number, entry in enumerate(comparison.entries):
        line = lines.setdefault(_rest(table, entry.row, along), {})
        line[_place(entry.row, along)] = _cell(comparison, entry, f"{table.name}-{number}")
    head = "".join(f'<th scope="col">{place or "none"}</th>' for place in columns)
    head = f"<tr><th>{WORDS.get(along, 'cell')}</th>{head if along else '<th>all</th>'}</tr>"
    body = "".join(
        f'<tr><th scope="row">{html.escape(name)}</th>'
        + "".join(line.get(place, "<td></td>") for place in columns)
        + "</tr>"
        for name, line in lines.items()
    )
    return (
        f'<figure><figcaption><a href="#{table.name}">{table.name}</a></figcaption>'
        f'<table class="map" role="grid" aria-label="{html.escape(table.title)}">'
        f"<thead>{head}</thead><tbody>{body}</tbody></table></figure>"
    )


def _cell(comparison: Comparison, entry: Entry, target: str) -> str:
    found = kinds(comparison, entry)
    halves = _half(comparison, entry, found["paper"])
    halves += _half(comparison.beside, entry, found["robust"])
    said = html.escape(_said(comparison, entry, found))
    return f'<td tabindex="-1" data-row="{target}" aria-label="{said}" title="{said}">{halves}</td>'


def _half(comparison: Comparison | None, entry: Entry, kind: str) -> str:
    """What one architecture has of an entry. A verdict at a reduced budget stays hollow."""
    looks, glyph = _css(kind), GLYPHS[kind]
    if kind == "reduced" and comparison is not None:
        verdict = comparison.verdict(comparison.same(entry))
        looks, glyph = f"{looks} {_css(verdict)}", GLYPHS[verdict]
    return f'<span class="half {looks}">{glyph}</span>'


def _said(comparison: Comparison, entry: Entry, found: dict[str, str]) -> str:
    """An entry in a sentence: what the paper has, and what we have."""
    label, _, _, paper, *_ = comparison.columns(entry)
    texts = [
        f"{comparison.table.name}, {label}: the paper {paper if paper != '-' else 'no number'}"
    ]
    for name, own in (("paper", comparison), ("robust", comparison.beside)):
        if own is None or not own.same(entry).values:
            texts.append(f"{NAMES[name]} {KINDS['open']}")
            continue
        _, ours, count, _, _, _, budget = own.columns(own.same(entry))[:7]
        seeds = "1 seed" if count == "1" else f"{count} seeds"
        share = "full budget" if budget == "full" else f"{budget} of the steps"
        verdict = f": {own.verdict(own.same(entry))}" if found[name] != "open" else ""
        texts.append(f"{NAMES[name]} {ours} ({seeds}, {share}){verdict}")
    return "; ".join(texts)


def _along(table: Table) -> str:
    """The option with the most values: it goes across. Empty if there is only one value of each."""
    counts = {name: len({row.options()[name] for row in table.rows} - {""}) for name in ALONG}
    most = max(ALONG, key=lambda name: counts[name])
    return most if counts[most] > 1 else ""


def _place(row: Row, along: str) -> str:
    return row.options()[along] if along else ""


def _order(place: str) -> tuple[bool, float, str]:
    """Numbers in their order, then words, then nothing."""
    try:
        return (False, float(place), "")
    except ValueError:
        return (True, float(not place), place)


def _rest(table: Table, row: Row, along: str) -> str:
    """What a line of the grid shares: the cell, and the other options that differ."""
    label = [row.options()["cell"]]
    for name, value in row.options().items():
        several = len({other.options()[name] for other in table.rows} - {""}) > 1
        if name not in ("cell", along) and value and several:
            label.append(value if name == "task" else f"{WORDS[name]} {value}")
    return " ".join(label)


def _css(kind: str) -> str:
    return kind.replace(" ", "-")
