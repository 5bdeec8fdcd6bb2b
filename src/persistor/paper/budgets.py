"""What the paper spends on each task: training steps, and the size of a network.

Other tasks have a budget too, so that a run needs no options; it is chosen here, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """Training steps, state width d and number of blocks r.

    Where the paper has several networks for a task, the smallest counts; for MNIST, 32 units.

    `search` is not the paper's: `persistor train` then starts again while a run only guesses.
    """

    steps: int
    state_size: int
    blocks: int
    search: bool = False


# By the name of the task; steps are the paper's table of training budgets.
BUDGETS: dict[str, Budget] = {
    "copy-first-discrete": Budget(100_000, 4, 1),
    "copy-first-clean": Budget(100_000, 4, 1),
    "copy-first-noisy": Budget(100_000, 4, 1),
    "copy-first-large": Budget(100_000, 256, 6),
    "parity": Budget(35_000, 1, 1, search=True),
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

# Your own data: the steps of the paper's audio tasks, or of its texts.
OWN_DATA: dict[str, Budget] = {
    "own-arrays": Budget(35_000, 32, 1),
    "own-sounds": Budget(35_000, 32, 1),
    "own-text": Budget(100_000, 256, 1),
}

# A task that is neither the paper's nor one of ours: enough to see whether it learns.
UNKNOWN = Budget(10_000, 32, 1)


def published(name: str) -> Budget | None:
    """The paper's budget for a task; none where the task is not the paper's."""
    return BUDGETS.get(name)


def budget(name: str) -> Budget:
    """The budget for a task of this name: the paper's, else one that is chosen here."""
    return published(name) or OWN_DATA.get(name, UNKNOWN)
