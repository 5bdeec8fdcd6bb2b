"""The cells for PyTorch, each with the equations of its twin in `persistor.cells`."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from persistor.torch.cell import OPTIONS, Cell, Cumulative
from persistor.torch.layers import linear
from persistor.torch.surrogate import heaviside, sign
from persistor.torch.transition import Affine, Saturating

Epsilon = float | tuple[float, ...] | Tensor


def _projection(
    input_size: int, state_size: int, parts: int, hold: float, gain: float, thresholds: str
) -> nn.Linear:
    """Candidate, threshold and what else a cell has, with the start options of these cells."""
    project = linear(input_size, parts * state_size)
    of_threshold = slice(state_size, 2 * state_size)
    with torch.no_grad():
        project.bias[of_threshold] = float(OPTIONS["hold"].checked(hold))
        project.weight[:state_size] *= float(OPTIONS["gain"].checked(gain))
        if OPTIONS["thresholds"].checked(thresholds) == "constant":
            project.weight[of_threshold] = 0.0
    return project


def _update_gate(candidate: Tensor, threshold: Tensor) -> Tensor:
    """z = H(|candidate| - |threshold|): 1 updates, 0 retains."""
    return heaviside(candidate.abs() - threshold.abs())


class BMRU(Cell):
    """The bistable memory recurrent unit: a state of two values, +alpha or -alpha."""

    def __init__(
        self,
        input_size: int,
        state_size: int,
        *,
        hold: float = 0.0,
        gain: float = 1.0,
        thresholds: str = "inputs",
    ):
        super().__init__(input_size, state_size)
        self.project = _projection(input_size, state_size, 2, hold, gain, thresholds)
        self.scale = nn.Parameter(torch.ones(state_size))

    def gate(self, p: Tensor) -> Affine:
        """Retain (decay 1, drive 0) or replace (decay 0, drive +-alpha)."""
        candidate, threshold = self.parts(p)
        z = _update_gate(candidate, threshold)
        return Affine(1.0 - z, z * sign(candidate) * self.scale)


class CMRU(Cumulative):
    """The cumulative memory recurrent unit: an update keeps a fraction epsilon of the state."""

    def __init__(
        self,
        input_size: int,
        state_size: int,
        *,
        epsilon: Epsilon = 1.0,
        learn_epsilon: bool = False,
        hold: float = 0.0,
        gain: float = 1.0,
        thresholds: str = "inputs",
    ):
        super().__init__(input_size, state_size)
        self.project = _projection(input_size, state_size, 2, hold, gain, thresholds)
        self.scale = nn.Parameter(torch.ones(state_size))
        self.keep_epsilon(_by_unit(epsilon, state_size, learn_epsilon), learn=learn_epsilon)

    def gate(self, p: Tensor) -> Affine:
        """Retain (decay 1, drive 0) or accumulate (decay epsilon, drive +-alpha)."""
        candidate, threshold = self.parts(p)
        z = _update_gate(candidate, threshold)
        return Affine(self.update_decay(z), z * sign(candidate) * self.scale)


class AlphaCMRU(Cumulative):
    """A CMRU whose scale alpha is a linear map of the input."""

    def __init__(
        self,
        input_size: int,
        state_size: int,
        *,
        epsilon: Epsilon = 1.0,
        learn_epsilon: bool = False,
        hold: float = 0.0,
        gain: float = 1.0,
        thresholds: str = "inputs",
        scales: str = "inputs",
    ):
        super().__init__(input_size, state_size)
        self.project = _projection(input_size, state_size, 3, hold, gain, thresholds)
        if OPTIONS["scales"].checked(scales) == "one":
            with torch.no_grad():
                self.project.weight[2 * state_size :] = 0.0
                self.project.bias[2 * state_size :] = 1.0
        self.keep_epsilon(_by_unit(epsilon, state_size, learn_epsilon), learn=learn_epsilon)

    def gate(self, p: Tensor) -> Affine:
        """Retain (decay 1, drive 0) or accumulate (decay epsilon, drive +-alpha_t)."""
        candidate, threshold, scale = self.parts(p)
        z = _update_gate(candidate, threshold)
        return Affine(self.update_decay(z), z * sign(candidate) * scale)


class LRU(Cell):
    """The linear recurrent unit: complex states, always decaying."""

    def __init__(self, input_size: int, state_size: int):
        super().__init__(input_size, state_size)
        square = torch.empty(state_size).uniform_(0.9**2, 0.999**2)
        self.nu = nn.Parameter(torch.log(-0.5 * torch.log(square)))
        self.theta = nn.Parameter(torch.empty(state_size).uniform_(1e-6, 2 * math.pi).log())
        self.project = linear(input_size, 2 * state_size, bias=False)
        with torch.no_grad():
            self.project.weight /= 2**0.5
        spread = (2 * state_size) ** -0.5
        self.mix_real = nn.Parameter(spread * torch.randn(state_size, state_size))
        self.mix_imaginary = nn.Parameter(spread * torch.randn(state_size, state_size))
        self.skip = linear(input_size, state_size, bias=False)

    @property
    def state_dtype(self) -> torch.dtype:
        """Complex numbers of the parameters' precision, at least single."""
        return torch.complex128 if self.dtype == torch.float64 else torch.complex64

    def gate(self, p: Tensor) -> Affine:
        """A constant decay; the drive is the normalised projection of the input."""
        real, imaginary = self.parts(_wide(p))
        rate = torch.exp(_wide(self.nu))
        decay = torch.exp(torch.complex(-rate, torch.exp(_wide(self.theta))))
        gamma = torch.sqrt(-torch.expm1(-2 * rate))
        drive = torch.complex(gamma * real, gamma * imaginary)
        return Affine(decay.expand(drive.shape), drive)

    def read(self, states: Tensor, x: Tensor) -> Tensor:
        """Re(C h) + D x."""
        mixed = states.real @ _wide(self.mix_real) - states.imag @ _wide(self.mix_imaginary)
        return mixed.to(self.dtype) + self.skip(x.to(self.dtype))


class MinGRU(Cell):
    """The minimal gated recurrent unit."""

    def __init__(self, input_size: int, state_size: int, *, longest: float = 0.0):
        super().__init__(input_size, state_size)
        self.project = linear(input_size, 2 * state_size)
        if OPTIONS["longest"].checked(longest):
            with torch.no_grad():
                spread = torch.rand(state_size)
                self.project.bias[:state_size] = -spread * math.log(max(longest, 1))

    def gate(self, p: Tensor) -> Affine:
        """A soft mix: never quite retaining, never quite replacing."""
        gate, candidate = self.parts(p)
        z = torch.sigmoid(gate)
        return Affine(1.0 - z, z * candidate)


class _Analog(Cell):
    """A fixed threshold, and in training what disturbs it in a circuit (`cells.analog`)."""

    fixed: ClassVar[tuple[str, ...]] = ("mismatch", "noise")

    def __init__(
        self, input_size: int, state_size: int, *, mismatch: float = 0.0, noise: float = 0.0
    ):
        super().__init__(input_size, state_size)
        self.project = linear(input_size, state_size)
        self.threshold = nn.Parameter(torch.ones(state_size))
        self.scale = nn.Parameter(torch.ones(state_size))
        self.mismatch = float(OPTIONS["mismatch"].checked(mismatch))
        self.noise = float(OPTIONS["noise"].checked(noise))

    def updates(self, candidates: Tensor) -> Tensor:
        """z = H(|candidate| - |beta|): 1 updates, 0 retains."""
        return _update_gate(candidates, self.threshold.expand(candidates.shape))

    def disturbed(self, p: Tensor) -> Tensor:
        """The candidates as they reach the thresholds of a chip drawn anew."""
        beta = self.threshold.abs()
        if self.mismatch:
            p = p + self.mismatch * beta * torch.randn_like(beta)
        if self.noise:
            p = p + self.noise * beta * torch.randn_like(p)
        return p


class PositiveCMRU(_Analog, Cumulative):
    """A CMRU with a fixed threshold, and states that are never negative at epsilon 0."""

    def __init__(
        self,
        input_size: int,
        state_size: int,
        *,
        epsilon: Epsilon = 1.0,
        learn_epsilon: bool = False,
        mismatch: float = 0.0,
        noise: float = 0.0,
    ):
        super().__init__(input_size, state_size, mismatch=mismatch, noise=noise)
        self.keep_epsilon(_by_unit(epsilon, state_size, learn_epsilon), learn=learn_epsilon)

    def gate(self, p: Tensor) -> Affine:
        """Retain (decay 1, drive 0), or go towards alpha or 0."""
        z = self.updates(p)
        target = heaviside(p) - self.epsilon / 2
        return Affine(self.update_decay(z), z * target * self.scale)


class Ladder(_Analog):
    """A positive CMRU of N levels: each update climbs or descends by one, and stops at the ends."""

    fixed: ClassVar[tuple[str, ...]] = ("mismatch", "noise", "levels")

    def __init__(
        self,
        input_size: int,
        state_size: int,
        *,
        levels: int = 4,
        mismatch: float = 0.0,
        noise: float = 0.0,
    ):
        super().__init__(input_size, state_size, mismatch=mismatch, noise=noise)
        self.levels = int(OPTIONS["levels"].checked(levels))

    def gate(self, p: Tensor) -> Saturating:
        """Retain (drive 0, no bounds), or a level up or down between 0 and N."""
        z = self.updates(p)
        free = torch.full_like(z, torch.finfo(z.dtype).max)
        low = torch.where(z > 0, 0.0, -free)
        high = torch.where(z > 0, float(self.levels), free)
        return Saturating(torch.ones_like(z), z * sign(p), low, high)

    def read(self, states: Tensor, x: Tensor) -> Tensor:
        """The level times alpha."""
        return self.scale * states


CELLS: dict[str, type[Cell]] = {
    "bmru": BMRU,
    "cmru": CMRU,
    "alpha-cmru": AlphaCMRU,
    "lru": LRU,
    "mingru": MinGRU,
    "positive-cmru": PositiveCMRU,
    "ladder": Ladder,
}


def _by_unit(epsilon: Epsilon, state_size: int, learn: bool) -> Epsilon:
    """An epsilon that is learned is one per unit, wherever they start."""
    alone = isinstance(epsilon, float | int)
    return (float(epsilon),) * state_size if learn and alone else epsilon


def _wide(x: Tensor) -> Tensor:
    """In single precision or more: there are no complex numbers of less."""
    return x if x.dtype == torch.float64 else x.float()
