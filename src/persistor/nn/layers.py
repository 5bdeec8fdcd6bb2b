"""The layers of the backbone that act on each step by itself. Leading axes are free."""

from __future__ import annotations

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from persistor import kernels
from persistor._tools.errors import PersistorError
from persistor.arrays import Array, Float, Key
from persistor.nn.draws import lecun_normal, ones, split, times, uniform, zeros

NORM_EPSILON = 1e-6  # of the layer norm, unless it is given another
MLPGate = Literal["sigmoid", "silu"]
LinearStart = Literal["lecun", "uniform"]


def _uniform(key: Key, shape: tuple[int, ...], inputs: int) -> Float[Array, "..."]:
    """Uniform within 1 / sqrt(inputs)."""
    return times(inputs**-0.5, uniform(key, shape, -1.0))


def check_size(name: str, value: object) -> None:
    """Refuse a size that is no whole number, or below 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise PersistorError(f"{name} is {value!r}; it must be a whole number, at least 1")


def check_key(key: object) -> None:
    """Refuse what is no key of JAX's random numbers."""
    kind = getattr(key, "dtype", None)
    if kind is None or not (jnp.issubdtype(kind, jax.dtypes.prng_key) or kind == jnp.uint32):
        raise PersistorError(f"key is {key!r}; give a key, such as jax.random.key(0)")


class Linear(eqx.Module):
    """x -> x @ weight + bias, with LeCun normal weights and zero biases at the start.

    Or, if they start `uniform`, both within 1 / sqrt(inputs), as in another framework. As all
    layers it computes in the type of its parameters, whatever the type of x.
    """

    weight: Float[Array, "i o"]
    bias: Float[Array, " o"] | None

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        bias: bool = True,
        start: LinearStart = "lecun",
        key: Key,
    ):
        check_size("the number of inputs", inputs)
        check_size("the number of outputs", outputs)
        check_key(key)
        if start == "lecun":
            self.weight = lecun_normal(key, (inputs, outputs))
            self.bias = zeros(outputs) if bias else None
        else:
            one, two = split(key)
            self.weight = _uniform(one, (inputs, outputs), inputs)
            self.bias = _uniform(two, (outputs,), inputs) if bias else None

    def __call__(self, x: Float[Array, "*s i"]) -> Float[Array, "*s o"]:
        """Apply to the last axis."""
        y = self.product(x)
        return y if self.bias is None else y + over(self.bias, y)

    def product(self, x: Float[Array, "*s i"]) -> Float[Array, "*s o"]:
        """x @ weight, of one matrix with one: XLA then need not transpose x for the gradient."""
        y = x.astype(self.weight.dtype).reshape((-1, x.shape[-1])) @ self.weight
        return y.reshape((*x.shape[:-1], y.shape[-1]))

    def then(self, later: Linear) -> Linear:
        """This map and a later one as one map."""
        bias = later.bias if self.bias is None else later(self.bias)
        parts = (self.weight @ later.weight, bias)
        return eqx.tree_at(lambda x: (x.weight, x.bias), self, parts, is_leaf=lambda x: x is None)


class LayerNorm(eqx.Module):
    """LayerNorm(x) = scale * (x - mean) / sqrt(var + epsilon) + shift, over the last axis."""

    scale: Float[Array, " m"]
    shift: Float[Array, " m"]
    epsilon: float = eqx.field(static=True)

    def __init__(self, width: int, epsilon: float = NORM_EPSILON):
        self.epsilon = epsilon
        self.scale = ones(width)
        self.shift = zeros(width)

    def __call__(self, x: Float[Array, "*s m"]) -> Float[Array, "*s m"]:
        """Normalise the last axis."""
        x = x.astype(self.scale.dtype)
        return kernels.layer_norm(x, self.scale, self.shift, self.epsilon)


class MLP(eqx.Module):
    """MLP(x) = Linear(Dropout(GLU(Linear(x)))): m -> hidden -> (GLU halves) hidden / 2 -> m."""

    widen: Linear
    narrow: Linear
    dropout: eqx.nn.Dropout
    gate: MLPGate = eqx.field(static=True)

    def __init__(
        self,
        width: int,
        *,
        hidden: int | None = None,
        gate: MLPGate = "sigmoid",
        bias: bool = True,
        start: LinearStart = "lecun",
        dropout: float = 0.0,
        key: Key,
    ):
        one, two = split(key)
        hidden = 4 * width if hidden is None else hidden
        self.widen = Linear(width, hidden, bias=bias, start=start, key=one)
        self.narrow = Linear(hidden // 2, width, bias=bias, start=start, key=two)
        self.dropout = eqx.nn.Dropout(dropout)
        self.gate = gate

    def __call__(self, x: Float[Array, "*s i"], *, key: Key | None = None) -> Float[Array, "*s o"]:
        """Apply to the last axis; dropout acts only when given a key."""
        return self.narrow(self.hidden(x, key=key))

    def hidden(self, x: Float[Array, "*s m"], *, key: Key | None = None) -> Float[Array, "*s h"]:
        """All but the last linear map, through which a mean can move."""
        hidden = gated(self.widen.product(x), self.widen.bias, self.gate)
        return self.dropout(hidden, key=key, inference=key is None)


def gated(
    x: Float[Array, "*s n"], bias: Float[Array, " n"] | None, gate: MLPGate = "sigmoid"
) -> Float[Array, "*s h"]:
    """The gated linear unit of x + bias: one half times the sigmoid, or the SiLU, of the other."""
    bias = jnp.zeros(x.shape[-1], x.dtype) if bias is None else bias
    if gate == "silu":
        one, other = jnp.split(x + over(bias, x), 2, axis=-1)
        return one * jax.nn.silu(other)
    return kernels.glu(x, bias)


def over(vector: Float[Array, " m"], x: Float[Array, "*s m"]) -> Float[Array, "... m"]:
    """A vector with one axis for every leading axis of x: explicit rank promotion."""
    return vector.reshape((1,) * (x.ndim - 1) + vector.shape)
