"""ListOps (appendix "ListOps"): the value of nested operations on digits."""

from __future__ import annotations

from dataclasses import dataclass

from persistor.data import listops
from persistor.data.listops_grammar import TOKENS
from persistor.nn.pooling import Pooling
from persistor.tasks.task import Classification, Task
from persistor.tasks.text import Ragged


@dataclass(frozen=True)
class ListOps(Task):
    """What is the value of the expression? Up to 2,000 tokens, of 15 kinds."""

    name = "listops"
    summary = "the value of nested operations on digits"
    inputs = len(TOKENS)
    outputs = 10
    objective = Classification()
    pooling = Pooling.MEAN
    chance = 0.1
    source = listops.LISTOPS
    data = source.name
    fixed_length = "expressions have their own lengths"
    letters = tuple(f"{token} " for token in TOKENS)

    def split(self, name: str) -> Ragged:
        """96,000 / 2,000 / 2,000 expressions."""
        expressions = listops.load(name, self.source)
        return Ragged.of(
            expressions.tokens,
            expressions.starts[:-1],
            expressions.lengths,
            expressions.values,
            kinds=len(TOKENS),
            longest=listops.LONGEST,
        )
