"""The same model as one would first write it, to measure against.

Every layer acts at every position of every sequence, on arrays (b, t, m). The recurrence is
`unroll.parallel` (an associative scan) or `unroll.sequential` (a scan). The parameters are those of
a `Backbone`, so a test can check that outputs and gradients are equal.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from persistor.arrays import Array, Float
from persistor.model import Backbone, Block, Pooling
from persistor.model.backbone import Residual
from persistor.nn.layers import MLP, LayerNorm
from persistor.nn.positions import sinusoid
from persistor.nn.sequence import Dense
from persistor.recurrence.unroll import Engine
from persistor.training.evaluation import sampled_indices
from persistor.training.loop import Checkpoint, Trainer


def norm(layer: LayerNorm, x: Float[Array, "b t m"]) -> Float[Array, "b t m"]:
    """LayerNorm over the features."""
    x = x - x.mean(-1, keepdims=True)
    x = x / jnp.sqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6)
    return x * layer.scale[None, None] + layer.shift[None, None]


def mlp(layer: MLP, x: Float[Array, "*s m"]) -> Float[Array, "*s m"]:
    """Widen, gate one half with the other, narrow."""
    value, gate = jnp.split(layer.widen(x), 2, axis=-1)
    return layer.narrow(value * jax.nn.sigmoid(gate))


def residual(layer: Residual, x: Float[Array, "*s i"]) -> Float[Array, "*s o"]:
    """Encoder or decoder."""
    x = layer.linear(x)
    return x + mlp(layer.mlp, x)


def apply_block(
    block: Block, x: Float[Array, "b t m"], encoding: Float[Array, "t w"], fold: Engine
) -> Float[Array, "b t m"]:
    """One block: the recurrent sub-layer, then the pointwise one."""
    positions = jnp.broadcast_to(encoding[None], (x.shape[0], *encoding.shape))
    weight = jnp.concatenate([block.position.values.weight, block.position.positions])
    bias = block.position.values.bias
    assert bias is not None
    mixed = jnp.concatenate([x, positions], axis=-1) @ weight + bias[None, None]
    u = norm(block.norm, mixed)

    transitions = block.cell.gate(block.cell.project(u))
    states = fold(transitions, block.cell.initial_state(x.shape[:1]))
    read = norm(block.readout_norm, block.readout(block.cell.read(states, Dense(u))))

    y = block.skip[None, None] * x + read * jax.nn.sigmoid(block.output_gate(u))
    return block.mlp_skip[None, None] * y + mlp(block.mlp, norm(block.mlp_norm, y))


def outputs_of(model: Backbone, x: Float[Array, "b t i"], fold: Engine) -> Float[Array, "b ..."]:
    """The same predictions as `model(Dense(x))`."""
    encoding = sinusoid(jnp.arange(x.shape[1], dtype=jnp.int32), model.encoding_width)
    x = residual(model.encoder, x)
    for block in model.blocks:
        x = apply_block(block, x, encoding, fold)
    if model.pooling is Pooling.LAST:
        x = x[:, -1]
    elif model.pooling is Pooling.MEAN:
        x = x.mean(1)
    return residual(model.decoder, x)


def training_step(trainer: Trainer, fold: Engine):
    """One step of training as a compiled function of the state: a plain version of `trainer`."""

    def loss(params, step):
        draw, _ = jax.random.split(jax.random.fold_in(trainer.key, step))
        indices = sampled_indices(draw, trainer.train_split, (trainer.spec.batch,))
        batch = trainer.train_split.at(indices)
        model = trainer.model(params, step, trainer.frozen)
        outputs = outputs_of(model, batch.inputs.dense(), fold)
        return trainer.objective.loss(outputs, batch.targets).mean()

    @jax.jit
    def step(state: Checkpoint) -> Checkpoint:
        gradients = jax.grad(loss)(state.params, state.step)
        updates, memory = trainer.optimiser.update(
            gradients,
            state.optimiser,
            state.params,  # pyright: ignore[reportArgumentType]
        )
        params = optax.apply_updates(state.params, updates)  # pyright: ignore[reportArgumentType]
        return Checkpoint(params, memory, state.step + 1)  # pyright: ignore[reportArgumentType]

    return step
