"""A whole layer of linear recurrent units in one native pass, from inputs to outputs.

The complex arrays between are four times as large as the inputs, or more. They stay in the cache.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from persistor.arrays import Array, Bool, Complex, Float, Int
from persistor.kernels.derivatives import Arrays, Kernel, Operand, run
from persistor.recurrence.transition import Affine
from persistor.recurrence.unroll import unroll

CHUNK = 64  # steps that stay in the cache; the state before them is kept for the gradient


class Weights(NamedTuple):
    """Real weights of the layer: real parts, then imaginary ones."""

    project: Float[Array, "m 2*d"]  # B
    parameters: Float[Array, "3 d"]  # Lambda in two parts, gamma
    mix: Float[Array, "2*d d"]  # C, such that Re(C h) is its product with the parts of h
    skip: Float[Array, "m d"]  # D


def lru_layer(
    weights: Weights,
    x: Float[Array, "*b t m"],
    initial_state: Complex[Array, "*b d"],
    *,
    lengths: Int[Array, "*b"] | None = None,
    resets: Bool[Array, "*b t"] | None = None,
) -> tuple[Float[Array, "*b t d"], Complex[Array, "*b d"]]:
    """The outputs Re(C h_t) + D x_t, and the last state."""
    *batch, steps, inputs = x.shape
    count, units = math.prod(batch), initial_state.shape[-1]
    limits = jnp.zeros((0,), jnp.int32) if lengths is None else lengths.astype(jnp.int32)
    begins = jnp.zeros((0,), jnp.bool_) if resets is None else resets.reshape((count, steps))
    outputs, last = run(
        LruLayer(),
        x.reshape((count, steps, inputs)),
        *weights,
        limits.reshape(-1),
        begins,
        initial_state.reshape((count, units)),
    )
    return outputs.reshape((*batch, steps, units)), last.reshape((*batch, units))


@dataclass(frozen=True)
class LruLayer(Kernel):
    """The layer: x, weights, lengths, resets and the first state to outputs and the last state."""

    def plain(self, *operands: Operand) -> Arrays:
        """In plain JAX."""
        x, project, parameters, mix, skip, lengths, resets, first = operands
        real, imaginary = jnp.split(_product(x, project), 2, axis=-1)
        decay, gamma = jax.lax.complex(parameters[0], parameters[1]), parameters[2][None, None]
        drive = jax.lax.complex(gamma * real, gamma * imaginary)
        states, last = unroll(
            Affine(jnp.broadcast_to(decay[None, None], drive.shape), drive),
            first,
            lengths=lengths if lengths.size else None,
            resets=resets if resets.size else None,
        )
        parts = jnp.concatenate([states.real, states.imag], axis=-1)
        return _product(parts, mix) + _product(x, skip), last

    def forward(self, *operands: Operand, keep: bool) -> tuple[Arrays, Arrays]:
        """In one pass; what is kept is the state before each chunk, as real numbers."""
        x, *_, first = operands
        (count, steps, _), units = x.shape, first.shape[-1]
        chunk = min(CHUNK, steps)
        kept = (count, -(-steps // chunk), 2 * units) if keep else (0,)
        results = (
            jax.ShapeDtypeStruct((count, steps, units), x.dtype),
            jax.ShapeDtypeStruct(first.shape, first.dtype),
            jax.ShapeDtypeStruct(kept, x.dtype),
        )
        outputs, last, checkpoints = _call("forward", results, *operands, chunk=chunk)
        return (outputs, last), (checkpoints,)

    def backward(self, operands: Arrays, kept: Arrays, cotangents: Arrays) -> Arrays:
        """Gradients of x, the weights and the first state."""
        *given, first = operands
        results = tuple(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (*operands[:5], first))
        chunk = min(CHUNK, operands[0].shape[-2])
        return _call("backward", results, *given, *kept, *cotangents, chunk=chunk)


def _product(x: Float[Array, "b t i"], weight: Float[Array, "i o"]) -> Float[Array, "b t o"]:
    """Of one matrix with one."""
    y = x.reshape((-1, x.shape[-1])) @ weight
    return y.reshape((*x.shape[:-1], y.shape[-1]))


def _call(way: str, results: tuple[jax.ShapeDtypeStruct, ...], *arrays: Operand, chunk: int):
    """A native call; under `vmap` it is one call with as many groups of sequences."""
    call = jax.ffi.ffi_call(f"persistor_lru_layer_{way}", results, vmap_method="broadcast_all")
    return tuple(call(*arrays, chunk=chunk))
