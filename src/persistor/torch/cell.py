"""What all cells for PyTorch share: how a transition becomes a layer, or a stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from persistor._tools.errors import PersistorError
from persistor._tools.options import Option, declared_in
from persistor.torch.layers import check_size
from persistor.torch.transition import Transition, unroll

OPTIONS: dict[str, Option] = {
    option.name: option for option in declared_in(Path(__file__).parents[1] / "cells")
}


class Cell(nn.Module, ABC):
    """A recurrent cell: the twin, in PyTorch, of the cell of that name in `persistor`.

    It maps inputs (.., t, m) to outputs (.., t, d); any leading axes, or none, are welcome. It
    computes in the type of its parameters, in which its states are too, also inside autocast; its
    outputs have the type of its inputs.
    """

    fixed: ClassVar[tuple[str, ...]] = ()  # settings, besides sizes, that a model file has
    project: nn.Linear
    input_size: int
    state_size: int

    def __init__(self, input_size: int, state_size: int):
        super().__init__()
        check_size("the number of inputs", input_size)
        check_size("the number of units", state_size)
        self.input_size = input_size
        self.state_size = state_size

    @abstractmethod
    def gate(self, p: Tensor) -> Transition:
        """The transition, from the projections of an input; elementwise in the units."""

    def read(self, states: Tensor, x: Tensor) -> Tensor:
        """The outputs, from the states and the inputs that led to them: the states themselves."""
        return states

    def disturbed(self, p: Tensor) -> Tensor:
        """The projections in training, as a circuit that is not ideal would have them."""
        return p

    @property
    def dtype(self) -> torch.dtype:
        """The type of the parameters."""
        return self.project.weight.dtype

    @property
    def state_dtype(self) -> torch.dtype:
        """The type of the states."""
        return self.dtype

    def parts(self, p: Tensor) -> tuple[Tensor, ...]:
        """The projections one by one."""
        return p.split(self.state_size, dim=-1)

    def initial_state(self, batch: tuple[int, ...] = ()) -> Tensor:
        """The state before the first step: zeros."""
        weight = self.project.weight
        return torch.zeros((*batch, self.state_size), dtype=self.state_dtype, device=weight.device)

    def states(
        self,
        x: Tensor,
        initial_state: Tensor | None = None,
        *,
        lengths: Tensor | None = None,
        resets: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """All states over a sequence, and the last one, computed in parallel over time."""
        batch, steps = x.shape[:-2], x.shape[-2]
        _check("lengths", lengths, batch)
        _check("resets", resets, (*batch, steps))
        p = self._projections(x)
        p = self.disturbed(p) if self.training else p
        state = self._state(initial_state, batch)
        return unroll(self.gate(p), state, lengths=lengths, resets=resets)

    def forward(
        self,
        x: Tensor,
        initial_state: Tensor | None = None,
        *,
        lengths: Tensor | None = None,
        resets: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Outputs over a whole sequence, and the last state: `(xs, h0) -> (ys, hT)`.

        Feed the last state of one chunk into the next, and the chunks equal the whole. `lengths`
        (..,): steps at or beyond it retain. `resets` (.., t): a step begins from a zero state.
        """
        self._check_inputs(x, 2, "(.., steps, {})")
        states, last = self.states(x, initial_state, lengths=lengths, resets=resets)
        return self.read(states, x).to(x.dtype), last

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step of a stream: the output (.., d) of an input (.., m), and the next state."""
        self._check_inputs(x, 1, "(.., {})")
        transition = self.gate(self._projections(x))
        state = transition(self._state(state, x.shape[:-1]))
        return self.read(state, x).to(x.dtype), state

    def settings(self) -> dict[str, Any]:
        """What a model file says about the cell besides its class."""
        sizes = {"input_size": self.input_size, "state_size": self.state_size}
        return {**sizes, **{name: getattr(self, name) for name in self.fixed}}

    def extra_repr(self) -> str:
        """Sizes and settings."""
        return ", ".join(f"{name}={value}" for name, value in self.settings().items())

    def _projections(self, x: Tensor) -> Tensor:
        """The projections in the type of the parameters; autocast may compute them in another."""
        return self.project(x.to(self.dtype)).to(self.dtype)

    def _state(self, state: Tensor | None, batch: tuple[int, ...]) -> Tensor:
        """A state in the type of this cell's; there must be one for each sequence."""
        if state is None:
            return self.initial_state(batch)
        _check("the state", state, (*batch, self.state_size))
        if state.is_complex() != self.state_dtype.is_complex:
            raise PersistorError(
                f"the state is {state.dtype}; this cell's state is {self.state_dtype}"
            )
        return state.to(self.state_dtype)

    def _check_inputs(self, x: Tensor, axes: int, shape: str) -> None:
        if x.dim() < axes or x.shape[-1] != self.input_size:
            raise PersistorError(
                f"the inputs have shape {tuple(x.shape)}; give {shape.format(self.input_size)}"
            )


class Cumulative(Cell):
    """A cell with an epsilon: a buffer, so that it is no parameter, unless it is learned.

    `cell.epsilon.fill_(0.5)` changes it during training; a compiled model need not be compiled
    again.
    """

    epsilon: Tensor

    def keep_epsilon(self, epsilon: float | tuple[float, ...] | Tensor, *, learn: bool) -> None:
        """Set epsilon: one number, or one per unit. A tensor may have learned to leave [-1, 1]."""
        given = isinstance(epsilon, Tensor)
        values = np.asarray(epsilon.detach().cpu().double() if given else epsilon, float)
        if values.shape not in ((), (self.state_size,)):
            raise PersistorError(
                f"epsilon has shape {values.shape}; give one number or one per unit, "
                f"({self.state_size},)"
            )
        for value in [] if given else values.ravel().tolist():
            OPTIONS["epsilon"].checked(value)
        if hasattr(self, "epsilon"):
            del self.epsilon
        tensor = torch.tensor(values, dtype=self.dtype, device=self.project.weight.device)
        if learn:
            self.epsilon = nn.Parameter(tensor)
        else:
            self.register_buffer("epsilon", tensor)

    def update_decay(self, z: Tensor) -> Tensor:
        """1 - z + epsilon z."""
        return 1.0 - z + self.epsilon * z


def _check(name: str, given: Tensor | None, shape: tuple[int, ...]) -> None:
    if given is not None and given.shape != shape:
        raise PersistorError(f"{name}: the shape is {tuple(given.shape)}, expected {tuple(shape)}")
