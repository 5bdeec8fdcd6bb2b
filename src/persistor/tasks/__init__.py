"""The tasks and their registry. To add one, write a file here and add a line below."""

from __future__ import annotations

from persistor.tasks.copy_first import (
    CopyFirstClean,
    CopyFirstDiscrete,
    CopyFirstGrid,
    CopyFirstLarge,
    CopyFirstNoisy,
)
from persistor.tasks.images import PMNIST, PMNIST24, PMNIST36, SCIFAR10, SMNIST, Pathfinder
from persistor.tasks.keywords import KWSAll, KWSDigits, KWSYes
from persistor.tasks.listops import ListOps
from persistor.tasks.own_data import OWN_DATA, own_task
from persistor.tasks.parity import Parity
from persistor.tasks.spotting import KWS12, KWSWords
from persistor.tasks.task import Batch, Objective, Split, Task, computed
from persistor.tasks.text import IMDb, Shakespeare, TinyShakespeare

__all__ = [
    "KINDS",
    "KWS12",
    "PMNIST",
    "PMNIST24",
    "PMNIST36",
    "SCIFAR10",
    "SMNIST",
    "TASKS",
    "Batch",
    "CopyFirstClean",
    "CopyFirstDiscrete",
    "CopyFirstGrid",
    "CopyFirstLarge",
    "CopyFirstNoisy",
    "IMDb",
    "KWSAll",
    "KWSDigits",
    "KWSWords",
    "KWSYes",
    "ListOps",
    "Objective",
    "Parity",
    "Pathfinder",
    "Shakespeare",
    "Split",
    "Task",
    "TinyShakespeare",
    "computed",
    "own_task",
]

REGISTERED: tuple[type[Task], ...] = (
    CopyFirstDiscrete,
    CopyFirstClean,
    CopyFirstNoisy,
    CopyFirstGrid,
    CopyFirstLarge,
    Parity,
    SMNIST,
    PMNIST,
    PMNIST24,
    PMNIST36,
    SCIFAR10,
    IMDb,
    ListOps,
    Pathfinder,
    Shakespeare,
    TinyShakespeare,
    KWSDigits,
    KWSYes,
    KWSAll,
    KWS12,
    KWSWords,
)
TASKS: dict[str, type[Task]] = {kind.name: kind for kind in REGISTERED}
# All tasks that an experiment may name, including those on your own data.
KINDS: dict[str, type[Task]] = TASKS | {kind.name: kind for kind in OWN_DATA}
