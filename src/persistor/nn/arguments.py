"""What a person passes to a cell or a model, checked: a mistake is a line that names the argument.

A hard gate compares, so it would turn a value that is not a number into an ordinary answer. Values
are looked at where they are known; inside `jax.jit` they are not.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from persistor._tools.errors import PersistorError
from persistor.arrays import Array
from persistor.nn.sequence import Dense, Indexed, Sequence

KINDS = {"numbers": "fiub", "whole numbers": "iu", "numbers or complex numbers": "cfiub"}


def array(name: str, value: Any, what: str = "numbers") -> Array:
    """The value as an array; an error if it does not hold `what` is expected."""
    try:
        given = value if isinstance(value, Array) else np.asarray(value)
        kind = "f" if jnp.issubdtype(given.dtype, jnp.floating) else given.dtype.kind
    except (TypeError, ValueError) as error:
        raise PersistorError(f"{name} is not an array: {error}") from None
    if kind not in KINDS[what]:
        raise PersistorError(f"{name} is {_described(value, given)}; give an array of {what}")
    return jnp.asarray(given)


def _described(value: Any, given: Any) -> str:
    return f"an array of {given.dtype}" if hasattr(value, "dtype") else repr(value)[:80]


def sequence(x: Any, features: int, lengths: Any = None) -> tuple[Sequence, Array | None]:
    """The inputs as a sequence, and their lengths; every value that counts must be finite."""
    inputs = x if isinstance(x, Sequence) else _dense(x, features)
    given = (inputs.rows if isinstance(inputs, Indexed) else inputs.values).shape[-1]
    if given != features:
        raise PersistorError(f"the inputs have {given} features a step; {features} are expected")
    if lengths is not None:
        lengths = _lengths(lengths, inputs)
    _check_finite(inputs, lengths)
    return inputs, lengths


def _dense(x: Any, features: int) -> Dense:
    """An array, as a sequence that is written out."""
    values = array("the input", x)
    if values.ndim < 2:
        raise PersistorError(f"the inputs have shape {values.shape}; give (.., steps, {features})")
    return Dense(values)


def _lengths(value: Any, inputs: Sequence) -> Array:
    lengths = array("lengths", value, "whole numbers")
    if lengths.shape != inputs.batch:
        raise PersistorError(f"lengths: the shape is {lengths.shape}, expected {inputs.batch}")
    if not _is_known(lengths) or not lengths.size:
        return lengths
    known = np.asarray(lengths)
    least, most = int(known.min()), int(known.max())
    if least < 0 or most > inputs.length:
        wrong = least if least < 0 else most
        raise PersistorError(f"lengths holds {wrong}; the input has 0 to {inputs.length} steps")
    return lengths


def _check_finite(inputs: Sequence, lengths: Array | None) -> None:
    values = inputs.rows if isinstance(inputs, Indexed) else inputs.values
    if not _is_known(values, lengths) or not jnp.issubdtype(values.dtype, jnp.inexact):
        return
    wrong = ~np.isfinite(np.asarray(values, np.float64))
    if lengths is not None and not isinstance(inputs, Indexed):
        wrong &= (np.arange(inputs.length) < np.asarray(lengths)[..., None])[..., None]
    if wrong.any():
        *place, feature = np.argwhere(wrong)[0].tolist()
        kind = "row" if isinstance(inputs, Indexed) else "step"
        batch = f"sequence {', '.join(map(str, place[:-1]))}, " if place[:-1] else ""
        raise PersistorError(
            f"the input is not a finite number at {batch}{kind} {place[-1]}, feature {feature}"
        )


def _is_known(*arrays: Any) -> bool:
    return not is_traced(arrays)


def is_traced(tree: Any) -> bool:
    """Whether a transformation of JAX, such as `jit` or `grad`, is looking at arrays of a tree."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))


def batch_shape(batch: Any) -> tuple[int, ...]:
    """The shape of a batch, as a tuple of sizes."""
    if not isinstance(batch, tuple | list) or not all(_is_size(n) for n in batch):
        raise PersistorError(f"batch is {batch!r}; give a tuple of sizes, such as (2,)")
    return tuple(batch)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
