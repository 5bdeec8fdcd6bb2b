"""Text from a trained run, one letter at a time: the model as a stream."""

from __future__ import annotations

from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp

from persistor._tools.errors import PersistorError
from persistor.arrays import Array, Int, Key
from persistor.model import Backbone, Memory


def sample(
    model: Backbone,
    letters: tuple[str, ...],
    prompt: str,
    count: int,
    *,
    temperature: float,
    window: int,
    key: Key,
) -> Iterator[str]:
    """`count` letters after the prompt, each drawn from the model's prediction.

    The model was trained on `window` positions. When they are used up, it starts again at position
    0 and first reads the last half window of the text.
    """
    if temperature < 0:
        raise PersistorError(f"temperature is {temperature:g}; it must not be negative")
    unknown = sorted(set(prompt) - set(letters))
    if unknown or not prompt:
        what = f"this run does not know {unknown[0]!r}" if unknown else "the prompt is empty"
        raise PersistorError(f"{what}; it knows {''.join(letters)!r}")
    rows = jnp.eye(len(letters))

    @eqx.filter_jit
    def step(model: Backbone, letter: Int[Array, ""], memory: Memory, key: Key):
        logits, memory = model.step(rows[letter], memory)
        hot = jax.random.categorical(key, logits / jnp.maximum(temperature, 1e-6))
        return jnp.where(temperature > 0, hot, logits.argmax(-1)).astype(jnp.int32), memory

    written = [letters.index(letter) for letter in prompt]
    memory, unread = model.initial_state(), written
    drawn = jnp.zeros((), jnp.int32)
    for number in range(count):
        if int(memory.position) + len(unread) > window:
            memory, unread = model.initial_state(), written[-max(1, window // 2) :]
        draw = jax.random.fold_in(key, number)
        for letter in unread:
            drawn, memory = step(model, jnp.asarray(letter, jnp.int32), memory, draw)
        written = [*written[-window:], int(drawn)]
        unread = written[-1:]
        yield letters[unread[0]]
