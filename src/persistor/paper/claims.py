"""What the paper claims in its text, and the tables that stand behind each claim.

docs/explanation/claims.md says of each claim what our runs say about it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and its tables by name."""

    text: str
    tables: tuple[str, ...]


CLAIMS = (
    Claim(
        "Reflection (epsilon -1) solves parity with one unit, and nothing else does", ("parity",)
    ),
    Claim(
        "Persistent memory keeps a symbol at any length, fading memory does not",
        ("copy-first-discrete", "copy-first-clean", "copy-first-noisy", "copy-first-large"),
    ),
    Claim(
        "CMRU at epsilon 1 is accurate and stable at small width",
        ("smnist-state", "smnist-epsilon", "pmnist", "kws-r1", "kws-yes", "kws-r2"),
    ),
    Claim("Annealing recovers what epsilon 0 loses", ("annealing",)),
    Claim("Hybrids of fading and persistent cells work", ("shakespeare",)),
)
FURTHER = "Further tables: deeper networks on long sequences"


def grouped(names: list[str]) -> dict[str, list[str]]:
    """The tables by claim; those that stand behind none come last."""
    groups = {claim.text: list(claim.tables) for claim in CLAIMS}
    claimed = {name for tables in groups.values() for name in tables}
    return {**groups, FURTHER: [name for name in names if name not in claimed]}
