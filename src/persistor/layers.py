"""The layers of the backbone that act on each step by itself. Leading axes are free."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from persistor.arrays import Array, Float, Key

EPSILON = 1e-6  # of the layer norm


def lecun_normal(key: Key, shape: tuple[int, int]) -> Float[Array, "i o"]:
    """LeCun normal weights: truncated normal with variance 1 / inputs."""
    return jax.nn.initializers.lecun_normal()(key, shape, jnp.float32)


class Linear(eqx.Module):
    """x -> x @ weight + bias, with LeCun normal weights and zero biases at the start."""

    weight: Float[Array, "i o"]
    bias: Float[Array, " o"] | None

    def __init__(self, inputs: int, outputs: int, *, bias: bool = True, key: Key):
        self.weight = lecun_normal(key, (inputs, outputs))
        self.bias = jnp.zeros(outputs) if bias else None

    def __call__(self, x: Float[Array, "*s i"]) -> Float[Array, "*s o"]:
        """Apply to the last axis."""
        y = x @ self.weight
        return y if self.bias is None else y + over(self.bias, y)


class LayerNorm(eqx.Module):
    """LayerNorm(x) = scale * (x - mean) / sqrt(var + 1e-6) + shift, over the last axis."""

    scale: Float[Array, " m"]
    shift: Float[Array, " m"]

    def __init__(self, width: int):
        self.scale = jnp.ones(width)
        self.shift = jnp.zeros(width)

    def __call__(self, x: Float[Array, "*s m"]) -> Float[Array, "*s m"]:
        """Normalise the last axis."""
        centred = x - x.mean(-1, keepdims=True)
        variance = jnp.square(centred).mean(-1, keepdims=True)
        normed = centred * jax.lax.rsqrt(variance + EPSILON)
        return normed * over(self.scale, x) + over(self.shift, x)


class MLP(eqx.Module):
    """MLP(x) = Linear(Dropout(GLU(Linear(x)))): m -> 4m -> (GLU halves) 2m -> m."""

    widen: Linear
    narrow: Linear
    dropout: eqx.nn.Dropout

    def __init__(self, width: int, *, dropout: float = 0.0, key: Key):
        one, two = jax.random.split(key)
        self.widen = Linear(width, 4 * width, key=one)
        self.narrow = Linear(2 * width, width, key=two)
        self.dropout = eqx.nn.Dropout(dropout)

    def __call__(self, x: Float[Array, "*s m"], *, key: Key | None = None) -> Float[Array, "*s m"]:
        """Apply to the last axis; dropout acts only when given a key."""
        return self.narrow(self.hidden(x, key=key))

    def hidden(self, x: Float[Array, "*s m"], *, key: Key | None = None) -> Float[Array, "*s h"]:
        """All but the last linear map, through which a mean can move."""
        hidden = jax.nn.glu(self.widen(x))
        return self.dropout(hidden, key=key, inference=key is None)


def over(vector: Float[Array, " m"], x: Float[Array, "*s m"]) -> Float[Array, "... m"]:
    """A vector with one axis for every leading axis of x: explicit rank promotion."""
    return vector.reshape((1,) * (x.ndim - 1) + vector.shape)
