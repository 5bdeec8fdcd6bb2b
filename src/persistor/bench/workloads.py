"""What the benchmark trains: experiments with data of the right shape, and how to step them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from persistor.arrays import Array, Int, UInt
from persistor.experiment import Experiment, ModelSpec, TrainingSpec
from persistor.model import Pooling
from persistor.nn.sequence import Indexed
from persistor.tasks import CopyFirstDiscrete, Task
from persistor.tasks.copy_first import Symbols
from persistor.tasks.task import Batch, Classification
from persistor.training.loop import Trainer


class Pixels(eqx.Module):
    """Random pictures of 256 grey levels, one pixel per step."""

    pixels: UInt[Array, "n t"]
    labels: Int[Array, " n"]

    @property
    def size(self) -> int:
        """The number of pictures."""
        return self.labels.shape[0]

    def at(self, indices: Int[Array, " b"]) -> Batch:
        """Row i is grey level i."""
        rows = jnp.linspace(0.0, 1.0, 256)[:, None]
        return Batch(Indexed(rows, self.pixels[indices].astype(jnp.int32)), self.labels[indices])


@dataclass(frozen=True)
class Pictures(Task):
    """A task in the shape of sequential MNIST, or of Pathfinder with mean pooling."""

    length: int = 784
    pooling: Pooling = Pooling.LAST

    summary = "random pictures"
    inputs = 1
    outputs = 10
    objective = Classification()
    chance = 0.1

    def split(self, name: str) -> Pixels:
        """The same few pictures, whatever the name."""
        one, two = jax.random.split(jax.random.key(0))
        pixels = jax.random.randint(one, (256, self.length), 0, 256, jnp.int32)
        return Pixels(pixels.astype(jnp.uint8), jax.random.randint(two, (256,), 0, 10, jnp.int32))


class Repeated(Symbols):
    """Symbols in batches that do not say which of their sequences are the same."""

    def at(self, indices: Int[Array, " b"]) -> Batch:
        """The same examples, each to be computed by itself."""
        return replace(super().at(indices), distinct=None)


@dataclass(frozen=True)
class CopyFirstRepeated(CopyFirstDiscrete):
    """The same task, with batches that compute a sequence as often as they hold it."""

    def split(self, name: str) -> Repeated:
        """The same examples."""
        return Repeated(super().split(name).symbols, self.length)


def training(task: Task, *, batch: int, state_size: int, blocks: int = 1) -> Trainer:
    """The compiled pieces of training a CMRU model of the paper's width on a task."""
    model = ModelSpec(("cmru",), state_size=state_size, blocks=blocks)
    return Trainer(Experiment(task, model, TrainingSpec(batch=batch)))


class Stepper:
    """Trains for some more steps at each call."""

    def __init__(self, trainer: Trainer, steps: int):
        self.trainer, self.steps, self.checkpoint = trainer, steps, trainer.start()

    def __call__(self) -> None:
        """Advance."""
        self.checkpoint, _ = self.trainer.advance(self.checkpoint, self.steps)


def matmul_flops(jaxpr: Any) -> int:
    """Floating-point operations of all matrix products in a traced function."""
    total = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            left = equation.invars[0].aval.shape
            depth = 1
            for axis in contracted:
                depth *= left[axis]
            total += 2 * depth * equation.outvars[0].aval.size
        times = equation.params.get("length", 1) if equation.primitive.name == "scan" else 1
        inside = [v for v in equation.params.values() if hasattr(v, "eqns") or hasattr(v, "jaxpr")]
        total += times * sum(matmul_flops(getattr(v, "jaxpr", v)) for v in inside)
    return total
