"""The whole network for PyTorch: encode, blocks, pool, decode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from persistor._tools.errors import PersistorError
from persistor.torch.block import Block, Mean, Thresholded
from persistor.torch.cell import Cell
from persistor.torch.layers import Residual, check_size, sinusoid
from persistor.torch.transition import inside

if TYPE_CHECKING:  # JAX comes with it, and is imported when a backbone is built
    from persistor.model.architecture import Architecture


class Memory(NamedTuple):
    """Everything a model carries from one chunk of a stream to the next."""

    position: Tensor  # one per sequence if their lengths have differed
    cells: tuple[Tensor, ...]  # the state of each block's cell
    total: Tensor  # sum of the last block's outputs, for mean pooling


class Backbone(nn.Module):
    """The paper's backbone: blocks of cells between a nonlinear encoder and a nonlinear decoder.

    The twin of `persistor.Backbone`, with the same `Architecture`. Its starts (`linear`,
    `position_scale`, `places`, `readout_bias`) are drawn by PyTorch's generator; what it says about
    training (`gate_rate`, `gate_sleep`) is in `parameter_groups` and `rates`.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        cells: Sequence[Cell],
        *,
        width: int = 256,
        architecture: Architecture | None = None,
        pooling: str = "last",
        dropout: float = 0.0,
        preparation: dict[str, Any] | None = None,
    ):
        from persistor.model.architecture import PAPER
        from persistor.nn.pooling import pooling_named

        super().__init__()
        architecture = PAPER if architecture is None else architecture
        _check(inputs, outputs, cells, width, dropout)
        mlp = {"gate": architecture.mlp_gate, "dropout": dropout}
        start, hidden = architecture.linear, architecture.hidden
        self.encoder = Residual(
            inputs, width, bias=architecture.encoder_bias, start=start, hidden=hidden * width, **mlp
        )
        self.blocks = nn.ModuleList(
            Block(cell, width, architecture, dropout=dropout) for cell in cells
        )
        unit = outputs if architecture.decoder_hidden == "output" else width
        self.decoder = Residual(width, outputs, bias=True, start=start, hidden=hidden * unit, **mlp)
        epsilon = architecture.norm_epsilon
        self.encoder_norm = (
            nn.LayerNorm(width, eps=epsilon) if architecture.encoder_norm else nn.Identity()
        )
        self.decoder_norm = (
            nn.LayerNorm(width, eps=epsilon) if architecture.decoder_norm else nn.Identity()
        )
        self.width = width
        self.architecture = architecture
        self.pooling = str(pooling_named(pooling))
        self.dropout = dropout
        self.preparation = preparation

    @property
    def dtype(self) -> torch.dtype:
        """The type of the parameters."""
        return self.decoder.linear.weight.dtype

    def initial_state(self, batch: tuple[int, ...] = ()) -> Memory:
        """The memory before the first step."""
        device = self.decoder.linear.weight.device
        cells = tuple(block.cell.initial_state(batch) for block in self._blocks())
        total = torch.zeros((*batch, self.width), dtype=self.dtype, device=device)
        return Memory(torch.zeros((), dtype=torch.long, device=device), cells, total)

    def forward(
        self, x: Tensor, memory: Memory | None = None, *, lengths: Tensor | None = None
    ) -> tuple[Tensor, Memory]:
        """Predictions of x (.., t, i), one per sequence or per step if not pooled, and the memory.

        Feed the memory into the next call to continue a stream.
        """
        inputs = self.encoder.linear.in_features
        if x.dim() < 2 or x.shape[-1] != inputs:
            raise PersistorError(
                f"the inputs have shape {tuple(x.shape)}; give (.., steps, {inputs})"
            )
        memory = self.initial_state(tuple(x.shape[:-2])) if memory is None else memory
        codes = self._codes(memory.position, x.shape[-2])
        y, states = self._encoded(x.to(self.dtype)), []
        for number, (block, state) in enumerate(zip(self._blocks(), memory.cells, strict=True), 1):
            is_last = number == len(self.blocks)
            mean = _mean_over(lengths) if is_last and self.pooling == "mean" else None
            only_last = is_last and self.pooling == "last"
            y, state = block(y, codes, state, lengths=lengths, only_last=only_last, mean=mean)
            states.append(state)
        pooled, total, position = self._pooled(y, memory, lengths, x.shape[-2])
        outputs = self.decoder(self.decoder_norm(pooled))
        kept = outputs.to(x.dtype) if x.is_floating_point() else outputs
        return kept, Memory(position, tuple(states), total)

    def step(self, x: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """One step of a stream: the prediction as if the sequence ended here, and the memory."""
        y, memory = self(x[..., None, :], memory)
        return (y[..., 0, :] if self.pooling == "none" else y), memory

    def parameter_groups(self) -> list[dict[str, Any]]:
        """All parameters, for an optimiser: the others, and what feeds hard gates (if anything).

        What feeds them is the projection inside BMRU, CMRU and alphaCMRU, the map that adds
        positions before it, and the norm before that.
        """
        hard = [block for block in self._blocks() if isinstance(block.cell, Thresholded)]
        gates = [
            parameter
            for block in hard
            for layer in (block.norm, block.position, block.cell.project)
            for parameter in layer.parameters()
        ]
        known = set(map(id, gates))
        others = [p for p in self.parameters() if id(p) not in known]
        return [{"params": others}, *([{"params": gates}] if gates else [])]

    def rates(self, steps: int) -> list[Callable[[int], float]]:
        """Factors on the learning rate of each group, by step of a run: for `LambdaLR`.

        They are `gate_rate` and `gate_sleep` of the architecture.
        """
        architecture = self.architecture
        asleep = architecture.gate_sleep * steps

        def of_gates(step: int) -> float:
            awake = min(max((step - asleep) / (0.5 * asleep + 1.0), 0.0), 1.0) if asleep else 1.0
            return architecture.gate_rate * awake

        return [lambda step: 1.0, of_gates][: len(self.parameter_groups())]

    def _blocks(self) -> list[Block]:
        return list(self.blocks)  # pyright: ignore[reportReturnType]

    def _encoded(self, x: Tensor) -> Tensor:
        """The code of each step."""
        code = self.encoder(x)
        if self.architecture.empty == "zero":
            code = code - self.encoder.undropped(torch.zeros_like(x[..., :1, :]))
        return self.encoder_norm(code)

    def _codes(self, start: Tensor, length: int) -> Tensor:
        """The positional encoding of some steps from a position."""
        width = self._blocks()[0].position.positions.shape[0]
        if not width:
            return torch.zeros(length, 0, device=start.device)
        if start.dim():
            raise PersistorError(
                "these sequences stopped at different positions, but a model with positions can "
                "only continue from one; leave lengths out, or train with encoding 0"
            )
        positions = torch.arange(length, device=start.device) + start
        return sinusoid(positions, width, self.architecture.base, self.dtype)

    def _pooled(
        self, y: Tensor, memory: Memory, lengths: Tensor | None, length: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What the decoder reads, the running total, and the position after these steps."""
        count = torch.full_like(memory.position, length) if lengths is None else lengths.long()
        position = memory.position + count
        if self.pooling == "last":
            return y[..., -1, :], memory.total, position
        if self.pooling == "none":
            return y, memory.total, position
        total = memory.total + count[..., None] * y[..., 0, :]
        return total / position.clamp(min=1)[..., None], total, position


def _mean_over(lengths: Tensor | None) -> Mean:
    """The mean over time, of the steps that belong to each sequence."""

    def mean(x: Tensor) -> Tensor:
        if lengths is None:
            return x.mean(-2, keepdim=True)
        kept = torch.where(inside(lengths, x.shape[-2])[..., None], x, 0.0)
        return kept.sum(-2, keepdim=True) / lengths.clamp(min=1)[..., None, None]

    return mean


def _check(inputs: int, outputs: int, cells: Sequence[Cell], width: int, dropout: float) -> None:
    """Refuse what no backbone can be built from."""
    for name, value in {"inputs": inputs, "outputs": outputs, "width": width}.items():
        check_size(name, value)
    if not 0 <= dropout < 1:
        raise PersistorError(f"dropout is {dropout:g}; it must lie in [0, 1)")
    if not cells:
        raise PersistorError("a backbone needs a cell for each block; give at least one")
    for cell in cells:
        if not isinstance(cell, Cell):
            raise PersistorError("cells must be cells of persistor.torch, one for each block")
        if cell.input_size != width:
            raise PersistorError(
                f"a cell takes inputs of width {cell.input_size}, but the model's width is {width}"
            )
