"""What a task is: data by index, an objective, and what else a reader may want to know of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from persistor._tools.errors import PersistorError
from persistor.arrays import Array, Float, Int, Key
from persistor.data.dataset import SPLITS
from persistor.nn.pooling import Pooling
from persistor.nn.sequence import Sequence


class Batch(eqx.Module):
    """Sequences, their lengths where they differ, and what to predict."""

    inputs: Sequence
    targets: Array
    lengths: Int[Array, " b"] | None = None


@runtime_checkable
class Split(Protocol):
    """One part of a data set: a function from indices to a batch.

    Indices are all the randomness there is: training draws them from (seed, step), so any batch
    can be made again, and a resumed run sees what the interrupted one would have seen.
    A split is also a pytree, so that its arrays are arguments of a compiled step.
    """

    @property
    def size(self) -> int:
        """The number of examples."""
        ...

    def at(self, indices: Int[Array, " b"]) -> Batch:
        """The examples with these indices."""
        ...


class Bucket(NamedTuple):
    """Examples `begin` to `end` of a split, none longer than `length`."""

    begin: int
    end: int
    length: int


@runtime_checkable
class Bucketed(Split, Protocol):
    """A split in the order of its lengths: a batch comes from one bucket, and ends where it does.

    Every example is as likely as any other; those of a batch are of similar length, so that little
    of it is padding.
    """

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        """The buckets, shortest first."""
        ...


@runtime_checkable
class Objective(Protocol):
    """What is minimised in training and reported afterwards, per example."""

    metric: str
    higher_is_better: bool

    @property
    def perfect(self) -> float | None:
        """The value that, held long enough, ends a run."""
        ...

    def loss(self, outputs: Array, targets: Array) -> Float[Array, " b"]:
        """The training loss of each example."""
        ...

    def score(self, outputs: Array, targets: Array) -> Float[Array, " b"]:
        """The metric of each example."""
        ...


class Classification:
    """Cross-entropy; accuracy."""

    metric = "accuracy"
    higher_is_better = True
    perfect = 1.0

    def loss(self, outputs: Float[Array, "b c"], targets: Int[Array, " b"]) -> Float[Array, " b"]:
        """Cross-entropy with the target class."""
        return optax.softmax_cross_entropy_with_integer_labels(outputs, targets)

    def score(self, outputs: Float[Array, "b c"], targets: Int[Array, " b"]) -> Float[Array, " b"]:
        """One where the likeliest class is the target."""
        return (outputs.argmax(-1).astype(targets.dtype) == targets).astype(jnp.float32)


class Regression:
    """Squared error; mean absolute error."""

    metric = "mae"
    higher_is_better = False
    perfect = None

    def loss(
        self, outputs: Float[Array, "b o"], targets: Float[Array, "b o"]
    ) -> Float[Array, " b"]:
        """Squared error."""
        return jnp.square(outputs - targets).mean(-1)

    def score(
        self, outputs: Float[Array, "b o"], targets: Float[Array, "b o"]
    ) -> Float[Array, " b"]:
        """Absolute error."""
        return jnp.abs(outputs - targets).mean(-1)


class NextToken:
    """Cross-entropy of the next token at every step, in nats."""

    metric = "cross_entropy"
    higher_is_better = False
    perfect = None

    def loss(
        self, outputs: Float[Array, "b t c"], targets: Int[Array, "b t"]
    ) -> Float[Array, " b"]:
        """The mean over a sequence."""
        return optax.softmax_cross_entropy_with_integer_labels(outputs, targets).mean(-1)

    def score(
        self, outputs: Float[Array, "b t c"], targets: Int[Array, "b t"]
    ) -> Float[Array, " b"]:
        """The loss itself."""
        return self.loss(outputs, targets)


class Task(ABC):
    """A benchmark. To write one, make a frozen dataclass of it.

    The fields are the options of the task: they, and `name`, describe it in an experiment. All else
    is declared here and set in the body of the class, or is a `computed` member.
    """

    name: ClassVar[str]  # the class's own name unless it sets another
    summary: str
    inputs: int  # features of a step
    outputs: int
    objective: Objective
    pooling: Pooling
    chance: float  # the metric of a blind guess

    data: str | None = None  # the data set it needs, if it does not make its own
    length: int = 0  # steps, where they can be chosen: then a field of the task
    fixed_length: str = "these sequences have a length of their own"  # said where they cannot
    version: str = ""  # of the data, where there are several: then a field of the task
    letters: tuple[str, ...] = ()  # what the inputs stand for, where they are characters
    classes: tuple[str, ...] = ()  # what the outputs stand for, where they have names
    picture: tuple[int, int] | None = None  # height and width, where the steps are pixels

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" not in vars(cls):
            cls.name = cls.__name__

    @abstractmethod
    def split(self, name: str) -> Split:
        """The part called `train`, `valid` or `test`."""

    def with_length(self, length: int) -> Task:
        """The same task with sequences of another length."""
        if not self.length:
            raise PersistorError(f"{self.fixed_length}, not {length}; leave the length out")
        task: Any = self  # a dataclass, which a type cannot say
        return replace(task, length=length)


T = TypeVar("T")


def computed(method: Callable[[Any], T]) -> T:
    """A member of a task that follows from its fields: a property that stands for a plain value."""
    return cast(Any, property(method))


def check_length(length: int) -> None:
    """Refuse sequences without a step."""
    if length < 1:
        raise PersistorError(f"length is {length}; a sequence needs at least 1 step")


def split_key(name: str) -> Key:
    """The key of a split's data: the same for every run, so that seeds share their data."""
    return jax.random.fold_in(jax.random.key(20260), SPLITS.index(name))
