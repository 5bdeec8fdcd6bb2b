"""The recurrence for PyTorch, written once: transitions of a state, and a parallel scan over them.

As in `persistor.recurrence`, a cell maps an input to a transition. Time is the last axis but one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from persistor.torch.surrogate import saturate


class Affine(NamedTuple):
    """The map h -> decay * h + drive."""

    decay: Tensor
    drive: Tensor

    def __call__(self, h: Tensor) -> Tensor:
        """Apply to a state."""
        return self.decay * h + self.drive

    def then(self, later: Affine) -> Affine:
        """The composition: first self, then `later`."""
        return Affine(later.decay * self.decay, later(self.drive))

    def keep_where(self, keep: Tensor) -> Affine:
        """The identity where `keep` is false: what padding does to a state."""
        return Affine(torch.where(keep, self.decay, 1.0), torch.where(keep, self.drive, 0.0))

    def reset_where(self, reset: Tensor) -> Affine:
        """Forget the past where `reset` is true."""
        return Affine(torch.where(reset, 0.0, self.decay), self.drive)

    def states(self, initial_state: Tensor) -> Tensor:
        """The states after each of these transitions, in parallel over time."""
        first = self.decay[..., :1, :] * initial_state[..., None, :] + self.drive[..., :1, :]
        if self.drive.shape[-2] == 1:
            return first
        drive = torch.cat([first, self.drive[..., 1:, :]], dim=-2)
        return _AffineStates.apply(self.decay, drive)  # pyright: ignore[reportReturnType]


class Saturating(NamedTuple):
    """The map h -> clip(decay * h + drive, low, high), with a constant decay >= 0.

    Gradients pass a clip as if it were not there.
    """

    decay: Tensor
    drive: Tensor
    low: Tensor
    high: Tensor

    @property
    def affine(self) -> Affine:
        """The map without its ends."""
        return Affine(self.decay, self.drive)

    def __call__(self, h: Tensor) -> Tensor:
        """Apply to a state."""
        return saturate(self.affine(h), self.low, self.high)

    def then(self, later: Saturating) -> Saturating:
        """The composition: first self, then `later`."""
        return Saturating(*self.affine.then(later.affine), later(self.low), later(self.high))

    def keep_where(self, keep: Tensor) -> Saturating:
        """The identity, without ends, where `keep` is false."""
        free = torch.finfo(self.low.dtype).max
        ends = torch.where(keep, self.low, -free), torch.where(keep, self.high, free)
        return Saturating(*self.affine.keep_where(keep), *ends)

    def reset_where(self, reset: Tensor) -> Saturating:
        """Forget the past where `reset` is true."""
        return Saturating(*self.affine.reset_where(reset), self.low, self.high)

    def states(self, initial_state: Tensor) -> Tensor:
        """The states after each of these transitions, in parallel over time."""
        with torch.no_grad():
            ends = scan(self)
        return saturate(self.affine.states(initial_state), ends.low, ends.high)


Transition = Affine | Saturating
T = TypeVar("T", Affine, Saturating)


class _AffineStates(torch.autograd.Function):
    """From decays and drives to states that begin at zero. The gradient is such a scan too.

    With G the gradient of a loss for a state, through all later ones: G_t = g_t + a*_{t+1} G_{t+1}.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(decay: Tensor, drive: Tensor) -> Tensor:
        return scan(Affine(decay, drive)).drive

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        decay, states = ctx.saved_tensors
        later = torch.roll(decay.conj(), -1, dims=-2).flip(-2)  # what wraps around meets a zero
        of_states: Tensor = _AffineStates.apply(later, gradients[0].flip(-2))  # pyright: ignore
        of_states = of_states.flip(-2)
        earlier = torch.cat([torch.zeros_like(states[..., :1, :]), states[..., :-1, :]], dim=-2)
        return of_states * earlier.conj(), of_states


def scan(transitions: T) -> T:
    """Every prefix of a sequence of transitions as one: work O(t), depth O(log t).

    Neighbours are composed in pairs; the prefixes of the pairs are those at odd steps, and one
    more transition after each gives those at even steps.
    """
    length = transitions.drive.shape[-2]
    if length < 2:
        return transitions
    pairs = _steps(transitions, 0, length - 1, 2).then(_steps(transitions, 1, length, 2))
    odd = scan(pairs)
    before = _steps(odd, 0, (length - 1) // 2, 1)
    inner = before.then(_steps(transitions, 2, length, 2))
    even = _each(lambda a, b: torch.cat([a, b], dim=-2), _steps(transitions, 0, 1, 1), inner)
    return _each(_interleaved, even, odd)


def _steps(transitions: T, start: int, stop: int, stride: int) -> T:
    """Some steps of a sequence of transitions."""
    return type(transitions)(*(a[..., start:stop:stride, :] for a in transitions))


def _each(f: Callable[[Tensor, Tensor], Tensor], one: T, other: T) -> T:
    """A function of the arrays of two transitions."""
    return type(one)(*map(f, one, other))


def _interleaved(even: Tensor, odd: Tensor) -> Tensor:
    """The steps 0, 2, .. and 1, 3, .. in order."""
    shared = odd.shape[-2]
    pairs = torch.stack([even[..., :shared, :], odd], dim=-2).flatten(-3, -2)
    return torch.cat([pairs, even[..., shared:, :]], dim=-2)


def inside(lengths: Tensor, length: int) -> Tensor:
    """Which steps belong to their sequence; the others are padding."""
    return torch.arange(length, device=lengths.device) < lengths[..., None]


def unroll(
    transitions: Affine | Saturating,
    initial_state: Tensor,
    *,
    lengths: Tensor | None = None,
    resets: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """All states (.., t, d) and the last one (.., d).

    Steps at or beyond a length retain. Where a reset is true, a step begins from a zero state.
    """
    length = transitions.drive.shape[-2]
    if not length:
        return transitions.drive + initial_state[..., None, :], initial_state
    if resets is not None:
        transitions = transitions.reset_where(resets[..., None])
    if lengths is not None:
        transitions = transitions.keep_where(inside(lengths, length)[..., None])
    states = transitions.states(initial_state)
    return states, states[..., -1, :]
