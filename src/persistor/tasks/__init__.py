"""The tasks, and their registry: adding one is a file here and a line below."""

from __future__ import annotations

from persistor.tasks.copy_first import CopyFirstClean, CopyFirstDiscrete, CopyFirstNoisy
from persistor.tasks.images import PMNIST, PMNIST24, PMNIST36, SMNIST
from persistor.tasks.parity import Parity
from persistor.tasks.task import Batch, Objective, Split, Task

__all__ = [
    "PMNIST",
    "PMNIST24",
    "PMNIST36",
    "SMNIST",
    "TASKS",
    "Batch",
    "CopyFirstClean",
    "CopyFirstDiscrete",
    "CopyFirstNoisy",
    "Objective",
    "Parity",
    "Split",
    "Task",
]

TASKS: dict[str, type[Task]] = {
    "copy-first-discrete": CopyFirstDiscrete,
    "copy-first-clean": CopyFirstClean,
    "copy-first-noisy": CopyFirstNoisy,
    "parity": Parity,
    "smnist": SMNIST,
    "pmnist": PMNIST,
    "pmnist-24": PMNIST24,
    "pmnist-36": PMNIST36,
}
