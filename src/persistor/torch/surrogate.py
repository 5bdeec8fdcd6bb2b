"""Heaviside, sign and saturation for PyTorch, with the surrogate gradients of `recurrence`.

dH(x)/dx is 1 / (1 + (pi x)^2), dS(x)/dx twice that, and H(0) = S(0) = 1. Saturation is
differentiated as if it were not there.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


class _Heaviside(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return (x >= 0).to(x.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return gradients[0] / (1.0 + (math.pi * x).square())


class _Saturate(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
        return torch.clamp(x, low, high)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return gradients[0], None, None


def heaviside(x: Tensor) -> Tensor:
    """H(x): 1 where x >= 0, else 0; differentiated as 1 / (1 + (pi x)^2)."""
    return _Heaviside.apply(x)  # pyright: ignore[reportReturnType]


def sign(x: Tensor) -> Tensor:
    """S(x) = 2 H(x) - 1: never zero."""
    return 2.0 * heaviside(x) - 1.0


def saturate(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """x, held between low and high; differentiated as if it were x."""
    return _Saturate.apply(x, low, high)  # pyright: ignore[reportReturnType]
