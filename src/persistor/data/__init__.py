"""Data sets: where they come from, where they lie, what is in them. Nothing here needs JAX.

Adding one is a file here, with a `DataSet` and a function that reads it, and two lines below.
"""

from __future__ import annotations

from collections.abc import Callable

from persistor.data import cifar10, imdb, listops, mnist, pathfinder, shakespeare, speech
from persistor.data.dataset import DataSet, File, data_folder
from persistor.data.download import fetch
from persistor.data.workers import Report

__all__ = ["DATASETS", "READERS", "DataSet", "File", "data_folder", "fetch"]

DATASETS: dict[str, DataSet] = {
    "mnist": mnist.MNIST,
    "cifar10": cifar10.CIFAR10,
    "imdb": imdb.IMDB,
    "listops": listops.LISTOPS,
    "pathfinder": pathfinder.PATHFINDER,
    "shakespeare": shakespeare.SHAKESPEARE,
    "tinyshakespeare": shakespeare.TINY,
    "speech-commands": speech.SPEECH,
}
READERS: dict[str, Callable[[Report], object]] = {
    "mnist": lambda report: mnist.load(),
    "cifar10": lambda report: cifar10.load(),
    "imdb": lambda report: imdb.load(),
    "listops": lambda report: [listops.load(name) for name in listops.PARTS],
    "pathfinder": lambda report: [pathfinder.load(name) for name in pathfinder.SIZES],
    "shakespeare": lambda report: shakespeare.load_works(),
    "tinyshakespeare": lambda report: shakespeare.load_tiny(),
    "speech-commands": lambda report: speech.load(report),
}
