"""The results as a Markdown page: the measured rows of every table, and why they differ.

The page mentions neither the machine nor the date, so that the same runs always make the same page.
"""

from __future__ import annotations

from pathlib import Path

from persistor.paper.tables import tables
from persistor.reproduction.comparison import Comparison, compare_both, overall
from persistor.reproduction.differences import FILE, Difference, check_explained, read_differences
from persistor.reproduction.formats import markdown_table
from persistor.reproduction.outcomes import find_outcomes

READING = """\
Ours is mean [min; max] over n seeds, without a range where n is 1; the paper's is over five seeds.
The difference is that of the means. The mean is `inside` the published range, `better` or `worse`,
to the digits that the paper prints, or `at chance` where every seed of ours and of the paper's is a
blind guess. In brackets: how often all n of ours would fall on one side of the paper's five if
nothing differed. A budget below `full` is a share of the paper's steps, and such an entry is no
measure of the paper's. Where there are columns named `robust`, they have the same entries trained
with [that architecture and start](reference/architecture.md); the others have our reading of the
paper."""


def markdown(folder: Path) -> str:
    """The page for the runs in a folder; an error if a difference is not explained."""
    outcomes, problems = find_outcomes(folder)
    differences = read_differences(folder)
    compared = [compare_both(table, outcomes) for table in tables().values()]
    name = folder.resolve().name
    paragraphs = [
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
        if comparison.measured:
            paragraphs += _section(comparison, remarks)
    if problems:
        paragraphs += ["## Left out", "\n".join(f"- {problem}" for problem in problems)]
    return "\n\n".join(paragraphs) + "\n"


def _section(comparison: Comparison, remarks: list[Difference]) -> list[str]:
    """The measured rows of a table, and the remarks on them."""
    name = comparison.table.name
    texts = [
        (f"**{', '.join(remark.entries)}.**\n" if remark.entries else "") + remark.text
        for remark in remarks
    ]
    return [
        f"## {comparison.heading}",
        f"`persistor reproduce {name}`: {comparison.summary()}.",
        markdown_table(comparison, comparison.measured),
        *(texts or ["No entry at full budget is outside the published range."]),
    ]
