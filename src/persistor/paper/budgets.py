"""The paper's budget for each task: training steps, and the size of a network.

Other tasks have a budget too, so that a run needs no options; those budgets are our choice.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """Training steps, state width d and number of blocks r.

    If the paper has several networks for a task, this is the smallest; for MNIST, 32 units.
    """

    steps: int
    state_size: int
    blocks: int


# By the name of the task; the steps are from the paper's table of training budgets.
BUDGETS: dict[str, Budget] = {
    "copy-first-discrete": Budget(100_000, 4, 1),
    "copy-first-clean": Budget(100_000, 4, 1),
    "copy-first-noisy": Budget(100_000, 4, 1),
    "copy-first-large": Budget(100_000, 256, 6),
    "parity": Budget(35_000, 1, 1),
    "smnist": Budget(30_000, 32, 1),
    "pmnist": Budget(30_000, 32, 1),
    "pmnist-24": Budget(30_000, 32, 1),
    "pmnist-36": Budget(30_000, 32, 1),
    "scifar10": Budget(100_000, 32, 1),
    "imdb": Budget(100_000, 32, 1),
    "listops": Budget(100_000, 32, 1),
    "pathfinder": Budget(100_000, 32, 3),
    "shakespeare": Budget(100_000, 256, 4),
    "tinyshakespeare": Budget(100_000, 256, 4),
    "kws-digits": Budget(35_000, 4, 1),
    "kws-yes": Budget(35_000, 4, 1),
    "kws-all": Budget(35_000, 4, 1),
}

# Tasks that are not in the paper.
OURS: dict[str, Budget] = {
    "copy-first-grid": BUDGETS["copy-first-noisy"],
    "kws-12": Budget(30_000, 24, 2),
    "kws-words": Budget(30_000, 24, 2),
}

# Your own data: the sizes; their number decides the steps (`steps_for`), unless it is not known.
FOR_OWN_DATA: dict[str, Budget] = {
    "own-arrays": Budget(35_000, 32, 1),
    "own-sounds": Budget(35_000, 32, 1),
    "own-table": Budget(35_000, 32, 1),
    "own-text": Budget(100_000, 256, 1),
}

PASSES = 50  # over the examples of your own data,
FEWEST, MOST = 1_000, 20_000  # but between these numbers of steps

# Any other task: enough steps to see whether a model learns it.
UNKNOWN = Budget(10_000, 32, 1)


def published(name: str) -> Budget | None:
    """The paper's budget for a task; None if the task is not in the paper."""
    return BUDGETS.get(name)


def budget(name: str) -> Budget:
    """The budget for a task with this name: the paper's, else our choice."""
    return published(name) or OURS.get(name) or FOR_OWN_DATA.get(name, UNKNOWN)


def steps_for(examples: int, batch: int) -> int:
    """The usual steps on examples of your own: so many passes, in whole hundreds."""
    hundreds = -(-PASSES * examples // (100 * batch))
    return min(MOST, max(FEWEST, 100 * hundreds))
