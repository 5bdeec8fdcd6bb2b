"""What changes during a run: the learning rates, and epsilon if it is annealed."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from persistor.arrays import Array, Float, Int
from persistor.cells import Thresholded
from persistor.experiment import TrainingSpec
from persistor.model import Architecture

ANNEAL_HOLD = 0.05  # appendix "Training with epsilon Annealing": 1 for the first 5%,
ANNEAL_DECAY = 0.70  # linear to 0 over the next 70%, 0 for the last 25%


def learning_rate(spec: TrainingSpec) -> optax.Schedule:
    """Linear from 0 during the warm-up, then a cosine down to the final rate."""
    warmup = max(1, round(spec.warmup * spec.steps))
    return optax.warmup_cosine_decay_schedule(
        0.0, spec.learning_rate, warmup, max(spec.steps, warmup + 1), spec.final_learning_rate
    )


def annealed_epsilon(step: Int[Array, ""], steps: int) -> Float[Array, ""]:
    """Epsilon at a step of an annealed run."""
    progress = step.astype(jnp.float32) / steps
    return jnp.clip(1.0 - (progress - ANNEAL_HOLD) / ANNEAL_DECAY, 0.0, 1.0)


def optimiser(spec: TrainingSpec) -> optax.GradientTransformation:
    """AdamW(0.9, 0.99, 1e-8) on gradients clipped to a global norm."""
    return optax.chain(
        optax.clip_by_global_norm(spec.clip),
        optax.adamw(learning_rate(spec), b1=0.9, b2=0.99, eps=1e-8, weight_decay=spec.weight_decay),
    )


def gate_rate(architecture: Architecture, steps: int, step: Int[Array, ""]) -> Float[Array, ""]:
    """The factor on the learning rate of what feeds the gates, at a step of a run."""
    asleep = architecture.gate_sleep * steps
    awake = (
        jnp.clip((jnp.asarray(step, jnp.float32) - asleep) / (0.5 * asleep + 1.0), 0.0, 1.0)
        if asleep
        else 1.0
    )
    return jnp.asarray(architecture.gate_rate * awake, jnp.float32)


def what_feeds_gates(model: Any) -> list[Any]:
    """The parameters of a backbone, or what stands for them, between inputs and hard gates."""
    hard = [block for block in model.blocks if isinstance(block.cell, Thresholded)]
    return jax.tree.leaves([(block.norm, block.position, block.cell.project) for block in hard])


def still(updates: Any, architecture: Architecture) -> Any:
    """The updates without those of b_x of hard gates, where silence is never heard (`loudness`).

    b_x starts at zero there and stays zero, so an empty input has a candidate of zero.
    """
    for i, block in enumerate(updates.blocks):
        if architecture.loudness and isinstance(block.cell, Thresholded):
            bias: Any = block.cell.project.bias
            without = bias.at[: block.cell.state_size].set(0.0)
            updates = eqx.tree_at(lambda m, i=i: m.blocks[i].cell.project.bias, updates, without)
    return updates


def paced(updates: Any, architecture: Architecture, steps: int, step: Int[Array, ""]) -> Any:
    """Updates of a backbone's parameters, at the rates that its architecture sets for the gates."""
    updates = still(updates, architecture)
    slow = architecture.gate_rate != 1 or architecture.gate_sleep
    if not slow or not what_feeds_gates(updates):
        return updates
    factor = gate_rate(architecture, steps, step)
    return eqx.tree_at(
        what_feeds_gates, updates, replace_fn=lambda update: factor.astype(update.dtype) * update
    )
