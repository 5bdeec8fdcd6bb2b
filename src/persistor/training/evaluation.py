"""How good a model is on a split."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from persistor.arrays import Array, Float, Int, Key
from persistor.model import Backbone, Encoding
from persistor.tasks import Objective, Split
from persistor.tasks.task import Batch, Bucketed


def outputs_on(
    model: Backbone, split: Split, batch: Batch, encoding: Encoding, **options: Any
) -> Float[Array, "b *s o"]:
    """The model's outputs on a batch of a split.

    If lengths vary, it computes only the steps of the bucket that holds the longest sequence.
    """

    def outputs_of_first(steps: int) -> Float[Array, "b *s o"]:
        inputs, positions = batch.inputs.head(steps), encoding.head(steps)
        return model(inputs, lengths=batch.lengths, encoding=positions, **options)[0]

    if not isinstance(split, Bucketed) or batch.lengths is None:
        return model(batch.inputs, lengths=batch.lengths, encoding=encoding, **options)[0]
    edges = [bucket.length for bucket in split.buckets]
    which = jnp.searchsorted(jnp.asarray(edges, jnp.int32), batch.lengths.max())
    return jax.lax.switch(which, [functools.partial(outputs_of_first, steps) for steps in edges])


@eqx.filter_jit
def scores_at(
    model: Backbone,
    split: Split,
    objective: Objective,
    indices: Int[Array, "n b"],
    encoding: Encoding,
) -> Float[Array, "n b"]:
    """The metric of each example, batch after batch."""

    def batch_scores(batch_indices):
        batch = split.at(batch_indices)
        return objective.score(outputs_on(model, split, batch, encoding), batch.targets)

    return jax.lax.map(batch_scores, indices)


def sampled_indices(key: Key, split: Split, shape: tuple[int, ...]) -> Int[Array, "..."]:
    """Indices into a split, drawn uniformly. Those along the last axis share a bucket."""
    if not isinstance(split, Bucketed):
        return jax.random.randint(key, shape, 0, split.size, jnp.int32)
    bucket, example = jax.random.split(key)
    begins, ends, _ = (jnp.asarray(edges, jnp.int32) for edges in zip(*split.buckets, strict=True))
    which = jax.random.randint(bucket, (*shape[:-1], 1), 0, split.size, jnp.int32)
    which = jnp.searchsorted(ends, which, side="right")
    return jax.random.randint(example, shape, begins[which], ends[which], jnp.int32)


def length_of(split: Split) -> int:
    """The padded length of a split's sequences."""
    return eqx.filter_eval_shape(split.at, jnp.zeros(1, jnp.int32)).inputs.length


def evaluate(
    model: Backbone,
    split: Split,
    objective: Objective,
    *,
    batch: int = 64,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> float:
    """The mean metric over a whole split; `report(done, total)` is called every few batches."""
    total = split.size
    indices = jnp.arange(-(-total // batch) * batch, dtype=jnp.int32).reshape(-1, batch)
    encoding = model.encode_positions(length_of(split))
    scores, at_once = [], max(1, 500_000 // (batch * encoding.length))
    for begin in range(0, len(indices), at_once):
        chunk = jnp.minimum(indices[begin : begin + at_once], total - 1)
        scores.append(scores_at(model, split, objective, chunk, encoding).reshape(-1))
        report(min((begin + at_once) * batch, total), total)
    return float(jnp.concatenate(scores)[:total].mean())
