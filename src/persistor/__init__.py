"""persistor: recurrent networks with persistent memory.

    import jax
    from persistor import CMRU

    cell = CMRU(16, 4, epsilon=1.0, key=jax.random.key(0))
    ys, h = cell(xs)        # a whole sequence in parallel: (t, 16) -> (t, 4), (4,)
    y, h = cell.step(x, h)  # one step of a stream

Names are imported when first used, so that `import persistor` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from persistor._tools.errors import PersistorError as PersistorError
    from persistor._tools.options import Option as Option
    from persistor.analysis.theory import gradient_flow as gradient_flow
    from persistor.analysis.theory import quantisation_limit as quantisation_limit
    from persistor.analysis.theory import state_space_form as state_space_form
    from persistor.cells import BMRU as BMRU
    from persistor.cells import CELLS as CELLS
    from persistor.cells import CMRU as CMRU
    from persistor.cells import LRU as LRU
    from persistor.cells import AlphaCMRU as AlphaCMRU
    from persistor.cells import Cell as Cell
    from persistor.cells import Ladder as Ladder
    from persistor.cells import MinGRU as MinGRU
    from persistor.cells import PositiveCMRU as PositiveCMRU
    from persistor.experiment import Experiment as Experiment
    from persistor.experiment import ModelSpec as ModelSpec
    from persistor.experiment import TrainingSpec as TrainingSpec
    from persistor.kernels.engine import engine as engine
    from persistor.model import ARCHITECTURES as ARCHITECTURES
    from persistor.model import PAPER as PAPER
    from persistor.model import Architecture as Architecture
    from persistor.model import Backbone as Backbone
    from persistor.model import Memory as Memory
    from persistor.model import Pooling as Pooling
    from persistor.model.file import save as save
    from persistor.nn.layers import Linear as Linear
    from persistor.nn.sequence import Dense as Dense
    from persistor.nn.sequence import Indexed as Indexed
    from persistor.recurrence.transition import Affine as Affine
    from persistor.recurrence.transition import Saturating as Saturating
    from persistor.tasks import TASKS as TASKS
    from persistor.tasks import Batch as Batch
    from persistor.tasks import Objective as Objective
    from persistor.tasks import Split as Split
    from persistor.tasks import Task as Task
    from persistor.tasks.task import Classification as Classification
    from persistor.tasks.task import NextToken as NextToken
    from persistor.tasks.task import Regression as Regression
    from persistor.training import Run as Run
    from persistor.training import evaluate as evaluate
    from persistor.training import load as load
    from persistor.training import train as train

__version__ = "0.2.0"

# The same names at run time, by the module that each is imported from when it is first used.
_HOMES = {
    "persistor._tools.errors": ("PersistorError",),
    "persistor._tools.options": ("Option",),
    "persistor.analysis.theory": ("gradient_flow", "quantisation_limit", "state_space_form"),
    "persistor.cells": (
        "BMRU",
        "CELLS",
        "CMRU",
        "LRU",
        "AlphaCMRU",
        "Cell",
        "Ladder",
        "MinGRU",
        "PositiveCMRU",
    ),
    "persistor.experiment": ("Experiment", "ModelSpec", "TrainingSpec"),
    "persistor.kernels.engine": ("engine",),
    "persistor.model": ("ARCHITECTURES", "PAPER", "Architecture", "Backbone", "Memory", "Pooling"),
    "persistor.model.file": ("save",),
    "persistor.nn.layers": ("Linear",),
    "persistor.nn.sequence": ("Dense", "Indexed"),
    "persistor.recurrence.transition": ("Affine", "Saturating"),
    "persistor.tasks": ("TASKS", "Batch", "Objective", "Split", "Task"),
    "persistor.tasks.task": ("Classification", "NextToken", "Regression"),
    "persistor.training": ("Run", "evaluate", "load", "train"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)  # pyright: ignore[reportUnsupportedDunderAll]

if not TYPE_CHECKING:  # a type checker takes the imports above, and knows of no other name

    def __getattr__(name: str):
        if name not in _HOME_OF:
            raise AttributeError(f"module 'persistor' has no attribute {name!r}")
        return getattr(importlib.import_module(_HOME_OF[name]), name)

    def __dir__() -> list[str]:
        return __all__
