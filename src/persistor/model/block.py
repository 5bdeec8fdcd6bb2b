"""One block of the backbone: a recurrent sub-layer, then a pointwise one."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from persistor.arrays import Array, Float, Inexact, Int, Key
from persistor.cells import Cell
from persistor.model.architecture import PAPER, Architecture
from persistor.model.placed import placed
from persistor.nn.draws import fold_in, normal, ones, split, times
from persistor.nn.layers import MLP, LayerNorm, Linear, over
from persistor.nn.pooling import Mean
from persistor.nn.positions import AddPosition, Encoding
from persistor.nn.sequence import Dense, Sequence

DISTURBANCE = 1  # parts a block's key for the cell from those of its dropout


class Block(eqx.Module):
    """Appendix "Cell Output and Integration" and "MLP and Normalization Layers".

    u = Norm(Linear([x; PE])),  y = v1 x + Norm(Linear(Cell(u))) sigmoid(Linear(u))
    out = v2 y + MLP(Norm(y)),  with v1 and v2 learned vectors that start at one.

    An architecture may set the norm first, u = Linear([Norm(x); PE]), the gate reading Norm(x).
    """

    norm: LayerNorm
    position: AddPosition
    cell: Cell
    readout: Linear
    readout_norm: LayerNorm
    output_gate: Linear
    skip: Float[Array, " m"]
    mlp_norm: LayerNorm
    mlp: MLP
    mlp_skip: Float[Array, " m"]
    norm_first: bool = eqx.field(static=True)
    gate_before: bool = eqx.field(static=True)
    loudness: float = eqx.field(static=True)

    def __init__(
        self,
        cell: Cell,
        width: int,
        architecture: Architecture = PAPER,
        *,
        dropout: float = 0.0,
        key: Key,
    ):
        position, readout, gate, mlp = split(key, 4)
        encoding = width if architecture.encoding is None else architecture.encoding
        scale, epsilon = architecture.position_scale, architecture.norm_epsilon
        self.norm = LayerNorm(width, epsilon)
        start = architecture.linear
        added = AddPosition(width, encoding, scale=scale, start=start, key=position)
        self.position, self.cell = placed(added, cell, architecture.places, key=position)
        self.readout = _readout(cell.state_size, width, architecture, key=readout)
        self.readout_norm = LayerNorm(width, epsilon)
        self.output_gate = Linear(width, width, start=start, key=gate)
        self.skip = ones(width)
        self.mlp_norm = LayerNorm(width, epsilon)
        self.mlp = MLP(
            width,
            hidden=architecture.hidden * width,
            gate=architecture.mlp_gate,
            start=start,
            dropout=dropout,
            key=mlp,
        )
        self.mlp_skip = ones(width)
        self.norm_first = architecture.norm == "first"
        self.gate_before = architecture.gate == "before"
        self.loudness = architecture.loudness

    def cell_inputs(self, xs: Sequence, encoding: Encoding) -> Sequence:
        """What the cell receives: the input and its position, mixed, and normalised."""
        if self.norm_first:
            us = self.position(xs.normalise(self.norm), encoding)
            return us.scaled(xs.map(self.volume)) if self.loudness else us
        return self.position(xs, encoding).normalise(self.norm)

    def volume(self, x: Float[Array, "*s m"]) -> Float[Array, "*s 1"]:
        """How loud an input is, from 0 to 1: sqrt(v / (v + loudness)), v its variance."""
        variance = x.var(-1, keepdims=True)
        share = variance / (variance + self.loudness)
        heard = share > 0.0
        return jnp.where(heard, jnp.sqrt(jnp.where(heard, share, 1.0)), 0.0)  # no gradient at 0

    def __call__(
        self,
        xs: Sequence,
        encoding: Encoding,
        initial_state: Inexact[Array, "*b d"] | None,
        *,
        lengths: Int[Array, "*b"] | None = None,
        only_last: bool = False,
        mean: Mean | None = None,
        key: Key | None = None,
    ) -> tuple[Dense, Inexact[Array, "*b d"]]:
        """The block's outputs and the cell's last state.

        The outputs are only one step with `only_last` (the last) or with `mean` (the mean over
        time, which is taken before the MLP's last linear map).
        """
        us = self.cell_inputs(xs, encoding)
        states, last = self.cell.states(
            us,
            initial_state,
            lengths=lengths,
            every=not only_last,
            key=None if key is None else jax.random.fold_in(key, DISTURBANCE),
        )
        if only_last:
            xs, us = xs.last(lengths), us.last(lengths)
        return self.read(xs, us, states, mean=mean, key=key), last

    def read(
        self,
        xs: Sequence,
        us: Sequence,
        states: Inexact[Array, "*b t d"],
        *,
        mean: Mean | None = None,
        key: Key | None = None,
    ) -> Dense:
        """The block's outputs, given its inputs, the cell's inputs and the cell's states."""
        gate_inputs = xs.normalise(self.norm) if self.gate_before else us
        read = self.readout_norm(self.readout(self.cell.read(states, us)))
        read = read * jax.nn.sigmoid(gate_inputs.linear(self.output_gate).dense())
        y = over(self.skip, read) * xs.dense() + read
        hidden = self.mlp.hidden(self.mlp_norm(y), key=key)
        if mean is not None:
            y, hidden = mean(y), mean(hidden)
        return Dense(over(self.mlp_skip, y) * y + self.mlp.narrow(hidden))


def _readout(state_size: int, width: int, architecture: Architecture, *, key: Key) -> Linear:
    """The linear map after the cell, with biases initialised as the architecture says."""
    readout = Linear(state_size, width, start=architecture.linear, key=key)
    if not architecture.readout_bias:
        return readout
    bias = times(architecture.readout_bias, normal(fold_in(key, 1), (width,)))
    return eqx.tree_at(lambda layer: layer.bias, readout, bias)
