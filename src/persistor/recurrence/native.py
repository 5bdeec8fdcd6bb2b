"""The native kernels as one differentiable function that every transformation of JAX goes through.

Inside, every array has leading axes (groups, batch): the sequences of a group share rows, offsets
and parameters. A call has one group; `vmap` makes more of them, and is still one call.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap

from persistor._tools.errors import PersistorError
from persistor.arrays import Array, Bool, Float, Inexact, Int
from persistor.kernels.derivatives import Arrays, Kernel, Operand, has_gradient, run
from persistor.kernels.loader import require
from persistor.nn.sequence import Dense, Sequence
from persistor.recurrence.transition import Transition
from persistor.recurrence.unroll import unroll

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

    def written_out(self) -> Float[Array, "b t p"]:
        """The projections of every step, of the one group of a call."""
        if not self.indexed:
            return self.projections[0]
        total = self.projections[0][self.ids[0]]
        if not self.offsets.size:
            return total
        total = total + self.offsets
        if not self.gain.size:
            return total
        index = jnp.arange(self.length)[None]
        return self.gain[0][self.ids[0], index][..., None] * total + self.shift[0][None, None]

    @property
    def shared(self) -> tuple[bool, ...]:
        """Which of the operands the sequences of a group share."""
        return (self.indexed, False, True, True, True, True, False, False)


@runtime_checkable
class Gated(Protocol):
    """A cell, as far as the kernels know it."""

    kernel: ClassVar[str | None]

    def kernel_parameters(self) -> Float[Array, "q d"]:
        """What the kernel needs besides projections."""
        ...

    def gate(self, p: Float[Array, "*s p"], /) -> Transition:
        """The transition, from projections: what the kernel computes, in plain JAX."""
        ...


def native_states(
    cell: Gated,
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
    batch, length, units = projections.batch, projections.length, initial_state.shape[-1]
    inputs = _inputs(projections, lengths, resets)
    state = _per_sequence("initial_state", initial_state, batch, (units,), initial_state.dtype)
    leaves, structure = jax.tree.flatten((cell, inputs, state))
    operands = tuple(leaf for leaf in leaves if _is_array(leaf))
    others = tuple(None if _is_array(leaf) else leaf for leaf in leaves)
    states, last = run(Recurrence(structure, others, every), *operands)
    last = last.reshape((*batch, units))
    return states.reshape((*batch, length, units)) if every else last[..., None, :], last


def _inputs(
    projections: Sequence,
    lengths: Int[Array, "*b"] | None,
    resets: Bool[Array, "*b t"] | None,
) -> Operands:
    """What a kernel reads of the inputs; the parameters are still absent."""
    batch, length = projections.batch, projections.length
    ids = offsets = gain = shift = None
    if isinstance(projections, Dense):
        p, values = projections.values.shape[-1], 0
        given = _per_sequence("projections", projections.values, batch, (length, p))
    else:
        values, p = projections.rows.shape
        given, ids = _shared("rows", projections.rows, (values, p)), projections.ids
        if (positions := projections.positions) is not None:
            offsets = positions.codes @ positions.mix
            if positions.gain is not None and positions.shift is not None:
                gain, shift = positions.gain, positions.shift
    return Operands(
        given,
        _per_sequence("ids", ids, batch, (length,), jnp.int32),
        _shared("offsets", offsets, (length, p)),
        _shared("gain", gain, (values, length)),
        _shared("shift", shift, (p,)),
        _absent(jnp.float32),
        _per_sequence("lengths", lengths, batch, (), jnp.int32),
        _per_sequence("resets", resets, batch, (length,), jnp.bool_),
    )


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


@dataclass(frozen=True)
class Recurrence(Kernel):
    """A cell's gates and its recurrence: from cell, inputs and state to all states and the last.

    `structure` is that of (cell, inputs, state), whose leaves are the operands and the `others`.
    """

    structure: Any
    others: tuple[Any, ...]
    every: bool

    def problem(self, operands: Arrays) -> tuple[Gated, Operands, Operand]:
        """The cell, its inputs and the state, of their arrays."""
        arrays = iter(operands)
        leaves = [next(arrays) if leaf is None else leaf for leaf in self.others]
        return jax.tree.unflatten(self.structure, leaves)

    def plain(self, *operands: Operand) -> Arrays:
        """In plain JAX."""
        cell, inputs, state = self.problem(operands)
        lengths = inputs.lengths[0] if inputs.lengths.size else None
        resets = inputs.resets[0] if inputs.resets.size else None
        transitions = cell.gate(inputs.written_out())
        states, last = unroll(transitions, state[0], lengths=lengths, resets=resets)
        return (states if self.every else jnp.zeros((0,), states.dtype))[None], last[None]

    def forward(self, *operands: Operand, keep: bool) -> tuple[Arrays, Arrays]:
        """In one pass; what is kept is the state before each chunk."""
        cell, inputs, state = self.problem(operands)
        call = _forward(cell.kernel or "", self.every, keep)
        states, last, checkpoints = call(_with_parameters(cell, inputs), state)
        return (states, last), (checkpoints,)

    def backward(self, operands: Arrays, kept: Arrays, cotangents: Arrays) -> Arrays:
        """In one pass backwards from each of the states that were kept."""
        cell, inputs, _ = self.problem(operands)
        inexact, rest = eqx.partition(cell, lambda leaf: _is_array(leaf) and has_gradient(leaf))
        parameters, pull = jax.vjp(
            lambda inexact: eqx.combine(inexact, rest).kernel_parameters(), inexact
        )
        given = inputs._replace(parameters=parameters[None])
        *of_inputs, of_parameters, of_state = _backward(cell.kernel or "")(
            given, *kept, *cotangents
        )
        (of_cell,) = pull(of_parameters[0])
        return (*jax.tree.leaves(of_cell), *of_inputs, _absent(jnp.float32), of_state)


def _with_parameters(cell: Gated, inputs: Operands) -> Operands:
    """The operands of a call: inputs, and the cell's parameters."""
    return inputs._replace(parameters=cell.kernel_parameters()[None])


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray)


@functools.cache
def _forward(kernel: str, every: bool, checkpoints: bool):
    """The forward kernel: operands and initial state to states, last state and checkpoints."""

    @custom_vmap
    def call(operands: Operands, initial_state: Array) -> tuple[Array, ...]:
        (groups, batch, units), length = initial_state.shape, operands.length
        chunk = _chunk(length)
        absent = (groups, 0)
        shapes = (
            (groups, batch, length, units) if every else absent,
            initial_state.shape,
            (groups, batch, -(-length // chunk), units) if checkpoints else absent,
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


def _chunk(length: int) -> int:
    """Steps from one checkpoint to the next: about the square root, so memory grows as slowly."""
    return min(max(math.isqrt(length - 1) + 1, SHORTEST_CHUNK), LONGEST_CHUNK, length)


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
