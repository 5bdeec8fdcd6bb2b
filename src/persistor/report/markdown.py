"""The results as a Markdown page: what was measured of every table, and where it differs and why.

It says nothing of the machine or the day, so that the same runs always make the same page.
"""

from __future__ import annotations

from pathlib import Path

from persistor.paper.tables import tables
from persistor.reproduction.comparison import Comparison, compare, markdown_table, overall
from persistor.reproduction.differences import FILE, Difference, check_explained, read_differences
from persistor.reproduction.outcomes import find_outcomes

READING = """\
Ours is mean [min; max] over n seeds, without a range where n is 1; the paper's is over five seeds.
The difference is that of the means. The mean is `inside` the published range, `better` or `worse`,
to the digits that the paper prints, or `at chance` where every seed of ours and of the paper's is a
blind guess. In brackets: how often all n of ours would fall on one side of the paper's five if
nothing differed. A budget below `full` is a share of the paper's steps, and such an entry is no
measure of the paper's."""


def markdown(folder: Path) -> str:
    """The page for the runs below a folder; an error where a difference goes unexplained."""
    outcomes, problems = find_outcomes(folder)
    differences = read_differences(folder)
    compared = [compare(part, outcomes) for part in tables().values()]
    name = folder.resolve().name
    parts = [
        "# Results",
        f"What we measured of the paper's tables, from the runs in `{name}/`.\n"
        f"`persistor report --runs {name} --page docs/results.md` writes this page; the "
        f"explanations\nare ours and stand in `{name}/{FILE}`.",
        "\n".join(f"- {sentence}" for sentence in overall(compared)),
        READING,
    ]
    for comparison in compared:
        remarks = differences.get(comparison.table.name, [])
        check_explained(comparison, remarks)
        if any(entry.values for entry in comparison.entries):
            parts += _section(comparison, remarks)
    if problems:
        parts += ["## Left out", "\n".join(f"- {problem}" for problem in problems)]
    return "\n\n".join(parts) + "\n"


def _section(comparison: Comparison, remarks: list[Difference]) -> list[str]:
    """A table's measured rows, and what we say of them."""
    name = comparison.table.name
    measured = [entry for entry in comparison.entries if entry.values]
    texts = [
        (f"**{', '.join(remark.entries)}.**\n" if remark.entries else "") + remark.text
        for remark in remarks
    ]
    return [
        f"## {comparison.heading}",
        f"`persistor reproduce {name}`: {comparison.summary()}.",
        markdown_table(comparison, measured),
        *(texts or ["No entry at full budget is outside the published range."]),
    ]
