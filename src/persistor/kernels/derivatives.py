"""Native computations that JAX can differentiate in every way, `jit` and `vmap`.

A kernel has a native gradient for reverse mode and nothing for forward mode; plain JAX has
both. So the derivative of a kernel is a linear map, from tangents of operands to tangents of
results, that is applied by plain JAX and transposed by the native gradient: `jax.grad` runs native
code alone, `jax.jvp` runs plain JAX, and so do second derivatives.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.custom_derivatives import SymbolicZero
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

Operand = Any  # an array of JAX, a tracer of one, or one of NumPy as JAX wraps it
Arrays = tuple[Operand, ...]


class Kernel(abc.ABC):
    """A native computation on arrays, its gradient, and the same in plain JAX. It holds no arrays.

    Integer and boolean operands have no gradient.
    """

    @abc.abstractmethod
    def plain(self, *operands: Operand) -> Arrays:
        """The results in plain JAX."""

    @abc.abstractmethod
    def forward(self, *operands: Operand, keep: bool) -> tuple[Arrays, Arrays]:
        """The results, and (if `keep`) what `backward` wants to have besides the operands."""

    @abc.abstractmethod
    def backward(self, operands: Arrays, kept: Arrays, cotangents: Arrays) -> Arrays:
        """The gradients of the operands that have one, from those of the results."""


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def run(kernel: Kernel, *operands: Operand) -> Arrays:
    """The results of a kernel, differentiable."""
    return kernel.forward(*operands, keep=False)[0]


@functools.partial(run.defjvp, symbolic_zeros=True)
def _(kernel: Kernel, operands: Arrays, tangents):
    results, kept = _run_and_keep(kernel, *operands)
    return results, _tangents(kernel, operands, results, kept, tangents)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _run_and_keep(kernel: Kernel, *operands: Operand) -> tuple[Arrays, Arrays]:
    return kernel.forward(*operands, keep=True)


@functools.partial(_run_and_keep.defjvp, symbolic_zeros=True)
def _(kernel: Kernel, operands: Arrays, tangents):
    """Nobody differentiates what is kept: second derivatives are those of plain JAX."""
    results, kept = _run_and_keep(kernel, *operands)
    of_results = _tangents(kernel, operands, results, kept, tangents)
    return (results, kept), (of_results, tuple(map(jnp.zeros_like, kept)))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _pull(kernel: Kernel, operands: Arrays, kept: Arrays, cotangents: Arrays) -> Arrays:
    return kernel.backward(operands, kept, cotangents)


@functools.partial(_pull.defjvp, symbolic_zeros=True)
def _(kernel: Kernel, primals, tangents):
    """The second derivative: that of the gradient in plain JAX."""
    operands, kept, cotangents = primals
    count = len(operands)

    def gradient(*arrays: Operand) -> Arrays:
        return _plain_gradient(kernel, arrays[:count], arrays[count:])

    moved = [*tangents[0], *tangents[2]]
    return (
        _pull(kernel, operands, kept, cotangents),
        _directional(gradient, (*operands, *cotangents), moved),
    )


def _plain_gradient(kernel: Kernel, operands: Arrays, cotangents: Arrays) -> Arrays:
    """What `backward` computes, in plain JAX."""
    is_float = tuple(map(has_gradient, operands))
    floats = tuple(a for a, is_ in zip(operands, is_float, strict=True) if is_)
    _, pull = jax.vjp(lambda *floats: kernel.plain(*_put(operands, is_float, floats)), *floats)
    return pull(cotangents)


def _directional(f, primals: Arrays, tangents: Iterable) -> Arrays:
    """The directional derivative of f, along those of the tangents that are not zero."""
    moving = tuple(not _is_zero(t) for t in tangents)
    along = tuple(t for t in tangents if not _is_zero(t))
    at = tuple(p for p, moves in zip(primals, moving, strict=True) if moves)
    return jax.jvp(lambda *floats: f(*_put(primals, moving, floats)), at, along)[1]


def _tangents(kernel: Kernel, operands: Arrays, results: Arrays, kept: Arrays, tangents) -> Arrays:
    """Tangents of the results, as a linear map of the tangents that are not zero."""
    moving = tuple(not _is_zero(t) for t in tangents)
    slope = Slope(kernel, moving)
    fixed = (*operands, *kept)
    along = [t for t in tangents if not _is_zero(t)]
    shapes = tuple((r.shape, r.dtype) for r in results)
    return tuple(_slope.bind(*fixed, *along, slope=slope, count=len(fixed), shapes=shapes))


@dataclass(frozen=True)
class Slope:
    """The derivative of a kernel at a point: a linear map, and its transpose."""

    kernel: Kernel
    moving: tuple[bool, ...]  # which of the operands have a tangent

    def apply(self, fixed: Arrays, tangents: Arrays) -> Arrays:
        """Tangents of the results, by plain JAX."""
        operands, tangents_ = fixed[: len(self.moving)], iter(tangents)
        every = [next(tangents_) if moves else _ZERO for moves in self.moving]
        return _directional(self.kernel.plain, operands, every)

    def transpose(self, fixed: Arrays, cotangents: Arrays) -> Arrays:
        """Gradients of the operands that have a tangent, by the native code."""
        operands, kept = fixed[: len(self.moving)], fixed[len(self.moving) :]
        gradients = iter(_pull(self.kernel, operands, kept, cotangents))
        all_of_them = [next(gradients) if has_gradient(a) else None for a in operands]
        return tuple(
            g for g, moves in zip(all_of_them, self.moving, strict=True) if moves and g is not None
        )


@dataclass(frozen=True)
class Mapped:
    """A slope under `vmap`: every tangent has the mapped axis, in front."""

    slope: Slope | Mapped
    axes: tuple[int | None, ...]  # of the fixed arrays

    def apply(self, fixed: Arrays, tangents: Arrays) -> Arrays:
        """Tangents of the results."""
        return jax.vmap(self.slope.apply, in_axes=(self.axes, 0))(fixed, tangents)

    def transpose(self, fixed: Arrays, cotangents: Arrays) -> Arrays:
        """Gradients of the operands that have a tangent."""
        return jax.vmap(self.slope.transpose, in_axes=(self.axes, 0))(fixed, cotangents)


_ZERO = object()
_slope = Primitive("persistor_slope")
_slope.multiple_results = True


@_slope.def_impl
def _apply(*arrays: Operand, slope: Slope | Mapped, count: int, shapes) -> Arrays:
    return slope.apply(arrays[:count], arrays[count:])


@_slope.def_abstract_eval
def _(*_, shapes, **__):
    return [ShapedArray(*shape) for shape in shapes]


def _derivative_of_slope(primals, tangents, *, count: int, **parameters):
    """Linear in its tangents; in all else as plain JAX."""
    call = functools.partial(_slope.bind, count=count, **parameters)
    results = call(*primals)
    if all(map(_is_zero, tangents[:count])):
        along = map(ad.instantiate_zeros, tangents[count:])
        return results, call(*primals[:count], *along)
    apply = functools.partial(_apply, count=count, **parameters)
    return results, list(_directional(apply, tuple(primals), tangents))


def _transpose_slope(cotangents, *arrays, slope: Slope | Mapped, count: int, shapes):
    """The native gradient."""
    whole = tuple(map(ad.instantiate_zeros, cotangents))
    gradients = slope.transpose(arrays[:count], whole)
    asked = map(ad.is_undefined_primal, arrays[count:])
    return [None] * count + [g if a else None for g, a in zip(gradients, asked, strict=True)]


def _map_slope(arrays, axes, *, slope: Slope | Mapped, count: int, shapes):
    """Still one slope, with the mapped axis in front of everything that has it."""
    size = next(a.shape[i] for a, i in zip(arrays, axes, strict=True) if i is not None)
    fixed = [a if i is None else jnp.moveaxis(a, i, 0) for a, i in zip(arrays, axes, strict=True)]
    tangents = [
        batching.bdim_at_front(a, i, size)
        for a, i in zip(arrays[count:], axes[count:], strict=True)
    ]
    mapped = Mapped(slope, tuple(None if i is None else 0 for i in axes[:count]))
    more = tuple(((size, *shape), dtype) for shape, dtype in shapes)
    results = _slope.bind(*fixed[:count], *tangents, slope=mapped, count=count, shapes=more)
    return results, [0] * len(results)


ad.primitive_jvps[_slope] = _derivative_of_slope
ad.primitive_transposes[_slope] = _transpose_slope
batching.primitive_batchers[_slope] = _map_slope
mlir.register_lowering(_slope, mlir.lower_fun(_apply, multiple_results=True))


def has_gradient(array: Operand) -> bool:
    """Whether an operand has one: it is not of integers or truth values."""
    return jnp.issubdtype(array.dtype, jnp.inexact)


def _is_zero(tangent) -> bool:
    """Whether a tangent is known to be zero; those of integers are."""
    if tangent is _ZERO or isinstance(tangent, SymbolicZero | ad.Zero):
        return True
    return tangent.dtype == jax.dtypes.float0


def _put(arrays: Arrays, where: tuple[bool, ...], others: Arrays) -> Arrays:
    """Arrays, with others in some of the places."""
    new = iter(others)
    return tuple(next(new) if is_ else a for a, is_ in zip(arrays, where, strict=True))
