"""Data sets: where they come from, where they lie, what is in them. Nothing here needs JAX."""

from __future__ import annotations

from persistor.data.dataset import DataSet, File, data_folder
from persistor.data.mnist import MNIST

__all__ = ["DATASETS", "DataSet", "File", "data_folder"]

DATASETS: dict[str, DataSet] = {
    "mnist": MNIST,
}
