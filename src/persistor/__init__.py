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
from typing import Any

__version__ = "0.1.0"

_HOMES = {
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
    "persistor._tools.errors": ("PersistorError",),
    "persistor.experiment.experiment": ("Experiment", "ModelSpec", "TrainingSpec"),
    "persistor.model": ("Backbone", "Memory", "Pooling"),
    "persistor.nn.sequence": ("Dense", "Indexed"),
    "persistor.tasks": ("TASKS",),
    "persistor.analysis.theory": ("gradient_flow", "quantisation_limit", "state_space_form"),
    "persistor.training": ("Run", "evaluate", "train"),
    "persistor.recurrence.transition": ("Affine", "Saturating"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'persistor' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
