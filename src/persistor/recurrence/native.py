"""The native kernels as one differentiable function that `jit`, `grad` and `vmap` go through.

Inside, every array has leading axes (groups, batch): the sequences of a group share rows, offsets
and parameters. A call has one group; `vmap` makes more of them, and is still one call.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from persistor._tools.errors import PersistorError
from persistor.arrays import Array, Bool, Float, Inexact, Int
from persistor.kernels.loader import RECURRENCES, require
from persistor.nn.sequence import Dense, Sequence

SHORTEST_CHUNK, LONGEST_CHUNK = 16, 512


class Operands(NamedTuple):
    """What a kernel reads besides states; an absent array is empty."""

    projections: Float[Array, "g b t p"] | Float[Array, "g k p"]  # rows, where there are ids
    ids: Int[Array, "g b t"]
    offsets: Float[Array, "g t p"]
    gain: Float[Array, "g k t"]
    shift: Float[Array, "g p"]
    parameters: Float[Array, "g q d"]
    lengths: Int[Array, "g b"]
    resets: Bool[Array, "g b t"]

    @property
    def indexed(self) -> bool:
        """Whether the projections are rows."""
        return self.ids.size > 0

    @property
    def length(self) -> int:
        """The number of steps."""
        return self.ids.shape[-1] if self.indexed else self.projections.shape[-2]

    @property
    def shared(self) -> tuple[bool, ...]:
        """Which of the operands the sequences of a group share."""
        return (self.indexed, False, True, True, True, True, False, False)


def fused_unroll(
    kernel: str,
    parameters: Float[Array, "q d"],
    projections: Sequence,
    initial_state: Inexact[Array, "*b d"],
    *,
    lengths: Int[Array, "*b"] | None = None,
    resets: Bool[Array, "*b t"] | None = None,
    every: bool = True,
) -> tuple[Inexact[Array, "*b s d"], Inexact[Array, "*b d"]]:
    """All states (only the last if not `every`), and the last one, from a cell's projections.

    The same as gating the projections and `unroll`, without the arrays between.
    """
    require()
    batch, steps, units = projections.batch, projections.length, initial_state.shape[-1]
    projection_count, parameter_count = RECURRENCES[kernel]
    p, parameter_shape = projection_count * units, (parameter_count, units)
    ids = offsets = gain = shift = None
    if isinstance(projections, Dense):
        given = _per_sequence("projections", projections.values, batch, (steps, p))
        values = 0
    else:
        values = projections.rows.shape[0]
        given, ids = _shared("rows", projections.rows, (values, p)), projections.ids
        if (positions := projections.positions) is not None:
            offsets = positions.codes @ positions.mix
            if positions.gain is not None and positions.shift is not None:
                gain, shift = positions.gain, positions.shift
    operands = Operands(
        given,
        _per_sequence("ids", ids, batch, (steps,), jnp.int32),
        _shared("offsets", offsets, (steps, p)),
        _shared("gain", gain, (values, steps)),
        _shared("shift", shift, (p,)),
        _shared("parameters", parameters, parameter_shape),
        _per_sequence("lengths", lengths, batch, (), jnp.int32),
        _per_sequence("resets", resets, batch, (steps,), jnp.bool_),
    )
    initial_state = _per_sequence(
        "initial_state", initial_state, batch, (units,), initial_state.dtype
    )
    states, last = _unroll(kernel, every, operands, initial_state)  # pyright: ignore[reportGeneralTypeIssues]
    last = last.reshape((*batch, units))
    return states.reshape((*batch, steps, units)) if every else last[..., None, :], last


def _shared(name: str, array: Array | None, shape: tuple[int, ...]) -> Array:
    """An operand that the sequences of the one group share."""
    return _per_sequence(name, array, (), shape)[0] if array is not None else _absent(jnp.float32)


def _per_sequence(
    name: str,
    array: Array | None,
    batch: tuple[int, ...],
    shape: tuple[int, ...],
    dtype=jnp.float32,
) -> Array:
    """An operand with an entry a sequence: its batch axes made one, behind that of the group."""
    if array is None:
        return _absent(dtype)
    if array.shape != (*batch, *shape):
        raise PersistorError(f"{name}: the shape is {array.shape}, expected {(*batch, *shape)}")
    return array.astype(dtype).reshape((1, math.prod(batch), *shape))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _unroll(
    kernel: str, every: bool, operands: Operands, initial_state: Array
) -> tuple[Array, Array]:
    states, last, _ = _forward(kernel, every, False)(operands, initial_state)
    return states, last


def _unroll_forward(kernel: str, every: bool, operands: Operands, initial_state: Array):
    states, last, checkpoints = _forward(kernel, every, True)(operands, initial_state)
    return (states, last), (operands, checkpoints)


def _unroll_backward(kernel: str, every: bool, kept, cotangents):
    operands, checkpoints = kept
    projections, offsets, gain, shift, parameters, initial_state = _backward(kernel)(
        operands, checkpoints, *cotangents
    )
    none: Any = None  # integers have no gradient
    return Operands(projections, none, offsets, gain, shift, parameters, none, none), initial_state


_unroll.defvjp(_unroll_forward, _unroll_backward)


@functools.cache
def _forward(kernel: str, every: bool, checkpoints: bool):
    """The forward kernel: operands and initial state to states, last state and checkpoints."""

    @custom_vmap
    def call(operands: Operands, initial_state: Array) -> tuple[Array, ...]:
        (groups, batch, units), steps = initial_state.shape, operands.length
        chunk = _chunk(steps)
        absent = (groups, 0)
        shapes = (
            (groups, batch, steps, units) if every else absent,
            initial_state.shape,
            (groups, batch, -(-steps // chunk), units) if checkpoints else absent,
        )
        results = tuple(jax.ShapeDtypeStruct(shape, initial_state.dtype) for shape in shapes)
        return tuple(
            jax.ffi.ffi_call(f"persistor_{kernel}_forward", results)(
                *operands, initial_state, chunk=chunk
            )
        )

    @call.def_vmap
    def _(size: int, batched, operands: Operands, initial_state: Array):
        groups = initial_state.shape[1 if batched[1] else 0]
        operands = _merged(size, groups, batched[0], operands)
        initial_state = _merge(size, groups, batched[1], initial_state, shared=False)
        results = call(operands, initial_state)
        return _split(size, results), (True,) * len(results)

    return call


@functools.cache
def _backward(kernel: str):
    """The backward kernel: cotangents of states and last state to those of what made them."""

    @custom_vmap
    def call(operands: Operands, checkpoints: Array, of_states: Array, of_last: Array):
        groups = of_last.shape[0]

        made_from = (
            operands.projections,
            operands.offsets,
            operands.gain,
            operands.shift,
            operands.parameters,
            of_last,
        )
        results = tuple(  # a group has gradients of its own, even of what all groups share
            jax.ShapeDtypeStruct((groups, *array.shape[1:]), array.dtype) for array in made_from
        )
        return tuple(
            jax.ffi.ffi_call(f"persistor_{kernel}_backward", results)(
                *operands, checkpoints, of_states, of_last, chunk=_chunk(operands.length)
            )
        )

    @call.def_vmap
    def _(size: int, batched, operands: Operands, *states: Array):
        groups = states[-1].shape[1 if batched[-1] else 0]
        operands = _merged(size, groups, batched[0], operands)
        states = tuple(
            _merge(size, groups, is_batched, array, shared=False)
            for is_batched, array in zip(batched[1:], states, strict=True)
        )
        results = call(operands, *states)
        return _split(size, results), (True,) * len(results)

    return call


def _chunk(steps: int) -> int:
    """Steps from one checkpoint to the next: about the square root, so memory grows as slowly."""
    return min(max(math.isqrt(steps - 1) + 1, SHORTEST_CHUNK), LONGEST_CHUNK, steps)


def _absent(dtype) -> Array:
    return jnp.zeros((1, 0), dtype)


def _merged(size: int, groups: int, batched: Any, operands: Operands) -> Operands:
    """Operands of a mapped call, with the mapped axis merged into the groups."""
    merge = functools.partial(_merge, size, groups)
    return Operands(*map(merge, batched, operands, operands.shared))


def _merge(size: int, groups: int, batched: bool, array: Array, shared: bool) -> Array:
    """One operand: the mapped axis, in front if there is one, merged into the groups."""
    lead, *rest = array.shape[1:] if batched else array.shape
    if not batched:
        if array.size == 0 or (shared and lead == 1):
            return array
        array = array[None]
    return jnp.broadcast_to(array, (size, groups, *rest)).reshape((size * groups, *rest))


def _split(size: int, results: tuple[Array, ...]) -> tuple[Array, ...]:
    """Results of a merged call, with the mapped axis in front again."""
    return tuple(r.reshape((size, r.shape[0] // size, *r.shape[1:])) for r in results)
