"""The Large Movie Review Dataset (Maas et al., 2011): 50,000 reviews, half of them favourable."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor.data.contents import contents, fingerprint
from persistor.data.dataset import DataSet, File
from persistor.data.prepared import Arrays, prepared, read_arrays

IMDB = DataSet(
    name="imdb",
    summary="50,000 film reviews, half of them favourable",
    forms=(
        (
            File(
                "aclImdb_v1.tar.gz",
                "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
                "md5:7c2ac02c03563afcf9b574c7e56c153a",
                84_125_825,
            ),
        ),
        (File("aclImdb"),),
    ),
)

_REVIEW = re.compile(r"(train|test)/(pos|neg)/\d+_\d+\.txt")
EACH = 12_500  # reviews of a folder
LARGEST = 100_000  # bytes; the longest review has 13,704
SIZES = {"train": 20_000, "valid": 2_500, "test": 2_500}  # of either kind
SEED = 0


@dataclass(frozen=True)
class Reviews:
    """Reviews one after another: number i has the bytes `starts[i]` to `starts[i + 1]`."""

    text: NDArray[np.uint8]
    starts: NDArray[np.int64]
    favourable: NDArray[np.uint8]


def load() -> Reviews:
    """All 50,000 reviews, in the order of their file names."""
    (path,) = IMDB.locate()
    return _read(prepared(f"imdb-{fingerprint(path)}", lambda: _collect(path)))


def split(name: str) -> NDArray[np.int64]:
    """Which reviews are in a part: 40,000, 5,000 and 5,000, each half favourable."""
    favourable = load().favourable
    begin = sum(SIZES[other] for other in list(SIZES)[: list(SIZES).index(name)])
    parts = []
    for kind in (0, 1):
        order = np.random.RandomState(SEED + kind).permutation(np.flatnonzero(favourable == kind))
        parts.append(order[begin : begin + SIZES[name]])
    return np.sort(np.concatenate(parts))


@functools.lru_cache(1)
def _read(path: Path) -> Reviews:
    return Reviews(**read_arrays(path))


def _collect(path: Path) -> Arrays:
    found = dict(contents(path, lambda name: bool(_REVIEW.fullmatch(name)), LARGEST))
    for folder in ("train/pos", "train/neg", "test/pos", "test/neg"):
        count = sum(name.startswith(folder) for name in found)
        if count != EACH:
            raise PersistorError(
                f"{path}/{folder} has {count:,} reviews, expected {EACH:,}; get it again from "
                f"{IMDB.files[0].url}"
            )
    names = sorted(found)
    empty = [name for name in names if not found[name]]
    if empty:
        raise PersistorError(f"{path}/{empty[0]} is empty; get it again from {IMDB.files[0].url}")
    return {
        "text": np.frombuffer(b"".join(found[name] for name in names), np.uint8),
        "starts": np.cumsum([0, *(len(found[name]) for name in names)]),
        "favourable": np.array(["/pos/" in name for name in names], np.uint8),
    }
