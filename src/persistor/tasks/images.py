"""Images read pixel by pixel (appendix "Sequential Image Classification Tasks")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from persistor._tools.errors import PersistorError
from persistor.arrays import Array, Float, Int, UInt
from persistor.data import cifar10, mnist, pathfinder
from persistor.nn.pooling import Pooling
from persistor.nn.sequence import Dense, Indexed
from persistor.tasks.task import Batch, Classification, Objective


class GreyImages(eqx.Module):
    """Images of one grey level a step, kept as bytes, and their classes."""

    pixels: UInt[Array, "n t"]
    targets: Int[Array, " n"]

    @property
    def size(self) -> int:
        """The number of examples."""
        return self.pixels.shape[0]

    def at(self, indices: Int[Array, " b"]) -> Batch:
        """Row g is the grey level g / 255."""
        ids = self.pixels[indices].astype(jnp.int32)
        return Batch(Indexed(grey_levels(), ids), self.targets[indices])


def grey_levels() -> Float[Array, "256 1"]:
    """The values of a byte in [0, 1]."""
    return (jnp.arange(256, dtype=jnp.float32) / 255.0)[:, None]


@dataclass(frozen=True)
class SMNIST:
    """Which digit is it? 784 pixels, row by row; the answer after the last one."""

    summary: ClassVar[str] = "name the digit, pixel by pixel"
    inputs: ClassVar[int] = 1
    outputs: ClassVar[int] = 10
    objective: ClassVar[Objective] = Classification()
    pooling: ClassVar[Pooling] = Pooling.LAST
    steps: ClassVar[int] = 30_000
    state: ClassVar[int] = 32
    blocks: ClassVar[int] = 1
    chance: ClassVar[float] = 0.1
    data: ClassVar[str | None] = "mnist"
    picture: ClassVar[tuple[int, int]] = (28, 28)
    permutation: ClassVar[int | None] = None  # the seed of the pixels' order

    def split(self, name: str) -> GreyImages:
        """50,000 / 10,000 / 10,000: the last 10,000 training images are for validation."""
        pixels, digits = mnist.load()
        part = slice(*mnist.SPLITS[name])
        pixels = pixels[part]
        if self.permutation is not None:
            pixels = pixels[:, np.random.RandomState(self.permutation).permutation(784)]
        return GreyImages(jnp.asarray(pixels), jnp.asarray(digits[part], jnp.int32))

    def with_length(self, length: int) -> SMNIST:
        """An image has the length it has."""
        raise PersistorError(f"an image has 784 pixels, not {length}; leave the length out")


@dataclass(frozen=True)
class PMNIST(SMNIST):
    """Which digit is it? The pixels in one fixed random order (seed 42)."""

    summary: ClassVar[str] = "name the digit, pixels in a random order"
    permutation: ClassVar[int | None] = 42


@dataclass(frozen=True)
class PMNIST24(PMNIST):
    """Which digit is it? The pixels in one fixed random order (seed 24)."""

    permutation: ClassVar[int | None] = 24


@dataclass(frozen=True)
class PMNIST36(PMNIST):
    """Which digit is it? The pixels in one fixed random order (seed 36)."""

    permutation: ClassVar[int | None] = 36


class ColourImages(eqx.Module):
    """Images of three colours a step, kept as bytes, and their classes."""

    pixels: UInt[Array, "n t 3"]
    targets: Int[Array, " n"]

    @property
    def size(self) -> int:
        """The number of examples."""
        return self.pixels.shape[0]

    def at(self, indices: Int[Array, " b"]) -> Batch:
        """Colours in [0, 1]."""
        values = self.pixels[indices].astype(jnp.float32) / 255.0
        return Batch(Dense(values), self.targets[indices])


@dataclass(frozen=True)
class SCIFAR10:
    """What is in the picture? 1,024 pixels of three colours, row by row."""

    summary: ClassVar[str] = "name what a colour picture shows, pixel by pixel"
    inputs: ClassVar[int] = 3
    outputs: ClassVar[int] = 10
    objective: ClassVar[Objective] = Classification()
    pooling: ClassVar[Pooling] = Pooling.MEAN
    steps: ClassVar[int] = 100_000
    state: ClassVar[int] = 32
    blocks: ClassVar[int] = 1
    chance: ClassVar[float] = 0.1
    data: ClassVar[str | None] = "cifar10"
    picture: ClassVar[tuple[int, int]] = (32, 32)
    classes: ClassVar[tuple[str, ...]] = cifar10.NAMES

    def split(self, name: str) -> ColourImages:
        """45,000 / 5,000 / 10,000: the last 5,000 training images are for validation."""
        pixels, classes = cifar10.load()
        part = slice(*cifar10.SPLITS[name])
        return ColourImages(jnp.asarray(pixels[part]), jnp.asarray(classes[part], jnp.int32))

    def with_length(self, length: int) -> SCIFAR10:
        """An image has the length it has."""
        raise PersistorError(f"an image has 1,024 pixels, not {length}; leave the length out")


@dataclass(frozen=True)
class Pathfinder:
    """Does a dashed path connect the two discs? 1,024 pixels, row by row."""

    summary: ClassVar[str] = "does a dashed path connect two discs, pixel by pixel"
    inputs: ClassVar[int] = 1
    outputs: ClassVar[int] = 2
    objective: ClassVar[Objective] = Classification()
    pooling: ClassVar[Pooling] = Pooling.MEAN
    steps: ClassVar[int] = 100_000
    state: ClassVar[int] = 32
    blocks: ClassVar[int] = 3
    chance: ClassVar[float] = 0.5
    data: ClassVar[str | None] = "pathfinder"
    picture: ClassVar[tuple[int, int]] = (32, 32)
    classes: ClassVar[tuple[str, ...]] = ("not connected", "connected")

    def split(self, name: str) -> GreyImages:
        """160,000 / 20,000 / 20,000 pictures."""
        pixels, connected = pathfinder.load(name)
        return GreyImages(jnp.asarray(pixels), jnp.asarray(connected, jnp.int32))

    def with_length(self, length: int) -> Pathfinder:
        """An image has the length it has."""
        raise PersistorError(f"an image has 1,024 pixels, not {length}; leave the length out")
