"""Answers about new inputs, from a model that knows how to read them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor.data.preparation import Answer, Example, Preparation
from persistor.nn.layers import check_size
from persistor.nn.sequence import Dense

TOGETHER = 16  # sequences in a batch, if there are several
SHORTEST = 16  # steps that a batch is padded to, at least


@dataclass(frozen=True)
class Prediction:
    """What a model says about one input.

    `values` are probabilities of the classes (c,), or of each step (t, c), or numbers (o,).
    """

    name: str
    values: NDArray[np.float32]
    answer: Answer
    classes: tuple[str, ...] = ()

    @property
    def best(self) -> str | list[str] | list[float]:
        """The likeliest class, the likeliest class of every step, or the numbers."""
        if self.answer == "numbers":
            return self.values.tolist()
        if self.answer == "steps":
            return [self.classes[i] for i in self.values.argmax(-1)]
        return self.classes[int(self.values.argmax())]

    def top(self, count: int = 3) -> list[tuple[str, float]]:
        """The likeliest classes with their probabilities, likeliest first."""
        if self.answer in ("numbers", "steps"):
            raise PersistorError(f"{self.name} has no likeliest class, but {self.answer}")
        check_size("count", count)
        order = np.argsort(-self.values, kind="stable")[:count]
        return [(self.classes[i], float(self.values[i])) for i in order]

    def to_json(self, count: int = 3) -> dict[str, Any]:
        """As plain values."""
        if self.answer in ("numbers", "steps"):
            return {"input": self.name, self.answer: self.best}
        return {"input": self.name, "class": self.best, "top": dict(self.top(count))}


def preparation_of(model: Any) -> Preparation:
    """How a backbone reads inputs; an error if it does not say."""
    if model.preparation is None:
        raise PersistorError(
            "this model does not say how to read inputs: call it with arrays or, if it is a run "
            "of an earlier version, `persistor evaluate RUN` adds what is missing, from its data"
        )
    return model.preparation


def predictions(model: Any, examples: Iterable[Example]) -> Iterator[Prediction]:
    """A backbone's answers, in order; some are computed together."""
    preparation = preparation_of(model)
    classes = preparation.names(model.decoder.linear.weight.shape[1])
    waiting, size = iter(examples), 0
    while batch := list(itertools.islice(waiting, TOGETHER)):
        size = size or (1 if len(batch) == 1 else TOGETHER)  # one program for all batches
        for example, values in zip(batch, _values(model, batch, size), strict=True):
            yield Prediction(example.name, values, preparation.answer, classes)


def _values(model: Any, batch: list[Example], size: int) -> list[NDArray[np.float32]]:
    """The outputs for a batch, as probabilities unless they are numbers."""
    answer, lengths = model.preparation.answer, [len(example.x) for example in batch]
    longest = max(SHORTEST, 1 << (max(lengths) - 1).bit_length())
    same = len(set(lengths)) == 1
    x = np.zeros((size, lengths[0] if same else longest, batch[0].x.shape[1]), np.float32)
    for row, example in zip(x, batch, strict=False):
        row[: len(example.x)] = example.x
    ends = None if same else jnp.asarray([*lengths, *[1] * (size - len(batch))], jnp.int32)
    outputs = np.asarray(_outputs(model, jnp.asarray(x), ends, answer != "numbers"))
    found = list(outputs[: len(batch)])
    if answer == "next":
        return [values[n - 1] for values, n in zip(found, lengths, strict=True)]
    return [v[:n] if answer == "steps" else v for v, n in zip(found, lengths, strict=True)]


@eqx.filter_jit
def _outputs(model: Any, x: Any, lengths: Any, probabilities: bool) -> Any:
    outputs = model.answer(Dense(x), lengths=lengths)[0]
    return jax.nn.softmax(outputs) if probabilities else outputs


def examples_of(model: Any, inputs: Any) -> Iterator[Example]:
    """The sequences in files (paths or text of paths) and arrays; a list holds several."""
    preparation = preparation_of(model)
    for given in inputs if isinstance(inputs, list | tuple) else [inputs]:
        if isinstance(given, str | Path):
            yield from preparation.read(Path(given))
        else:
            yield preparation.given(given)
