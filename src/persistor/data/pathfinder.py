"""Pathfinder (Linsley et al., 2018) with the settings of Long Range Arena: 200,000 pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor.data import pathfinder_images as images
from persistor.data.dataset import SPLITS, DataSet, File
from persistor.data.workers import Report


def _make(folder: Path, report: Report) -> None:
    images.write(folder, report=report)


PATHFINDER = DataSet(
    name="pathfinder",
    summary="200,000 pictures of dashed paths, 32 x 32 grey levels",
    forms=(tuple(File(f"pathfinder32_{name}.npy") for name in SPLITS),),
    make=_make,
    sizes=(160_000, 20_000, 20_000),
)


def load(name: str, data: DataSet = PATHFINDER) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The pictures of a split, one row of 1,024 bytes each; 1 where the discs are connected."""
    path, size = data.locate()[SPLITS.index(name)], data.size(name)
    pictures, connected = images.read(path)
    if len(connected) != size or connected.max() > 1:
        raise PersistorError(
            f"{path} should hold {size:,} pictures with answers 0 or 1; remove it and make it "
            "again with `persistor data fetch pathfinder`"
        )
    return pictures.reshape(len(pictures), -1), connected
