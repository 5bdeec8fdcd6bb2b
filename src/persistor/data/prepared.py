"""Arrays that took long to compute from a data set, kept for the next time."""

from __future__ import annotations

import io
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor._tools.files import read_json, replacing, write_json, writing
from persistor.data.dataset import data_folder

Arrays = dict[str, NDArray[Any]]
DAMAGE = (
    OSError,
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


def prepared(key: str, make: Callable[[], Arrays]) -> Path:
    """The file of arrays with this key, made if missing; the key names all they depend on."""
    path = _folder() / f"{key}.npz"
    if not path.exists():
        arrays = make()
        with writing(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            np.savez(file, **arrays)  # pyright: ignore[reportArgumentType]
    return path


def remember(key: str, value: Any) -> None:
    """Keep a small JSON value beside the arrays."""
    path = _folder() / f"{key}.json"
    if not path.exists():
        with writing(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, value)


def remembered(key: str) -> Any:
    """The JSON value with this key; None if it is not there."""
    path = _folder() / f"{key}.json"
    return read_json(path) if path.exists() else None


def _folder() -> Path:
    """A folder beside the data, or in the platform's cache if the data are read-only."""
    data = data_folder()
    writable = os.access(data, os.W_OK)
    return (data if writable else platformdirs.user_cache_path("persistor", False)) / "prepared"


def read_arrays(path: Path) -> Arrays:
    """The arrays of an .npz file; no code in it is run."""
    try:
        with zipfile.ZipFile(path) as file:
            return {name.removesuffix(".npy"): _array(file.read(name)) for name in file.namelist()}
    except FileNotFoundError:
        raise PersistorError(f"{path} does not exist") from None
    except DAMAGE as error:
        reason = str(error).split("\n")[0]
        raise PersistorError(f"{path} is not a complete .npz file of arrays: {reason}") from None


def _array(content: bytes) -> NDArray[Any]:
    """The array of numbers or text in an .npy file; an error if it is not as long as it says."""
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in read_header:
        raise ValueError(f"version {version} of the format is unknown")
    shape, by_columns, dtype = read_header[version](file)
    if dtype.hasobject or dtype.itemsize == 0 or dtype.names:
        raise ValueError(f"an array of {dtype} is not an array of numbers")
    if math.prod(shape) * dtype.itemsize != len(content) - file.tell():
        raise ValueError(f"an array of shape {shape} does not have {len(content):,} bytes")
    array = np.frombuffer(content, dtype, offset=file.tell())
    return array.reshape(shape, order="F" if by_columns else "C")
