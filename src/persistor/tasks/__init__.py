"""The tasks, and their registry: adding one is a file here and a line below."""

from __future__ import annotations

from persistor.tasks.copy_first import (
    CopyFirstClean,
    CopyFirstDiscrete,
    CopyFirstLarge,
    CopyFirstNoisy,
)
from persistor.tasks.images import PMNIST, PMNIST24, PMNIST36, SCIFAR10, SMNIST, Pathfinder
from persistor.tasks.keywords import KWSAll, KWSDigits, KWSYes
from persistor.tasks.listops import ListOps
from persistor.tasks.own_data import OWN, own_task
from persistor.tasks.parity import Parity
from persistor.tasks.task import Batch, Objective, Split, Task
from persistor.tasks.text import IMDb, Shakespeare, TinyShakespeare

__all__ = [
    "KINDS",
    "PMNIST",
    "PMNIST24",
    "PMNIST36",
    "SCIFAR10",
    "SMNIST",
    "TASKS",
    "Batch",
    "CopyFirstClean",
    "CopyFirstDiscrete",
    "CopyFirstLarge",
    "CopyFirstNoisy",
    "IMDb",
    "KWSAll",
    "KWSDigits",
    "KWSYes",
    "ListOps",
    "Objective",
    "Parity",
    "Pathfinder",
    "Shakespeare",
    "Split",
    "Task",
    "TinyShakespeare",
    "own_task",
]

TASKS: dict[str, type[Task]] = {
    "copy-first-discrete": CopyFirstDiscrete,
    "copy-first-clean": CopyFirstClean,
    "copy-first-noisy": CopyFirstNoisy,
    "copy-first-large": CopyFirstLarge,
    "parity": Parity,
    "smnist": SMNIST,
    "pmnist": PMNIST,
    "pmnist-24": PMNIST24,
    "pmnist-36": PMNIST36,
    "scifar10": SCIFAR10,
    "imdb": IMDb,
    "listops": ListOps,
    "pathfinder": Pathfinder,
    "shakespeare": Shakespeare,
    "tinyshakespeare": TinyShakespeare,
    "kws-digits": KWSDigits,
    "kws-yes": KWSYes,
    "kws-all": KWSAll,
}
KINDS: dict[str, type[Task]] = {**TASKS, **OWN}  # what an experiment may be on
