"""MNIST (LeCun et al., 1998): 60,000 + 10,000 handwritten digits of 28 x 28 grey levels."""

from __future__ import annotations

import functools
import gzip
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor.data.dataset import DataSet, File

UNSIGNED_BYTES = 8  # of the IDX format: a magic number, the sizes, then bytes
_FROM = "https://ossci-datasets.s3.amazonaws.com/mnist/"


def _file(name: str, size: int, sha256: str) -> File:
    return File(name, _FROM + name, f"sha256:{sha256}", size)


MNIST = DataSet(
    name="mnist",
    summary="70,000 handwritten digits, 28 x 28 grey levels",
    forms=(
        (
            _file(
                "train-images-idx3-ubyte.gz",
                9912422,
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ),
            _file(
                "train-labels-idx1-ubyte.gz",
                28881,
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            ),
            _file(
                "t10k-images-idx3-ubyte.gz",
                1648877,
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            ),
            _file(
                "t10k-labels-idx1-ubyte.gz",
                4542,
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
        ),
    ),
    places=("MNIST/raw",),
    sizes=(50_000, 10_000, 10_000),
)


def load(data: DataSet = MNIST) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """All 70,000 images, one row of 784 bytes each, and their digits; the test set comes last."""
    return _read(*data.locate())


@functools.lru_cache(1)
def _read(
    train_images: Path, train_digits: Path, test_images: Path, test_digits: Path
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    images = [
        read_idx(train_images, (60_000, 28, 28)),
        read_idx(test_images, (10_000, 28, 28)),
    ]
    digits = np.concatenate([read_idx(train_digits, (60_000,)), read_idx(test_digits, (10_000,))])
    if digits.max() > 9:
        raise PersistorError(f"{train_digits} holds {digits.max()}; a digit is 0 to 9")
    return np.concatenate(images).reshape(-1, 784), digits


def read_idx(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """The array of a gzipped IDX file, which must have this shape."""
    try:
        with gzip.open(path) as file:
            content = file.read(4 + 4 * len(shape) + int(np.prod(shape)) + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise PersistorError(f"{path} is not a whole gzip file: {error}") from None
    header = bytes([0, 0, UNSIGNED_BYTES, len(shape)]) + np.array(shape, ">u4").tobytes()
    if content[: len(header)] != header or len(content) - len(header) != np.prod(shape):
        raise PersistorError(f"{path} is not an IDX file of bytes of shape {shape}")
    return np.frombuffer(content, np.uint8, offset=len(header)).reshape(shape)
