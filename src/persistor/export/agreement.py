"""How far a program agrees with its model: states, outputs, answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from persistor.data.preparation import Answer
from persistor.export.host import Host
from persistor.export.program import Program
from persistor.export.truth import Truth, computed_by, truth
from persistor.export.vectors import tolerance
from persistor.model import Backbone, Pooling

TOGETHER = 64  # sequences that the model computes at a time
STATE_ROUNDING = {"float": 1e-4, "int8": 1e-2}  # of states that are numbers, relative
Score = Callable[[NDArray[np.float32]], float]


@dataclass(frozen=True)
class Examples:
    """Sequences (t, i) from somewhere and, if they have targets, a score of all answers.

    Of a model of sounds also PCM: what the sequences were made of if it was `recorded`, else
    invented sounds.
    """

    source: str
    inputs: list[NDArray[np.float32]]
    score: Score | None = None
    metric: str = ""
    sounds: tuple[NDArray[np.int16], ...] = ()
    recorded: bool = False


@dataclass(frozen=True)
class Agreement:
    """Of a program and the model that it computes, over all sequences.

    `steps` are those before the first tie of their sequence: there, states must be equal.
    """

    sequences: int
    steps: int
    ties: int  # sequences with a decision that rounding might change
    wrong_states: int  # of those steps
    difference: float  # of outputs, at those steps
    tolerance: float
    same: float  # share of the sequences with the model's answer, ties or not
    score: float | None  # of the program
    model_score: float | None  # of the model in float, as it was trained

    @property
    def holds(self) -> bool:
        """Whether states are equal and outputs within rounding."""
        return self.wrong_states == 0 and self.difference <= self.tolerance


def agreement(host: Host, examples: Examples) -> Agreement:
    """Run the program and the model on the same sequences."""
    program, model = host.program, host.program.model
    reference = computed_by(model, program.weights)
    steps = ties = wrong = 0
    difference = allowed = 0.0
    answers, of_model = [], []
    for begin in range(0, len(examples.inputs), TOGETHER):
        chunk = examples.inputs[begin : begin + TOGETHER]
        padded = _padded(chunk)
        found = truth(reference, padded)
        asked = found if program.weights == "float" else truth(model, padded)
        allowed = max(allowed, tolerance(found, program.weights))
        sure = found.sure(program.weights)
        for i, x in enumerate(chunk):
            outputs, states = host.answers(x)
            n = int(sure[i, : len(x)].sum())
            steps, ties = steps + n, ties + (n < len(x))
            wrong += _wrong_states(program, states[:n], found, i)
            apart = np.abs(outputs[:n] - found.outputs[i, :n])
            difference = max(difference, float(apart.max(initial=0.0)))
            answers.append(outputs)
            of_model.append(asked.outputs[i, : len(x)])
    same = np.mean([_same(model, a, b) for a, b in zip(answers, of_model, strict=True)])
    scores = [_score(model, examples, found) for found in (answers, of_model)]
    return Agreement(len(answers), steps, ties, wrong, difference, allowed, float(same), *scores)


def _padded(sequences: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Sequences of any lengths as one array, as long as the longest."""
    longest = max(map(len, sequences))
    return np.stack([np.pad(x, ((0, longest - len(x)), (0, 0))) for x in sequences])


def _wrong_states(program: Program, states: NDArray[np.float64], found: Truth, i: int) -> int:
    """How many steps have a state that is not the model's."""
    wrong, at = np.zeros(len(states), bool), 0
    for code, of_block in zip(program.blocks, found.states, strict=True):
        wanted = of_block[i, : len(states)]
        if np.iscomplexobj(wanted):
            wanted = np.concatenate([np.real(wanted), np.imag(wanted)], axis=-1)
        mine = states[:, at : at + wanted.shape[-1]]
        at += wanted.shape[-1]
        unit = code.cell.unit
        if unit is None:
            near = STATE_ROUNDING[program.weights] * (1 + np.abs(wanted).max(initial=0.0))
            wrong |= (np.abs(mine - wanted) > near).any(-1)
        else:
            counted = np.rint(wanted / np.where(unit == 0, 1.0, unit)[None])
            wrong |= (np.where(unit[None] == 0, 0.0, counted - mine) != 0).any(-1)
    return int(wrong.sum())


def answer_kind(model: Backbone) -> Answer:
    """What the outputs mean: a class, unless the model says otherwise."""
    return "class" if model.preparation is None else model.preparation.answer


def _final(model: Backbone, outputs: NDArray[np.float32]) -> NDArray[np.float32]:
    """What counts of the answers after every step: all if the model predicts at every step."""
    return outputs if model.pooling is Pooling.NONE else outputs[-1:]


def _same(model: Backbone, one: NDArray[np.float32], other: NDArray[np.float32]) -> bool | float:
    """Whether two answers are the same: the class or, of numbers, all within a hundredth."""
    one, other = _final(model, one), _final(model, other)
    if answer_kind(model) == "numbers":
        return bool(np.allclose(one, other, rtol=1e-2, atol=1e-2))
    return float((one.argmax(-1) == other.argmax(-1)).mean())


def _score(model: Backbone, examples: Examples, answers: list[NDArray[np.float32]]) -> float | None:
    if examples.score is None:
        return None
    if model.pooling is Pooling.NONE:
        return examples.score(np.asarray(jnp.asarray(_padded(answers))))
    return examples.score(np.stack([outputs[-1] for outputs in answers]))
