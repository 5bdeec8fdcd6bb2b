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
    sizes=(40_000, 5_000, 5_000),  # half of them favourable in every split
)

_REVIEW = re.compile(r"(train|test)/(pos|neg)/\d+_\d+\.txt")
FOLDERS = ("train/pos", "train/neg", "test/pos", "test/neg")  # all of the same size
LARGEST = 100_000  # bytes; the longest review has 13,704
SEED = 0


@dataclass(frozen=True)
class Reviews:
    """Reviews one after another: number i has the bytes `starts[i]` to `starts[i + 1]`."""

    text: NDArray[np.uint8]
    starts: NDArray[np.int64]
    favourable: NDArray[np.uint8]


def load(data: DataSet = IMDB) -> Reviews:
    """All 50,000 reviews, in the order of their file names."""
    (path,) = data.locate()
    return _read(prepared(f"imdb-{fingerprint(path)}", lambda: _collect(path, data)))


def split(name: str, data: DataSet = IMDB) -> NDArray[np.int64]:
    """The reviews of a split: 40,000, 5,000 and 5,000, each half favourable."""
    favourable = load(data).favourable
    both_kinds = data.slice(name)
    of_each_kind = slice(both_kinds.start // 2, both_kinds.stop // 2)
    chosen = []
    for kind in (0, 1):
        order = np.random.RandomState(SEED + kind).permutation(np.flatnonzero(favourable == kind))
        chosen.append(order[of_each_kind])
    return np.sort(np.concatenate(chosen))


@functools.lru_cache(1)
def _read(path: Path) -> Reviews:
    return Reviews(**read_arrays(path))


def _collect(path: Path, data: DataSet) -> Arrays:
    assert data.sizes is not None
    expected = sum(data.sizes) // len(FOLDERS)
    texts = dict(contents(path, lambda name: bool(_REVIEW.fullmatch(name)), LARGEST))
    for folder in FOLDERS:
        count = sum(name.startswith(folder) for name in texts)
        if count != expected:
            raise PersistorError(
                f"{path}/{folder} has {count:,} reviews, expected {expected:,}; get it again from "
                f"{IMDB.files[0].url}"
            )
    names = sorted(texts)
    empty = [name for name in names if not texts[name]]
    if empty:
        raise PersistorError(f"{path}/{empty[0]} is empty; get it again from {IMDB.files[0].url}")
    return {
        "text": np.frombuffer(b"".join(texts[name] for name in names), np.uint8),
        "starts": np.cumsum([0, *(len(texts[name]) for name in names)]),
        "favourable": np.array(["/pos/" in name for name in names], np.uint8),
    }
