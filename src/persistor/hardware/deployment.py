"""A trained model with its recurrent layer in hardware; encoder and decoder stay in software."""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from persistor._tools.errors import PersistorError
from persistor.arrays import Array, Bool, Float
from persistor.hardware.mapping import Layer, mappable, to_currents
from persistor.model import Backbone, Pooling
from persistor.nn.pooling import mean_over
from persistor.nn.sequence import Dense, Sequence
from persistor.tasks import Batch


@dataclass(frozen=True)
class Deployment:
    """A model, and the layer of circuits that replaces its cell."""

    model: Backbone
    layer: Layer

    @staticmethod
    def of(model: Backbone) -> Deployment:
        """The deployment of a model with one block, no positions and a cell that maps exactly."""
        if len(model.blocks) != 1:
            raise PersistorError(
                f"the model has {len(model.blocks)} blocks; a circuit needs a model with one block"
            )
        if model.encoding_width:
            raise PersistorError(
                f"the model has a positional encoding of width {model.encoding_width}, but a "
                "circuit does not count steps; train with --deployable (encoding 0)"
            )
        if model.pooling is Pooling.NONE:
            raise PersistorError(
                "the model answers at every step, but a circuit is read once per sequence"
            )
        return Deployment(model, to_currents(mappable(model.blocks[0].cell)))

    def currents(self, batch: Batch) -> np.ndarray:
        """The input currents of a batch, nA: (b, t, d)."""
        return self.layer.currents(_candidates(self.model, batch))

    def features(self, batch: Batch) -> np.ndarray:
        """What the cell receives, before its weights: (b, t, m)."""
        return np.asarray(_features(self.model, batch).dense(), np.float64)

    def distinct(self, batch: Batch) -> np.ndarray:
        """The distinct features of a batch's steps: (n, m)."""
        return np.unique(self.features(batch)[inside(batch)].round(5), axis=0)

    def states(self, batch: Batch) -> np.ndarray:
        """The states of the trained model: (b, t, d)."""
        return np.asarray(_states(self.model, batch))

    def answers(self, batch: Batch, outputs: Array | np.ndarray) -> Float[Array, "b o"]:
        """The decoder's answers to the circuits' output currents, nA: (b, t, d)."""
        states = self.layer.states(np.asarray(outputs, np.float64))
        return _decode(self.model, batch, jnp.asarray(states, jnp.float32))


@eqx.filter_jit
def _features(model: Backbone, batch: Batch) -> Sequence:
    xs = model.encode(batch.inputs)
    return model.blocks[0].cell_inputs(xs, model.encode_positions(batch.inputs.length))


@eqx.filter_jit
def _candidates(model: Backbone, batch: Batch) -> Float[Array, "b t d"]:
    us = _features(model, batch)
    return us.linear(model.blocks[0].cell.project).dense()  # pyright: ignore[reportAttributeAccessIssue]


@eqx.filter_jit
def _states(model: Backbone, batch: Batch) -> Float[Array, "b t d"]:
    return model.blocks[0].cell.states(_features(model, batch), lengths=batch.lengths)[0]


@eqx.filter_jit
def _decode(model: Backbone, batch: Batch, states: Float[Array, "b t d"]) -> Float[Array, "b o"]:
    block, lengths = model.blocks[0], batch.lengths
    xs = model.encode(batch.inputs)
    us = block.cell_inputs(xs, model.encode_positions(batch.inputs.length))
    if model.pooling is Pooling.MEAN:
        read = block.read(xs, us, states, mean=mean_over(lengths))
    else:
        last = Dense(states).last(lengths).dense()
        read = block.read(xs.last(lengths), us.last(lengths), last)
    return model.decoder(read.dense()[:, 0])


def inside(batch: Batch) -> Bool[np.ndarray, "b t"]:
    """Whether a step belongs to its sequence."""
    size, length = batch.inputs.batch[0], batch.inputs.length
    ends = np.full(size, length) if batch.lengths is None else np.asarray(batch.lengths)
    return np.arange(length)[None, :] < ends[:, None]
