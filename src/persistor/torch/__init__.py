"""The cells and the backbone for PyTorch (`pip install 'persistor[torch]'`).

    from persistor.torch import CMRU

    cell = CMRU(16, 4, epsilon=1.0)
    ys, h = cell(xs)        # a whole sequence in parallel: (b, t, 16) -> (b, t, 4), (b, 4)
    y, h = cell.step(x, h)  # one step of a stream

The same weights give the same numbers and gradients as in JAX; `load` and `save` read and write
the same files. JAX is imported only when a backbone is built, or a file is read or written.
"""

from __future__ import annotations

from importlib.util import find_spec

from persistor._tools.errors import PersistorError

if find_spec("torch") is None:
    raise PersistorError("PyTorch is not installed: pip install 'persistor[torch]'")

from persistor.torch.backbone import Backbone, Memory
from persistor.torch.block import Block
from persistor.torch.cell import Cell
from persistor.torch.cells import (
    BMRU,
    CELLS,
    CMRU,
    LRU,
    AlphaCMRU,
    Ladder,
    MinGRU,
    PositiveCMRU,
)
from persistor.torch.file import load, save
from persistor.torch.transition import Affine, Saturating

__all__ = [
    "BMRU",
    "CELLS",
    "CMRU",
    "LRU",
    "Affine",
    "AlphaCMRU",
    "Backbone",
    "Block",
    "Cell",
    "Ladder",
    "Memory",
    "MinGRU",
    "PositiveCMRU",
    "Saturating",
    "load",
    "save",
]
