"""Layers of the backbone for PyTorch, with the starts of `persistor.nn`."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from persistor._tools.errors import PersistorError

TRUNCATED = 0.87962566103423978  # deviation of a normal number that is cut at two deviations


def check_size(name: str, value: object) -> None:
    """Refuse a size that is no whole number, or below 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise PersistorError(f"{name} is {value!r}; it must be a whole number, at least 1")


def linear(inputs: int, outputs: int, *, bias: bool = True, start: str = "lecun") -> nn.Linear:
    """A linear map that starts with LeCun normal weights and zero biases, or `uniform` in both."""
    layer = nn.Linear(inputs, outputs, bias=bias)  # uniform within 1 / sqrt(inputs)
    if start == "lecun":
        deviation = inputs**-0.5 / TRUNCATED
        nn.init.trunc_normal_(layer.weight, std=deviation, a=-2 * deviation, b=2 * deviation)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
    return layer


class MLP(nn.Module):
    """MLP(x) = Linear(Dropout(GLU(Linear(x)))): m -> hidden -> (GLU halves) hidden / 2 -> m."""

    def __init__(
        self,
        width: int,
        *,
        hidden: int,
        gate: str = "sigmoid",
        bias: bool = True,
        start: str = "lecun",
        dropout: float = 0.0,
    ):
        super().__init__()
        self.widen = linear(width, hidden, bias=bias, start=start)
        self.narrow = linear(hidden // 2, width, bias=bias, start=start)
        self.dropout = nn.Dropout(dropout)
        self.gate = gate

    def forward(self, x: Tensor) -> Tensor:
        """Apply to the last axis."""
        return self.narrow(self.dropout(self.hidden(x)))

    def hidden(self, x: Tensor) -> Tensor:
        """All before the dropout."""
        one, other = self.widen(x).chunk(2, dim=-1)
        gate = functional.silu(other) if self.gate == "silu" else torch.sigmoid(other)
        return one * gate


class Residual(nn.Module):
    """Encoder and decoder: x + MLP(x), x = Linear."""

    def __init__(self, inputs: int, outputs: int, *, bias: bool, start: str, **mlp: object):
        super().__init__()
        self.linear = linear(inputs, outputs, bias=bias, start=start)
        self.mlp = MLP(outputs, bias=bias, start=start, **mlp)  # pyright: ignore[reportArgumentType]

    def forward(self, x: Tensor) -> Tensor:
        """Apply to the last axis."""
        y = self.linear(x)
        return y + self.mlp(y)

    def undropped(self, x: Tensor) -> Tensor:
        """The same without dropout, also in training."""
        y = self.linear(x)
        return y + self.mlp.narrow(self.mlp.hidden(y))


class AddPosition(nn.Module):
    """Linear([x_t; PE(t)]), back to the width of x_t, as a sum of two linear maps."""

    def __init__(self, width: int, encoding: int, *, scale: float = 1.0, start: str = "lecun"):
        super().__init__()
        both = linear(width + encoding, width, start=start)
        self.values = nn.Linear(width, width)
        self.values.weight = nn.Parameter(both.weight.detach()[:, :width].clone())
        self.values.bias = both.bias
        self.positions = nn.Parameter(scale * both.weight.detach()[:, width:].T.clone())

    def forward(self, x: Tensor, codes: Tensor) -> Tensor:
        """x (.., t, m) with the codes (t, w) mixed in."""
        y = self.values(x)
        return y + codes.to(self.positions.dtype) @ self.positions if codes.shape[-1] else y


def sinusoid(positions: Tensor, width: int, base: float, dtype: torch.dtype) -> Tensor:
    """PE(t): sines then cosines of t * base^(-2 i / width), for i = 0 .. width / 2 - 1."""
    wide = torch.promote_types(dtype, torch.float32)
    exponents = torch.arange(0, width, 2, dtype=wide, device=positions.device) / width
    angles = positions.to(wide)[:, None] * torch.exp(-math.log(base) * exponents)
    return torch.cat([torch.sin(angles), torch.cos(angles)], dim=-1)
