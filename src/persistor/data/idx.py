"""The IDX format of MNIST: a magic number, the sizes, then bytes."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError

UNSIGNED_BYTES = 8


def read_idx(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """The array in a gzipped IDX file; an error if it does not have this shape."""
    try:
        with gzip.open(path) as file:
            content = file.read(4 + 4 * len(shape) + int(np.prod(shape)) + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise PersistorError(f"{path} is not a complete gzip file: {error}") from None
    header = bytes([0, 0, UNSIGNED_BYTES, len(shape)]) + np.array(shape, ">u4").tobytes()
    if content[: len(header)] != header or len(content) - len(header) != np.prod(shape):
        raise PersistorError(f"{path} is not an IDX file of bytes of shape {shape}")
    return np.frombuffer(content, np.uint8, offset=len(header)).reshape(shape)
