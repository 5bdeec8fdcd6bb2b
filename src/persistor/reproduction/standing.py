"""How far the reproduction is: what is known of every entry of the paper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from persistor.reproduction.comparison import GOOD, Comparison, Entry

# The best first. Verdicts are those of runs at full budget.
KINDS = {
    "better": "better than the published range",
    "inside": "inside the published range",
    "at chance": "a blind guess, as in the paper",
    "worse": "worse than the published range",
    "reduced": "measured at a reduced budget only",
    "open": "not measured",
}
EITHER = "either"


def kind(comparison: Comparison | None, entry: Entry) -> str:
    """What is known of an entry with the runs of one architecture: one of `KINDS`.

    An entry for which the paper gives no number has no verdict and counts as not measured.
    """
    if comparison is None:
        return "open"
    same = comparison.same(entry)
    verdict = comparison.verdict(same)
    if not verdict:
        return "open"
    return verdict if same.budget == 1 else "reduced"


def kinds(comparison: Comparison, entry: Entry) -> dict[str, str]:
    """What is known of an entry with each architecture, and the better of the two."""
    found = {"paper": kind(comparison, entry), "robust": kind(comparison.beside, entry)}
    return {**found, EITHER: min(found.values(), key=list(KINDS).index)}


def standing(compared: Iterable[Comparison]) -> dict[str, Counter[str]]:
    """How many entries are of each kind, by architecture. Entries that tables share count once."""
    different = {
        (*entry.row.options().values(), *entry.row.published): kinds(comparison, entry)
        for comparison in compared
        for entry in comparison.entries
        if entry.row.published is not None
    }
    return {
        architecture: Counter(found[architecture] for found in different.values())
        for architecture in ("paper", "robust", EITHER)
    }


def in_words(counts: Counter[str]) -> str:
    """The counts of some entries as a sentence without its full stop."""
    full = counts.total() - counts["reduced"] - counts["open"]
    good = sum(counts[verdict] for verdict in GOOD)
    text = f"{full} of {counts.total()} entries at full budget, {good} as in the paper or better"
    return text + (f"; {counts['reduced']} at a reduced budget only" if counts["reduced"] else "")
