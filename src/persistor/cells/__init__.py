"""The cells, and their registry: adding one is a file here and a line below."""

from __future__ import annotations

from persistor.cells.alpha_cmru import AlphaCMRU
from persistor.cells.bmru import BMRU
from persistor.cells.cell import Cell
from persistor.cells.cmru import CMRU
from persistor.cells.ladder import Ladder
from persistor.cells.lru import LRU
from persistor.cells.mingru import MinGRU
from persistor.cells.positive_cmru import PositiveCMRU

__all__ = [
    "BMRU",
    "CELLS",
    "CMRU",
    "LRU",
    "AlphaCMRU",
    "Cell",
    "Ladder",
    "MinGRU",
    "PositiveCMRU",
    "Thresholded",
]

CELLS: dict[str, type[Cell]] = {
    "bmru": BMRU,
    "cmru": CMRU,
    "alpha-cmru": AlphaCMRU,
    "lru": LRU,
    "mingru": MinGRU,
    "positive-cmru": PositiveCMRU,
    "ladder": Ladder,
}

Thresholded = BMRU | CMRU | AlphaCMRU  # cells whose thresholds an input may move
