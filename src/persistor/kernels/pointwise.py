"""The layer norm and the gated linear unit, each in one pass over memory, and their gradients.

They run natively where the chosen engine says so and it can be, and else as plain JAX.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from persistor.arrays import Array, Float
from persistor.kernels.derivatives import Arrays, Kernel, Operand, run
from persistor.kernels.engine import runs_natively
from persistor.kernels.loader import refusal


def layer_norm(
    x: Float[Array, "*s m"], scale: Float[Array, " m"], shift: Float[Array, " m"], epsilon: float
) -> Float[Array, "*s m"]:
    """scale * (x - mean) / sqrt(variance + epsilon) + shift, over the last axis."""
    (y,) = _of_rows(Norm(epsilon), _rows(x), scale, shift)
    return y.reshape(x.shape)


def glu(x: Float[Array, "*s n"], bias: Float[Array, " n"]) -> Float[Array, "*s h"]:
    """a * sigmoid(b), with a and b the halves of x + bias along the last axis."""
    (gated,) = _of_rows(Glu(), _rows(x), bias)
    return gated.reshape((*x.shape[:-1], x.shape[-1] // 2))


def _rows(x: Float[Array, "*s m"]) -> Float[Array, "n m"]:
    """All leading axes as one."""
    return x.reshape((math.prod(x.shape[:-1]), x.shape[-1]))


def _of_rows(kernel: Kernel, *operands: Operand) -> Arrays:
    """The results of the kernel or of plain JAX."""
    if runs_natively(lambda: refusal(*operands)):
        return run(kernel, *operands)
    return kernel.plain(*operands)


@dataclass(frozen=True)
class Norm(Kernel):
    """The layer norm of rows: x, scale, shift -> y."""

    epsilon: float

    def plain(self, *operands: Operand) -> Arrays:
        """In plain JAX."""
        x, scale, shift = operands
        centred = x - x.mean(-1, keepdims=True)
        variance = jnp.square(centred).mean(-1, keepdims=True)
        normed = centred * jax.lax.rsqrt(variance + self.epsilon)
        return (normed * scale[None] + shift[None],)

    def forward(self, *operands: Operand, keep: bool) -> tuple[Arrays, Arrays]:
        """In one pass."""
        epsilon = np.float32(self.epsilon)
        return _call("norm_forward", _like(operands[0]), *operands, epsilon=epsilon), ()

    def backward(self, operands: Arrays, kept: Arrays, cotangents: Arrays) -> Arrays:
        """Gradients of x, scale and shift."""
        x, scale, shift = operands
        results, epsilon = _like(x, scale, shift), np.float32(self.epsilon)
        return _call("norm_backward", results, x, scale, *cotangents, epsilon=epsilon)


@dataclass(frozen=True)
class Glu(Kernel):
    """The gated linear unit of rows: x, bias -> y, half as wide."""

    def plain(self, *operands: Operand) -> Arrays:
        """In plain JAX."""
        x, bias = operands
        return (jax.nn.glu(x + bias[None]),)

    def forward(self, *operands: Operand, keep: bool) -> tuple[Arrays, Arrays]:
        """In one pass."""
        x, _ = operands
        half = jax.ShapeDtypeStruct((x.shape[0], x.shape[1] // 2), x.dtype)
        return _call("glu_forward", (half,), *operands), ()

    def backward(self, operands: Arrays, kept: Arrays, cotangents: Arrays) -> Arrays:
        """Gradients of x and bias."""
        return _call("glu_backward", _like(*operands), *operands, *cotangents)


def _call(name: str, results: tuple[jax.ShapeDtypeStruct, ...], *arrays: Operand, **attributes):
    """A native call; under `vmap` it is one call with as many groups of rows."""
    call = jax.ffi.ffi_call(f"persistor_{name}", results, vmap_method="broadcast_all")
    return tuple(call(*arrays, **attributes))


def _like(*arrays: Operand) -> tuple[jax.ShapeDtypeStruct, ...]:
    return tuple(jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays)
