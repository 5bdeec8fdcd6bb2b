"""CIFAR-10 (Krizhevsky, 2009): 50,000 + 10,000 colour images of 32 x 32 pixels, 10 classes."""

from __future__ import annotations

import functools
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor.data.contents import contents
from persistor.data.dataset import DataSet, File

_FROM = "https://www.cs.toronto.edu/~kriz/"
CIFAR10 = DataSet(
    name="cifar10",
    summary="60,000 colour images, 32 x 32, of 10 classes",
    forms=(
        (
            File(
                "cifar-10-binary.tar.gz",
                _FROM + "cifar-10-binary.tar.gz",
                "md5:c32a1d4ab5d03f1284b67883e8d87530",
                170_052_171,
            ),
        ),
        (
            File(
                "cifar-10-python.tar.gz",
                _FROM + "cifar-10-python.tar.gz",
                "md5:c58f30108f718f92721af3b95e74349a",
                170_498_071,
            ),
        ),
        (File("cifar-10-batches-bin"),),
        (File("cifar-10-batches-py"),),
    ),
    sizes=(45_000, 5_000, 10_000),
)

NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
PIXELS = 32 * 32


def load(data: DataSet = CIFAR10) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """All 60,000 images as (1,024 pixels, 3 colours) and their classes; the test set comes last."""
    assert data.sizes is not None
    return _read(*data.locate(), images=sum(data.sizes) // len(BATCHES))


@functools.lru_cache(1)
def _read(path: Path, images: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    binary = {f"{name}.bin": name for name in BATCHES}
    pickled = {name: name for name in BATCHES}
    wanted = pickled if "python" in path.name or path.name.endswith("-py") else binary
    parse = _parse_pickled if wanted is pickled else _parse_binary
    batches = {
        wanted[name]: parse(path / name, content, images)
        for name, content in contents(path, wanted.__contains__, 4 * images * PIXELS)
    }
    for name in BATCHES:
        if name not in batches:
            raise PersistorError(f"{path} has no {name}; get it again from {CIFAR10.files[0].url}")
    planes = np.concatenate([batches[name][0] for name in BATCHES])
    classes = np.concatenate([batches[name][1] for name in BATCHES])
    pixels = planes.reshape(-1, 3, PIXELS).transpose(0, 2, 1)
    return np.ascontiguousarray(pixels), classes


def _parse_binary(
    path: Path, content: bytes, images: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """A batch of the binary version: a byte of class, then the red, green and blue planes."""
    if len(content) != images * (1 + 3 * PIXELS):
        raise PersistorError(
            f"{path} has {len(content):,} bytes, expected {images * (1 + 3 * PIXELS):,}: "
            "it is truncated or another file"
        )
    rows = np.frombuffer(content, np.uint8).reshape(images, -1)
    return rows[:, 1:], _classes(path, rows[:, 0])


class _Plain(pickle.Unpickler):
    """An unpickler that reads arrays of numbers and nothing that could run."""

    ALLOWED = frozenset({"_reconstruct", "ndarray", "dtype", "encode"})

    def find_class(self, module: str, name: str) -> Any:
        """Allow only what an array is made of, also at its new place in NumPy."""
        if module.split(".")[0] not in ("numpy", "_codecs") or name not in self.ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed in this file")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def _parse_pickled(
    path: Path, content: bytes, images: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """A batch of the Python version: a pickled dictionary with `data` and `labels`."""
    try:
        batch = _Plain(io.BytesIO(content), encoding="bytes").load()
        planes, classes = batch[b"data"], np.array(batch[b"labels"])
    except Exception as error:  # a pickle may fail in any way
        raise PersistorError(f"{path} is not a batch of CIFAR-10: {error}") from None
    if not isinstance(planes, np.ndarray) or planes.dtype != np.uint8 or classes.dtype != int:
        raise PersistorError(f"{path} does not hold bytes and integer labels")
    if planes.shape != (images, 3 * PIXELS) or classes.shape != (images,):
        raise PersistorError(f"{path} does not hold {images:,} images of {3 * PIXELS:,} bytes")
    return planes, _classes(path, classes)


def _classes(path: Path, classes: NDArray[Any]) -> NDArray[np.uint8]:
    if classes.min() < 0 or classes.max() >= len(NAMES):
        raise PersistorError(f"{path} holds class {classes.max()}; a class is 0 to 9")
    return classes.astype(np.uint8)
