"""One block of the backbone for PyTorch: a recurrent sub-layer, then a pointwise one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from persistor.torch.cell import Cell
from persistor.torch.cells import BMRU, CMRU, AlphaCMRU
from persistor.torch.layers import MLP, AddPosition, linear

if TYPE_CHECKING:
    from persistor.model.architecture import Architecture

Thresholded = BMRU | CMRU | AlphaCMRU  # cells whose thresholds an input may move
Mean = Callable[[Tensor], Tensor]


class Block(nn.Module):
    """The twin of `persistor.model.Block`, whose docstring has the equations."""

    def __init__(self, cell: Cell, width: int, architecture: Architecture, *, dropout: float = 0.0):
        super().__init__()
        encoding = width if architecture.encoding is None else architecture.encoding
        start, epsilon = architecture.linear, architecture.norm_epsilon
        self.norm = nn.LayerNorm(width, eps=epsilon)
        self.position = AddPosition(width, encoding, scale=architecture.position_scale, start=start)
        self.cell = cell
        self.readout = linear(cell.state_size, width, start=start)
        self.readout_norm = nn.LayerNorm(width, eps=epsilon)
        self.output_gate = linear(width, width, start=start)
        self.skip = nn.Parameter(torch.ones(width))
        self.mlp_norm = nn.LayerNorm(width, eps=epsilon)
        self.mlp = MLP(
            width,
            hidden=architecture.hidden * width,
            gate=architecture.mlp_gate,
            start=start,
            dropout=dropout,
        )
        self.mlp_skip = nn.Parameter(torch.ones(width))
        self.norm_first = architecture.norm == "first"
        self.gate_before = architecture.gate == "before"
        self.loudness = architecture.loudness
        self.keep_still()
        if architecture.readout_bias:
            nn.init.normal_(self.readout.bias, std=architecture.readout_bias)
        if architecture.places:
            _place(self.position, cell, architecture.places)

    def forward(
        self,
        x: Tensor,
        codes: Tensor,
        state: Tensor,
        *,
        lengths: Tensor | None = None,
        only_last: bool = False,
        mean: Mean | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The block's outputs and the cell's last state.

        The outputs are one step with `only_last`, or with `mean`, which is over time.
        """
        normed = self.norm(x) if self.norm_first else x
        u = self.position(normed, codes)
        u = u if self.norm_first else self.norm(u)
        u = u * self.volume(x) if self.loudness else u
        states, last = self.cell.states(u, state, lengths=lengths)
        gated = normed if self.gate_before else u
        if only_last:
            x, u, gated = (_last(a, lengths) for a in (x, u, gated))
            states = last[..., None, :]
        read = self.readout_norm(self.readout(self.cell.read(states, u)))
        read = read * torch.sigmoid(self.output_gate(gated))
        y = self.skip * x + read
        hidden = self.mlp.dropout(self.mlp.hidden(self.mlp_norm(y)))
        if mean is not None:
            y, hidden = mean(y), mean(hidden)
        return self.mlp_skip * y + self.mlp.narrow(hidden), last

    def keep_still(self) -> None:
        """With `loudness`, b_x of a hard gate is zero and stays so: it has no gradient."""
        if self.loudness and isinstance(self.cell, Thresholded):
            bias, d = self.cell.project.bias, self.cell.state_size
            bias.register_hook(lambda slope: torch.cat([torch.zeros_like(slope[:d]), slope[d:]]))

    def volume(self, x: Tensor) -> Tensor:
        """How loud an input is, from 0 to 1: sqrt(v / (v + loudness)), v its variance."""
        variance = x.var(-1, correction=0, keepdim=True)
        share = variance / (variance + self.loudness)
        heard = share > 0
        return torch.where(heard, torch.where(heard, share, 1.0).sqrt(), 0.0)  # no gradient at 0


def _last(x: Tensor, lengths: Tensor | None) -> Tensor:
    """The last step of each sequence, as a sequence of one step."""
    if lengths is None:
        return x[..., -1:, :]
    index = torch.remainder(lengths - 1, x.shape[-2]).long()[..., None, None]
    return torch.gather(x, -2, index.expand(*index.shape[:-1], x.shape[-1]))


@torch.no_grad()
def _place(position: AddPosition, cell: Cell, scale: float) -> None:
    """Start with a threshold that differs from place to place (`persistor.model.placed`)."""
    codes, width = position.positions.shape
    if not codes or not isinstance(cell, Thresholded):
        return
    half, d = width // 2, cell.state_size
    weight = cell.project.weight
    candidates = weight[:d, :half] * (width / half) ** 0.5
    scales = torch.linspace(0.0, scale, d)[:, None]
    weight[: 2 * d] = 0.0
    weight[:d, :half] = candidates
    weight[d : 2 * d, half:] = scales * torch.randn(d, width - half) / (width - half) ** 0.5
    position.positions[:] = 0.0
    position.positions[:, half:] = torch.randn(codes, width - half) * (2 / codes) ** 0.5
