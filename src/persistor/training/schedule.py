"""What changes during a run: the weights, at learning rates, and epsilon if it is annealed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from persistor.arrays import Array, Float, Int
from persistor.cells import Thresholded
from persistor.experiment import TrainingSpec
from persistor.kernels import AdamW, refusal
from persistor.kernels.engine import runs_natively
from persistor.model import Architecture

DECAYS, EPSILON = (0.9, 0.99), 1e-8  # of AdamW
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
        optax.adamw(learning_rate(spec), *DECAYS, EPSILON, weight_decay=spec.weight_decay),
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


def held(new: Any, old: Any, architecture: Architecture) -> Any:
    """`new`, with b_x of hard gates as in `old`, where silence is never heard (`loudness`).

    b_x starts at zero there and stays zero, so an empty input has a candidate of zero.
    """
    for i, (block, before) in enumerate(zip(new.blocks, old.blocks, strict=True)):
        if architecture.loudness and isinstance(block.cell, Thresholded):
            part = slice(block.cell.state_size)
            bias: Any = block.cell.project.bias
            bias = bias.at[part].set(before.cell.project.bias[part])
            new = eqx.tree_at(lambda m, i=i: m.blocks[i].cell.project.bias, new, bias)
    return new


def slowed(tree: Any, architecture: Architecture, change: Callable[[Array], Array]) -> Any:
    """A tree like a backbone's parameters, with a change of what feeds gates, if that is slow."""
    slow = architecture.gate_rate != 1 or architecture.gate_sleep
    if not slow or not what_feeds_gates(tree):
        return tree
    return eqx.tree_at(what_feeds_gates, tree, replace_fn=change)


def paced(updates: Any, architecture: Architecture, steps: int, step: Int[Array, ""]) -> Any:
    """Updates of a backbone's parameters, at the rates that its architecture sets for the gates."""
    factor = gate_rate(architecture, steps, step)
    updates = held(updates, jax.tree.map(jnp.zeros_like, updates), architecture)
    return slowed(updates, architecture, lambda update: factor.astype(update.dtype) * update)


def updated(
    spec: TrainingSpec,
    architecture: Architecture,
    step: Int[Array, ""],
    gradients: Any,
    state: optax.OptState,
    params: Any,
) -> tuple[Any, optax.OptState]:
    """The parameters of a backbone after a step, and the state of the optimiser.

    All in one pass where the native engine can; else by `optimiser` and `paced`.
    """
    if runs_natively(lambda: _refusal(params)):
        return _updated_natively(spec, architecture, step, gradients, state, params)
    updates, state = optimiser(spec).update(gradients, state, params)
    updates = paced(updates, architecture, spec.steps, step)
    return optax.apply_updates(params, updates), state


def _refusal(params: Any) -> str | None:
    """Why the kernel cannot update these parameters; None if it can."""
    arrays = [array for array in jax.tree.leaves(params) if array.size]
    if any(map(jnp.iscomplexobj, arrays)):
        return "there are complex parameters"
    return refusal(*arrays)


def _updated_natively(
    spec: TrainingSpec,
    architecture: Architecture,
    step: Int[Array, ""],
    gradients: Any,
    state: Any,
    params: Any,
) -> tuple[Any, optax.OptState]:
    """The same by the kernel; the state is that of `optimiser`."""
    clipped, (adam, decayed, scheduled) = state
    rate = jnp.asarray(learning_rate(spec)(scheduled.count), jnp.float32)
    slow = rate * gate_rate(architecture, spec.steps, step)
    rates = slowed(jax.tree.map(lambda _: rate, params), architecture, lambda _: slow)
    structure = jax.tree.structure(params)
    arrays = AdamW(spec.clip, spec.weight_decay, *DECAYS, EPSILON)(
        jnp.stack(jax.tree.leaves(rates)),
        adam.count,
        *(jax.tree.leaves(tree) for tree in (gradients, params, adam.mu, adam.nu)),
    )
    new, mu, nu = (jax.tree.unflatten(structure, part) for part in arrays)
    adam = adam._replace(count=optax.safe_increment(adam.count), mu=mu, nu=nu)
    scheduled = scheduled._replace(count=optax.safe_increment(scheduled.count))
    return held(new, params, architecture), (clipped, (adam, decayed, scheduled))
