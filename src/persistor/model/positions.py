"""The sinusoidal positional encoding (Vaswani et al., 2017), and how a block takes it in."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from persistor.arrays import Array, Float, Int, Key
from persistor.layers import Linear, lecun_normal
from persistor.sequence import Sequence


def sinusoid(positions: Int[Array, " t"], width: int) -> Float[Array, "t w"]:
    """PE(t): sines then cosines of t * 10000^(-2 i / width), for i = 0 .. width / 2 - 1."""
    frequencies = 10_000.0 ** (-jnp.arange(0, width, 2, dtype=jnp.float32) / width)
    angles = positions.astype(jnp.float32)[:, None] * frequencies[None, :]
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


class AddPosition(eqx.Module):
    """Appendix "Positional Encoding": Linear([x_t; PE(t)]), back to the width of x_t.

    A linear map of a concatenation is a sum of two linear maps, so the positional part stays
    apart from the values and costs nothing per sequence.
    """

    values: Linear
    positions: Float[Array, "w m"]

    def __init__(self, width: int, encoding: int, *, key: Key):
        one, two = jax.random.split(key)
        both = lecun_normal(one, (width + encoding, width))
        self.values = eqx.tree_at(
            lambda layer: layer.weight, Linear(width, width, key=two), both[:width]
        )
        self.positions = both[width:]

    def __call__(self, xs: Sequence, table: Float[Array, "t w"]) -> Sequence:
        """Step t becomes Linear([x_t; table[t]])."""
        xs = xs.linear(self.values)
        return xs.add_positions(table, self.positions) if table.shape[-1] else xs
