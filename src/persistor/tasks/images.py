"""Images read pixel by pixel (appendix "Sequential Image Classification Tasks")."""

from __future__ import annotations

from dataclasses import dataclass, replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from persistor.arrays import Array, Float, Int, UInt
from persistor.data import cifar10, mnist, pathfinder
from persistor.data.preparation import Preparation
from persistor.nn.pooling import Pooling
from persistor.nn.sequence import Dense, Indexed
from persistor.tasks.task import Batch, Classification, Task


class GreyImages(eqx.Module):
    """Images of one grey level per step, kept as bytes, and their classes."""

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


class PixelsOfDigits(Task):
    """Which digit is it? 784 pixels, in an order that a subclass decides."""

    inputs = 1
    outputs = 10
    objective = Classification()
    pooling = Pooling.LAST
    chance = 0.1
    source = mnist.MNIST
    data = source.name
    fixed_length = "an image has 784 pixels"
    picture = (28, 28)

    permutation: int | None  # the seed of the pixels' order; None for row by row

    def preparation(self) -> Preparation:
        """A picture, and the order of its pixels."""
        return replace(super().preparation(), order=tuple(map(int, self._order())))

    def _order(self) -> NDArray[np.int64] | tuple[()]:
        """The pixels in the order in which they are read; nothing if row by row."""
        if self.permutation is None:
            return ()
        return np.random.RandomState(self.permutation).permutation(784)

    def split(self, name: str) -> GreyImages:
        """50,000 / 10,000 / 10,000: the last 10,000 training images are for validation."""
        pixels, digits = mnist.load(self.source)
        chosen = self.source.slice(name)
        pixels = pixels[chosen]
        if self.permutation is not None:
            pixels = pixels[:, self._order()]
        return GreyImages(jnp.asarray(pixels), jnp.asarray(digits[chosen], jnp.int32))


@dataclass(frozen=True)
class SMNIST(PixelsOfDigits):
    """Which digit is it? 784 pixels, row by row; the answer after the last one."""

    name = "smnist"
    summary = "name the digit, pixel by pixel"
    permutation = None


@dataclass(frozen=True)
class PMNIST(PixelsOfDigits):
    """Which digit is it? The pixels in one fixed random order (seed 42)."""

    name = "pmnist"
    summary = "name the digit, pixels in a random order"
    permutation = 42


@dataclass(frozen=True)
class PMNIST24(PixelsOfDigits):
    """Which digit is it? The pixels in one fixed random order (seed 24)."""

    name = "pmnist-24"
    summary = "name the digit, pixels in a random order"
    permutation = 24


@dataclass(frozen=True)
class PMNIST36(PixelsOfDigits):
    """Which digit is it? The pixels in one fixed random order (seed 36)."""

    name = "pmnist-36"
    summary = "name the digit, pixels in a random order"
    permutation = 36


class ColourImages(eqx.Module):
    """Images of three colours per step, kept as bytes, and their classes."""

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
class SCIFAR10(Task):
    """What is in the picture? 1,024 pixels of three colours, row by row."""

    name = "scifar10"
    summary = "name what a colour picture shows, pixel by pixel"
    inputs = 3
    outputs = 10
    objective = Classification()
    pooling = Pooling.MEAN
    chance = 0.1
    source = cifar10.CIFAR10
    data = source.name
    fixed_length = "an image has 1,024 pixels"
    picture = (32, 32)
    classes = cifar10.NAMES

    def split(self, name: str) -> ColourImages:
        """45,000 / 5,000 / 10,000: the last 5,000 training images are for validation."""
        pixels, classes = cifar10.load(self.source)
        chosen = self.source.slice(name)
        return ColourImages(jnp.asarray(pixels[chosen]), jnp.asarray(classes[chosen], jnp.int32))


@dataclass(frozen=True)
class Pathfinder(Task):
    """Does a dashed path connect the two discs? 1,024 pixels, row by row."""

    name = "pathfinder"
    summary = "does a dashed path connect two discs, pixel by pixel"
    inputs = 1
    outputs = 2
    objective = Classification()
    pooling = Pooling.MEAN
    chance = 0.5
    source = pathfinder.PATHFINDER
    data = source.name
    fixed_length = "an image has 1,024 pixels"
    picture = (32, 32)
    classes = ("not connected", "connected")

    def split(self, name: str) -> GreyImages:
        """160,000 / 20,000 / 20,000 pictures."""
        pixels, connected = pathfinder.load(name, self.source)
        return GreyImages(jnp.asarray(pixels), jnp.asarray(connected, jnp.int32))
