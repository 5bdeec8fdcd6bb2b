"""Sequences that are too many for memory: they stay on the disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from persistor.arrays import Array, Float, Int
from persistor.data.series import chunks
from persistor.tasks.keywords import Features
from persistor.tasks.task import Batch


@dataclass(frozen=True, eq=False)
class Rows:
    """Some sequences of an array on the disk, by index."""

    x: NDArray[Any]
    lengths: NDArray[np.integer] | None
    chosen: NDArray[np.integer]

    def read(self, indices: Any) -> NDArray[np.float32]:
        """The sequences with these indices, with zeros after the end of each."""
        rows = self.chosen[np.asarray(indices)]
        lengths = None if self.lengths is None else self.lengths[rows]
        return np.concatenate([chunk for _, chunk in chunks(self.x[rows], lengths)])


class Stored(eqx.Module):
    """Sequences that stay on the disk: those of a batch are read when it is made."""

    rows: Rows = eqx.field(static=True)
    targets: Int[Array, " n"] | Int[Array, "n t"] | Float[Array, "n o"]
    mean: Float[Array, " c"]
    deviation: Float[Array, " c"]
    lengths: Int[Array, " n"] | None = None

    @property
    def size(self) -> int:
        """The number of examples."""
        return self.targets.shape[0]

    def at(self, indices: Int[Array, " b"]) -> Batch:
        """Features with every feature scaled as in training."""
        shape = jax.ShapeDtypeStruct((indices.shape[0], *self.rows.x.shape[1:]), jnp.float32)
        x = jax.pure_callback(self.rows.read, shape, indices)
        every = jnp.arange(indices.shape[0], dtype=jnp.int32)
        lengths = None if self.lengths is None else self.lengths[indices]
        return Features(x, self.targets[indices], self.mean, self.deviation, lengths).at(every)
