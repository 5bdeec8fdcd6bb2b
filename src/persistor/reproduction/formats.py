"""A comparison as text for a terminal, as Markdown and as LaTeX."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from persistor.reproduction.comparison import Comparison, Entry

WORDS = (0, 5, 6, 9, 10)  # columns of words; the others are numbers


def as_text(comparison: Comparison) -> str:
    """For a terminal: aligned columns."""
    lines = [comparison.titles, *map(comparison.columns, comparison.entries)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    aligned = [
        "  ".join(
            cell.ljust(width) if i in WORDS else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    name = f"{comparison.table.name}: {comparison.heading}"
    return "\n".join([name, *aligned, comparison.summary()])


def as_markdown(comparison: Comparison) -> str:
    """A Markdown table under its heading."""
    table = markdown_table(comparison, comparison.entries)
    return "\n".join([f"### {comparison.heading}", "", table, "", f"{comparison.summary()}."])


def markdown_table(comparison: Comparison, entries: Iterable[Entry]) -> str:
    """Some of the entries as a Markdown table."""
    titles = comparison.titles
    lines = [titles, ["---"] * len(titles), *map(comparison.columns, entries)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def as_latex(comparison: Comparison) -> str:
    """A table for LaTeX with booktabs."""
    head, *body = (
        "    " + " & ".join(map(_escaped, line)) + r" \\"
        for line in [comparison.titles, *map(comparison.columns, comparison.entries)]
    )
    columns = "".join("l" if i in WORDS else "r" for i in range(len(comparison.titles)))
    caption = _escaped(f"{comparison.heading}. {comparison.summary()}.")
    return "\n".join(
        [
            r"\begin{table}",
            rf"  \caption{{{caption}}}",
            rf"  \begin{{tabular}}{{{columns}}}",
            r"    \toprule",
            head,
            r"    \midrule",
            *body,
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
        ]
    )


def _escaped(text: str) -> str:
    return text.replace("%", r"\%").replace("_", r"\_")


FORMATS: dict[str, Callable[[Comparison], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "latex": as_latex,
}
