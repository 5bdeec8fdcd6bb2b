"""The whole network: encode, blocks, pool, decode."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from persistor._tools.errors import PersistorError
from persistor.arrays import Array, Float, Inexact, Int, Key
from persistor.cells import Cell
from persistor.cells.epsilon import Cumulative
from persistor.data.preparation import Preparation
from persistor.model.architecture import PAPER, Architecture
from persistor.model.block import Block
from persistor.model.prediction import Prediction, examples_of, predictions
from persistor.nn.arguments import array, batch_shape, is_traced, sequence
from persistor.nn.draws import split
from persistor.nn.layers import MLP, LayerNorm, Linear, check_key, check_size
from persistor.nn.pooling import Pooling, mean_over, pooling_named
from persistor.nn.positions import Encoding, compact_encoding, sinusoid
from persistor.nn.sequence import Dense, Indexed, Sequence, in_pieces, in_type_of

CACHED = 2**21  # numbers in the widest inner array of a piece of a batch: 8 MB
AGAIN = 4  # a piece has at least so many times more steps than rows, which each piece encodes


class Residual(eqx.Module):
    """Encoder and decoder (appendix "Input Encoding and Output Decoding"): x + MLP(x), x = Linear.

    For tokens the input is one-hot, and the linear map is then a learned embedding.
    """

    linear: Linear
    mlp: MLP

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        hidden: int,
        architecture: Architecture = PAPER,
        bias: bool = True,
        dropout: float = 0.0,
        key: Key,
    ):
        one, two = split(key)
        self.linear = Linear(inputs, outputs, bias=bias, start=architecture.linear, key=one)
        self.mlp = MLP(
            outputs,
            hidden=hidden,
            gate=architecture.mlp_gate,
            bias=bias,
            start=architecture.linear,
            dropout=dropout,
            key=two,
        )

    def __call__(self, x: Float[Array, "*s i"], *, key: Key | None = None) -> Float[Array, "*s o"]:
        """Apply to the last axis.

        Two linear maps in a row are one: if there are many rows of few inputs, the MLP's first map
        is composed with the map before it instead of applied to every row.
        """
        y = self.linear(x)
        if math.prod(x.shape[:-1]) <= x.shape[-1] + 1:
            return y + self.mlp(y, key=key)
        both = self.linear.then(self.mlp.widen)
        return y + eqx.tree_at(lambda mlp: mlp.widen, self.mlp, both)(x, key=key)


class Memory(eqx.Module):
    """Everything a model carries from one chunk of a stream to the next."""

    position: Int[Array, ""] | Int[Array, "*b"]  # one per sequence if their lengths have differed
    cells: tuple[Inexact[Array, "*b _"], ...]  # each with its own width
    total: Float[Array, "*b m"]  # sum of the last block's outputs, for mean pooling


class Backbone(eqx.Module):
    """The paper's backbone: r blocks between a nonlinear encoder and a nonlinear decoder."""

    encoder: Residual
    blocks: tuple[Block, ...]
    decoder: Residual
    encoder_norm: LayerNorm | None
    decoder_norm: LayerNorm | None
    pooling: Pooling = eqx.field(static=True)
    architecture: Architecture = eqx.field(static=True)
    dropout: float = eqx.field(static=True)
    preparation: Preparation | None = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        outputs: int,
        cells: tuple[Cell, ...],
        *,
        width: int = 256,
        architecture: Architecture = PAPER,
        pooling: Pooling = Pooling.LAST,
        dropout: float = 0.0,
        preparation: Preparation | None = None,
        key: Key,
    ):
        _check(inputs, outputs, cells, width, architecture, dropout)
        check_key(key)
        if architecture.encoding == width:  # None means the same: keep one description
            architecture = dataclasses.replace(architecture, encoding=None)
        encode, decode, *keys = split(key, 2 + len(cells))
        norm = LayerNorm(width, architecture.norm_epsilon)
        decoder_unit = outputs if architecture.decoder_hidden == "output" else width
        self.encoder = Residual(
            inputs,
            width,
            hidden=architecture.hidden * width,
            architecture=architecture,
            bias=architecture.encoder_bias,
            dropout=dropout,
            key=encode,
        )
        self.blocks = tuple(
            Block(cell, width, architecture, dropout=dropout, key=k)
            for cell, k in zip(cells, keys, strict=True)
        )
        self.decoder = Residual(
            width,
            outputs,
            hidden=architecture.hidden * decoder_unit,
            architecture=architecture,
            dropout=dropout,
            key=decode,
        )
        self.encoder_norm = norm if architecture.encoder_norm else None
        self.decoder_norm = norm if architecture.decoder_norm else None
        self.pooling = pooling_named(pooling)
        self.architecture = architecture
        self.dropout = dropout
        self.preparation = preparation

    @property
    def width(self) -> int:
        """The model width m: features between blocks."""
        return self.decoder.linear.weight.shape[0]

    @property
    def encoding_width(self) -> int:
        """The width of the positional encoding; 0 if there is none."""
        return self.blocks[0].position.positions.shape[0]

    @property
    def draws_for_each_sequence(self) -> bool:
        """Whether training draws something for each sequence, as dropout and disturbed cells do."""
        cells = [type(block.cell) for block in self.blocks]
        return self.dropout > 0 or any(cell.disturbed is not Cell.disturbed for cell in cells)

    def encode_positions(self, length: int) -> Encoding:
        """The positional encoding of the first `length` steps, compacted once for many calls."""
        return compact_encoding(length, self.encoding_width, self.architecture.base)

    def _encoding_from(self, start: Int[Array, "..."], length: int) -> Encoding:
        """The positional encoding of some steps from a position, which may be traced."""
        if not self.encoding_width:
            return Encoding(jnp.zeros((length, 0)))
        if start.ndim:
            raise PersistorError(
                "these sequences stopped at different positions, but a model with positions can "
                "only continue from one; leave lengths out, or train with encoding 0"
            )
        positions = jnp.arange(length, dtype=jnp.int32) + start
        return Encoding(sinusoid(positions, self.encoding_width, self.architecture.base))

    def initial_state(self, batch: tuple[int, ...] = ()) -> Memory:
        """The memory before the first step."""
        batch = batch_shape(batch)
        cells = tuple(block.cell.initial_state(batch) for block in self.blocks)
        total = jnp.zeros((*batch, self.width), self.decoder.linear.weight.dtype)
        return Memory(jnp.zeros((), jnp.int32), cells, total)

    def encode(self, inputs: Sequence, *, key: Key | None = None) -> Sequence:
        """The inputs at model width; if they are indexed, each distinct value is encoded once."""
        return inputs.map(lambda x: self._code(x, key))

    def _code(self, x: Float[Array, "*s i"], key: Key | None) -> Float[Array, "*s m"]:
        """The code of each step."""
        code = self.encoder(x, key=key)
        if self.architecture.empty == "zero":
            empty = jnp.zeros((1,) * (x.ndim - 1) + x.shape[-1:], x.dtype)
            code = code - self.encoder(empty)
        return code if self.encoder_norm is None else self.encoder_norm(code)

    def __call__(
        self,
        inputs: Sequence | Float[Array, "*b t i"] | np.ndarray,
        memory: Memory | None = None,
        *,
        lengths: Int[Array, "*b"] | None = None,
        encoding: Encoding | None = None,
        remat: bool = False,
        key: Key | None = None,
    ) -> tuple[Float[Array, "*b o"] | Float[Array, "*b t o"], Memory]:
        """Predictions, one per sequence or per step if not pooled, and the memory to continue from.

        `encoding` is `self.encode_positions(length)`, if the caller already has it. Dropout acts
        only if there is a `key`. With `remat`, gradients recompute the inner arrays of each block
        instead of keeping them, which saves memory but takes time.
        """
        inputs, lengths = sequence(inputs, self.encoder.linear.weight.shape[0], lengths)
        if not inputs.length:
            raise PersistorError("the input has no steps; give at least one")
        if not isinstance(memory, Memory | None):
            raise PersistorError(f"memory is {memory!r}; give what a call returned, or None")
        if key is None and not is_traced((self, inputs, memory, lengths, encoding)):
            return _answered(self, inputs, memory, lengths, encoding)
        return self._computed(inputs, memory, lengths, encoding, remat, key)

    def answer(
        self,
        inputs: Sequence,
        memory: Memory | None = None,
        *,
        lengths: Int[Array, "*b"] | None = None,
        encoding: Encoding | None = None,
    ) -> tuple[Float[Array, "*b o"] | Float[Array, "*b t o"], Memory]:
        """As a call without a gradient: a large batch in pieces that the processor's caches hold.

        A call does this by itself, compiled, unless it is inside `jax.jit` or another
        transformation, where it cannot know what becomes of its result.
        """
        count = self._pieces(inputs)
        if count == 1:
            return self._computed(inputs, memory, lengths, encoding)
        own = "values" if isinstance(inputs, Dense) else "ids"  # what each sequence has for itself
        memory = self.initial_state(inputs.batch) if memory is None else memory
        positions = memory.position if memory.position.ndim else None  # of each sequence, or None
        if encoding is None and positions is None:
            encoding = self._encoding_from(memory.position, inputs.length)

        def compute(piece: tuple) -> tuple[Array, tuple[Array, ...], Array]:
            steps, lengths, position, cells, total = piece
            before = Memory(memory.position if position is None else position, cells, total)
            given = dataclasses.replace(inputs, **{own: steps})
            outputs, after = self._computed(given, before, lengths, encoding)
            return outputs, after.cells, after.total

        arrays = (getattr(inputs, own), lengths, positions, memory.cells, memory.total)
        outputs, cells, total = in_pieces(compute, arrays, count)
        position = self._after(memory.position, lengths, inputs.length)
        return outputs, Memory(position, cells, total)

    def _pieces(self, inputs: Sequence) -> int:
        """In how many pieces to compute a batch: 1 if the widest inner array is in the caches."""
        if len(inputs.batch) != 1 or not inputs.batch[0] or jax.default_backend() != "cpu":
            return 1
        steps = CACHED // (self.architecture.hidden * self.width)
        if isinstance(inputs, Indexed):
            if len(self.blocks) == 1 and self.pooling is Pooling.LAST:
                return 1  # nothing is written out
            steps = max(steps, len(inputs.rows) * AGAIN)
        return -(-inputs.batch[0] // max(1, steps // inputs.length))

    def _computed(
        self,
        inputs: Sequence,
        memory: Memory | None,
        lengths: Int[Array, "*b"] | None,
        encoding: Encoding | None,
        remat: bool = False,
        key: Key | None = None,
    ) -> tuple[Float[Array, "*b o"] | Float[Array, "*b t o"], Memory]:
        """A call whose arguments are checked."""
        if key is not None and self.dropout > 0:
            inputs = Dense(inputs.dense())  # every step has its own mask, so no step is shared
        keys = [None] * (len(self.blocks) + 2)
        if key is not None:
            keys = list(jax.random.split(key, len(keys)))
        memory = self.initial_state(inputs.batch) if memory is None else memory
        if encoding is None:
            encoding = self._encoding_from(memory.position, inputs.length)

        xs = self.encode(inputs, key=keys[0])
        states = []
        for i, block in enumerate(self.blocks):
            is_last = i == len(self.blocks) - 1
            xs, state = (eqx.filter_checkpoint(block) if remat else block)(
                xs,
                encoding,
                memory.cells[i],
                lengths=lengths,
                only_last=is_last and self.pooling is Pooling.LAST,
                mean=mean_over(lengths) if is_last and self.pooling is Pooling.MEAN else None,
                key=keys[i + 1],
            )
            states.append(state)
        pooled, total, position = self._pool(xs.dense(), memory, lengths, inputs.length)
        if self.decoder_norm is not None:
            pooled = self.decoder_norm(pooled)
        outputs = in_type_of(inputs, self.decoder(pooled, key=keys[-1]))
        return outputs, Memory(position, tuple(states), total)

    def _pool(
        self,
        y: Float[Array, "*b t m"] | Float[Array, "*b 1 m"],
        memory: Memory,
        lengths: Int[Array, "*b"] | None,
        length: int,
    ) -> tuple[Float[Array, "*b m"] | Float[Array, "*b t m"], Float[Array, "*b m"], Array]:
        """What the decoder reads, the running total, and the position after these steps."""
        position = self._after(memory.position, lengths, length)
        if self.pooling is Pooling.LAST:
            return y[..., -1, :], memory.total, position
        if self.pooling is Pooling.NONE:
            return y, memory.total, position
        count = jnp.asarray(length if lengths is None else lengths, position.dtype)
        total = memory.total + _over_features(count, y) * y[..., 0, :]
        return total / _over_features(jnp.maximum(position, 1), y), total, position

    def _after(
        self, position: Array, lengths: Int[Array, "*b"] | None, length: int
    ) -> Int[Array, "..."]:
        """The position after some steps."""
        return position + jnp.asarray(length if lengths is None else lengths, position.dtype)

    def step(
        self, x: Float[Array, "*b i"] | np.ndarray, memory: Memory
    ) -> tuple[Float[Array, "*b o"], Memory]:
        """One step of a stream: the prediction as if the sequence ended here, and the memory."""
        y, memory = self(array("the input", x)[..., None, :], memory)
        return (y[..., 0, :] if self.pooling is Pooling.NONE else y), memory

    def predict(self, inputs: Any) -> list[Prediction]:
        """Answers about files (paths) or arrays (t, i), alone or in a list.

        A model that was trained by `train` knows how to read what it was trained on. So
        `persistor.load(RUN).predict("some.wav")[0].best` is a word.
        """
        return list(predictions(self, examples_of(self, inputs)))

    def with_epsilon(self, epsilon: float | Float[Array, ""]) -> Backbone:
        """The same model with every cumulative cell at this epsilon (which may be traced)."""
        return eqx.tree_at(_epsilons, self, [epsilon] * len(_epsilons(self)))


@eqx.filter_jit
def _answered(
    model: Backbone,
    inputs: Sequence,
    memory: Memory | None,
    lengths: Int[Array, "*b"] | None,
    encoding: Encoding | None,
) -> tuple[Array, Memory]:
    """`Backbone.answer`, compiled once for each shape."""
    return model.answer(inputs, memory, lengths=lengths, encoding=encoding)


def _over_features(count: Int[Array, "..."], y: Float[Array, "*b s m"]) -> Float[Array, "..."]:
    """A count, for all sequences or for each, as a factor on arrays that end in features."""
    return (count[..., None] if count.ndim else count).astype(y.dtype)


def _epsilons(model: Backbone) -> list[Any]:
    """The epsilon of every cell that has one."""
    cells = [block.cell for block in model.blocks]
    return [cell.epsilon for cell in cells if isinstance(cell, Cumulative)]


def _check(
    inputs: int,
    outputs: int,
    cells: tuple[Cell, ...],
    width: int,
    architecture: Architecture,
    dropout: float,
) -> None:
    """Refuse what no backbone can be built from."""
    for name, value in {"inputs": inputs, "outputs": outputs, "width": width}.items():
        check_size(name, value)
    if not isinstance(architecture, Architecture):
        raise PersistorError(f"architecture is {architecture!r}; give an Architecture")
    if not 0 <= dropout < 1:
        raise PersistorError(f"dropout is {dropout:g}; it must lie in [0, 1)")
    if not isinstance(cells, tuple) or not all(isinstance(cell, Cell) for cell in cells):
        raise PersistorError("cells must be a tuple of cells, one for each block")
    if not cells:
        raise PersistorError("a backbone needs a cell for each block; give at least one")
    for cell in cells:
        if cell.input_size != width:
            raise PersistorError(
                f"a cell takes inputs of width {cell.input_size}, but the model's width is {width}"
            )
