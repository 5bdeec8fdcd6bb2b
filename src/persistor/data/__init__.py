"""Data sets: where they come from, where they are stored, what they hold. Nothing here needs JAX.

To add one, write a file here with a `DataSet` and a function that reads it, and add two lines
below.
"""

from __future__ import annotations

from collections.abc import Callable

from persistor.data import cifar10, imdb, listops, mnist, pathfinder, shakespeare, speech
from persistor.data.dataset import SPLITS, DataSet, File, data_folder
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
# Functions that read a whole data set, by its name.
READERS: dict[str, Callable[[DataSet, Report], object]] = {
    "mnist": lambda data, report: mnist.load(data),
    "cifar10": lambda data, report: cifar10.load(data),
    "imdb": lambda data, report: imdb.load(data),
    "listops": lambda data, report: [listops.load(name, data) for name in SPLITS],
    "pathfinder": lambda data, report: [pathfinder.load(name, data) for name in SPLITS],
    "shakespeare": lambda data, report: shakespeare.load(data),
    "tinyshakespeare": lambda data, report: shakespeare.load(data),
    "speech-commands": lambda data, report: speech.load(data, report),
}
