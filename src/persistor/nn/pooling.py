"""How what a network computes over time becomes what its decoder reads."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import jax.numpy as jnp

from persistor._tools.errors import unknown
from persistor.arrays import Array, Float, Int
from persistor.nn.sequence import inside

Mean = Callable[[Float[Array, "*b t f"]], Float[Array, "*b 1 f"]]  # over the time of a sequence


class Pooling(StrEnum):
    """How outputs over time become the prediction's input (appendix "Sequence Pooling")."""

    LAST = "last"
    MEAN = "mean"
    NONE = "none"


def pooling_named(name: Pooling | str) -> Pooling:
    """A pooling, or the one of that name."""
    if name not in list(Pooling):
        raise unknown("pooling", str(name), list(Pooling))
    return Pooling(name)


def mean_over(lengths: Int[Array, "*b"] | None) -> Mean:
    """The mean over time, of the steps that belong to each sequence."""

    def mean(x: Float[Array, "*b t f"]) -> Float[Array, "*b 1 f"]:
        if lengths is None:
            return x.mean(-2, keepdims=True)
        kept = jnp.where(inside(lengths, x.shape[-2])[..., None], x, 0.0)
        count = jnp.maximum(lengths, 1)[..., None, None].astype(x.dtype)
        return kept.sum(-2, keepdims=True) / count

    return mean
