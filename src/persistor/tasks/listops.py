"""ListOps (appendix "ListOps"): the value of nested operations on digits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from persistor._tools.errors import PersistorError
from persistor.data import listops
from persistor.data.listops_grammar import TOKENS
from persistor.nn.pooling import Pooling
from persistor.tasks.task import Classification, Objective
from persistor.tasks.text import Ragged


@dataclass(frozen=True)
class ListOps:
    """What is the value of the expression? Up to 2,000 tokens, of 15 kinds."""

    summary: ClassVar[str] = "the value of nested operations on digits"
    inputs: ClassVar[int] = len(TOKENS)
    outputs: ClassVar[int] = 10
    objective: ClassVar[Objective] = Classification()
    pooling: ClassVar[Pooling] = Pooling.MEAN
    steps: ClassVar[int] = 100_000
    state: ClassVar[int] = 32
    blocks: ClassVar[int] = 1
    chance: ClassVar[float] = 0.1
    data: ClassVar[str | None] = "listops"
    letters: ClassVar[tuple[str, ...]] = tuple(f"{token} " for token in TOKENS)

    def split(self, name: str) -> Ragged:
        """96,000 / 2,000 / 2,000 expressions."""
        found = listops.load(name)
        return Ragged.of(
            found.tokens,
            found.starts[:-1],
            found.lengths,
            found.values,
            kinds=len(TOKENS),
            longest=listops.LONGEST,
        )

    def with_length(self, length: int) -> ListOps:
        """An expression has the length it has."""
        raise PersistorError(
            f"an expression has the length it has, not {length}; leave the length out"
        )
