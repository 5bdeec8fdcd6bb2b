"""What a task is: data by index, an objective, and other facts about it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
import optax

from persistor._tools.errors import PersistorError
from persistor.arrays import Array, Float, Int, Key
from persistor.data.dataset import split_number
from persistor.data.preparation import Answer, Preparation
from persistor.nn.draws import first_key, fold_in, native
from persistor.nn.pooling import Pooling
from persistor.nn.sequence import Sequence as Steps


class Distinct(eqx.Module):
    """The few sequences, all of one length, that a batch repeats; example i is `which[i]` of them.

    They are the same for every batch of a split.
    """

    inputs: Steps
    which: Int[Array, " b"]


class Batch(eqx.Module):
    """Sequences, their lengths where they differ, and what to predict.

    If a task has few different sequences, `distinct` lets a model compute each of them once.
    """

    inputs: Steps
    targets: Array
    lengths: Int[Array, " b"] | None = None
    distinct: Distinct | None = None


@runtime_checkable
class Split(Protocol):
    """One part of a data set: a function from indices to a batch.

    Only the indices are random. Training draws them from (seed, step), so any batch can be made
    again, and a resumed run sees the batches that the interrupted one would have seen. A split is
    also a pytree, so that its arrays are arguments of a compiled step.
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
    """A split sorted by length. A batch comes from one bucket and is as long as that bucket.

    Every example is equally likely. The examples of a batch have similar lengths, so that little of
    it is padding.
    """

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        """The buckets, shortest first."""
        ...


class Origins(NamedTuple):
    """Where the examples of a split come from, as far as a task knows; one entry for each."""

    names: Sequence[str] = ()  # such as files
    groups: Sequence[str] = ()  # such as speakers
    seconds: Sequence[float] = ()  # of sounds, before they were cut or padded

    def of(self, chosen: Iterable[int]) -> Origins:
        """Those of some examples."""
        parts: Any = ([part[i] for i in chosen] if len(part) else () for part in self)
        return Origins(*parts)


@runtime_checkable
class Objective(Protocol):
    """What is minimised in training and reported afterwards, per example."""

    metric: str
    higher_is_better: bool

    @property
    def perfect(self) -> float | None:
        """The value that ends a run if it holds long enough; None if there is none."""
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


class StepClassification:
    """Cross-entropy and accuracy at every step; a step whose target is negative does not count."""

    metric = "accuracy"
    higher_is_better = True
    perfect = 1.0

    def loss(
        self, outputs: Float[Array, "b t c"], targets: Int[Array, "b t"]
    ) -> Float[Array, " b"]:
        """The mean over the steps of a sequence."""
        known = jnp.maximum(targets, 0)
        losses = optax.softmax_cross_entropy_with_integer_labels(outputs, known)
        return _mean_of_labelled(losses, targets)

    def score(
        self, outputs: Float[Array, "b t c"], targets: Int[Array, "b t"]
    ) -> Float[Array, " b"]:
        """The share of steps whose likeliest class is the target."""
        right = outputs.argmax(-1).astype(targets.dtype) == targets
        return _mean_of_labelled(right.astype(jnp.float32), targets)


def _mean_of_labelled(
    values: Float[Array, "b t"], targets: Int[Array, "b t"]
) -> Float[Array, " b"]:
    labelled = (targets >= 0).astype(values.dtype)
    return (values * labelled).sum(-1) / jnp.maximum(labelled.sum(-1), 1)


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
    """A benchmark. To write one, subclass it as a frozen dataclass.

    The fields are the options of the task; with `name`, they describe it in an experiment. Other
    members are declared here and set in the class body, or `computed`.
    """

    name: ClassVar[str]  # the name of the class unless it sets another
    summary: str
    inputs: int  # features of a step
    outputs: int
    objective: Objective
    pooling: Pooling
    chance: float  # the metric of a blind guess

    variant_of: str | None = None  # the paper's task that it is a variant of, if it is one
    data: str | None = None  # the data set it needs, unless it generates its data
    length: int = 0  # steps, if they can be chosen: then a field of the task
    fixed_length: str = "these sequences have a fixed length"  # the error if they cannot
    examples: int = 0  # for training, if the usual number of steps depends on it
    version: str = ""  # of the data, if there are several: then a field of the task
    letters: tuple[str, ...] = ()  # the characters that the inputs mean, if they are characters
    classes: tuple[str, ...] = ()  # the names of the outputs, if they have names
    picture: tuple[int, int] | None = None  # height and width, if the steps are pixels
    hints: tuple[str, ...] = ()  # fields that an experiment keeps, but that do not make it another

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" not in vars(cls):
            cls.name = cls.__name__

    @abstractmethod
    def split(self, name: str) -> Split:
        """The part called `train`, `valid` or `test`."""

    def origins(self, name: str) -> Origins:
        """What is known of the examples of a split, in their order."""
        return Origins()

    def to_json(self) -> dict[str, Any]:
        """The fields, as an experiment keeps them."""
        task: Any = self  # a dataclass; the type system cannot express this
        return asdict(task)

    def preparation(self) -> Preparation:
        """How one input becomes what a model reads, and what its outputs mean.

        By what the task declares: letters, a picture, or else arrays as they are.
        """
        height, width = self.picture or (0, 0)
        return Preparation(
            kind="text" if self.letters else "pixels" if self.picture else "arrays",
            answer=_answer(self.objective),
            classes=self.classes,
            inputs=self.inputs,
            height=height,
            width=width,
            letters=self.letters,
            longest=self.length if self.letters else 0,
        )

    def with_data(self, path: Path) -> Task:
        """The same task on data that have moved to another place."""
        raise PersistorError(f"{self.name} has its own data, not those in {path}; leave --data out")

    def with_length(self, length: int) -> Task:
        """The same task with sequences of another length."""
        if not self.length:
            raise PersistorError(f"{self.fixed_length}, not {length}; leave the length out")
        check_length(length)
        task: Any = self  # a dataclass; the type system cannot express this
        return replace(task, length=length)


def _answer(objective: Objective) -> Answer:
    """What the outputs of a model mean; those of an objective of your own are numbers."""
    if isinstance(objective, Classification):
        return "class"
    if isinstance(objective, StepClassification):
        return "steps"
    return "next" if isinstance(objective, NextToken) else "numbers"


T = TypeVar("T")


def computed(method: Callable[[Any], T]) -> T:
    """A member of a task that follows from its fields: a property, typed as a plain value."""
    return cast(Any, property(method))


def check_length(length: int) -> None:
    """Raise if sequences have no step."""
    if isinstance(length, bool) or not isinstance(length, int) or length < 1:
        raise PersistorError(f"length is {length}; a sequence needs at least 1 step")


def split_key(name: str) -> Key:
    """The key of a split's data. It is the same for every run, so that all seeds share the data."""
    return native(fold_in(first_key(20260), split_number(name)))
