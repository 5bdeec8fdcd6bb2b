"""From transitions and an initial state to states: the choice of engine.

An engine folds the transitions of a whole sequence. `sequential` walks over time and is the
fastest plain-JAX way on a CPU; `parallel` folds in O(log t) depth with an associative scan and is
for accelerators. They compute the same states and the same gradients; which of them runs is said
by `persistor.kernels.engine`. (The third engine, `native`, also computes the transitions: see
`persistor.recurrence.native`.)
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from persistor.arrays import Array, Bool, Inexact, Int
from persistor.kernels.engine import plain
from persistor.nn.sequence import inside
from persistor.recurrence.transition import Transition

Engine = Callable[[Transition, Inexact[Array, "*b d"]], Inexact[Array, "*b t d"]]


def sequential(
    transitions: Transition, initial_state: Inexact[Array, "*b d"]
) -> Inexact[Array, "*b t d"]:
    """Apply one transition after the other."""

    def step(h, transition: Transition):
        h = transition(h)
        return h, h

    by_time = jax.tree.map(lambda a: jnp.moveaxis(a, -2, 0), transitions)
    _, states = jax.lax.scan(step, initial_state, by_time)
    return jnp.moveaxis(states, 0, -2)


def parallel(
    transitions: Transition, initial_state: Inexact[Array, "*b d"]
) -> Inexact[Array, "*b t d"]:
    """Compose all prefixes at once: transitions compose associatively."""
    prefixes = jax.lax.associative_scan(lambda a, b: a.then(b), transitions, axis=-2)
    return prefixes(initial_state[..., None, :])


def composed(transitions: Transition) -> Transition:
    """All transitions of a sequence, in order, as one: neighbours in pairs until one is left."""
    while (length := jax.tree.leaves(transitions)[0].shape[-2]) > 1:
        even = length - length % 2
        earlier, later, alone = (
            jax.tree.map(lambda a, part=part: a[..., part, :], transitions)
            for part in (slice(0, even, 2), slice(1, even, 2), slice(even, length))
        )
        transitions = jax.tree.map(
            lambda a, b: jnp.concatenate([a, b], axis=-2), earlier.then(later), alone
        )
    return jax.tree.map(lambda a: a[..., 0, :], transitions)


ENGINES: dict[str, Engine] = {"sequential": sequential, "parallel": parallel}


def unroll(
    transitions: Transition,
    initial_state: Inexact[Array, "*b d"],
    *,
    lengths: Int[Array, "*b"] | None = None,
    resets: Bool[Array, "*b t"] | None = None,
) -> tuple[Inexact[Array, "*b t d"], Inexact[Array, "*b d"]]:
    """All states and the last one: h_t = transitions_t(h_{t-1}), with h_{-1} = `initial_state`.

    `lengths`: steps at or beyond a sequence's length retain, so the last state is the state at its
    end. `resets`: where true, a step begins from a zero state, as if a sequence began there.
    """
    if jax.tree.leaves(transitions)[0].shape[-2] == 0:
        return jnp.zeros(
            (*initial_state.shape[:-1], 0, initial_state.shape[-1]), initial_state.dtype
        ), initial_state
    if resets is not None:
        transitions = transitions.reset_where(resets[..., None])
    if lengths is not None:
        length = jax.tree.leaves(transitions)[0].shape[-2]
        transitions = transitions.keep_where(inside(lengths, length)[..., None])
    states = ENGINES[plain()](transitions, initial_state)
    return states, states[..., -1, :]
