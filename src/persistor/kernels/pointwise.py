"""The layer norm and the gated linear unit, each in one pass over memory, and their gradients.

As with all native kernels, gradients are of reverse mode; `jit` and `vmap` go through.
"""

from __future__ import annotations

import functools

import jax
import numpy as np

from persistor.arrays import Array, Float
from persistor.kernels.loader import require


def layer_norm(
    x: Float[Array, "*s m"], scale: Float[Array, " m"], shift: Float[Array, " m"], epsilon: float
) -> Float[Array, "*s m"]:
    """scale * (x - mean) / sqrt(variance + epsilon) + shift, over the last axis."""
    y: Array = _norm(epsilon, x.reshape((-1, x.shape[-1])), scale, shift)  # pyright: ignore[reportAssignmentType]
    return y.reshape(x.shape)


def glu(x: Float[Array, "*s n"], bias: Float[Array, " n"]) -> Float[Array, "*s h"]:
    """a * sigmoid(b), with a and b the halves of x + bias along the last axis."""
    gated = _glu(x.reshape((-1, x.shape[-1])), bias)
    return gated.reshape((*x.shape[:-1], x.shape[-1] // 2))


def _call(name: str, results, *arrays: Array, **attributes):
    """A native call; under `vmap` it is one call with as many groups of rows."""
    require()
    call = jax.ffi.ffi_call(f"persistor_{name}", results, vmap_method="broadcast_all")
    return call(*arrays, **attributes)


def _like(*arrays: Array) -> tuple[jax.ShapeDtypeStruct, ...]:
    return tuple(jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _norm(epsilon: float, x: Array, scale: Array, shift: Array) -> Array:
    return _call("norm_forward", _like(x)[0], x, scale, shift, epsilon=np.float32(epsilon))


def _norm_forward(epsilon: float, x: Array, scale: Array, shift: Array):
    return _norm(epsilon, x, scale, shift), (x, scale)


def _norm_backward(epsilon: float, kept: tuple[Array, Array], of_y: Array):
    results = _like(kept[0], kept[1], kept[1])
    return tuple(_call("norm_backward", results, *kept, of_y, epsilon=np.float32(epsilon)))


_norm.defvjp(_norm_forward, _norm_backward)


@jax.custom_vjp
def _glu(x: Array, bias: Array) -> Array:
    half = jax.ShapeDtypeStruct((x.shape[0], x.shape[1] // 2), x.dtype)
    return _call("glu_forward", half, x, bias)


def _glu_forward(x: Array, bias: Array):
    return _glu(x, bias), (x, bias)


def _glu_backward(kept: tuple[Array, Array], of_y: Array):
    return tuple(_call("glu_backward", _like(*kept), *kept, of_y))


_glu.defvjp(_glu_forward, _glu_backward)
