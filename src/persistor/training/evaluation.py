"""How good a model is on a split."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor.analysis.assessment import Answers
from persistor.arrays import Array, Float, Int, Key
from persistor.model import Backbone, Encoding
from persistor.nn.draws import randint
from persistor.nn.layers import check_size
from persistor.tasks import Objective, Split
from persistor.tasks.task import (
    Batch,
    Bucketed,
    Classification,
    NextToken,
    Regression,
    StepClassification,
)


def outputs_on(
    model: Backbone, split: Split, batch: Batch, encoding: Encoding, **options: Any
) -> Float[Array, "b *s o"]:
    """The model's outputs on a batch of a split; `options` are those of a call in training.

    Sequences that the batch repeats are computed once, unless something is drawn for each. If
    lengths vary, it computes only the steps of the bucket that holds the longest sequence.
    """
    compute = functools.partial(model, **options) if options else model.answer
    distinct = batch.distinct
    drawn = options.get("key") is not None and model.draws_for_each_sequence
    if distinct is not None and not drawn and len(distinct.which) > distinct.inputs.batch[0]:
        return compute(distinct.inputs, encoding=encoding)[0][distinct.which]

    def outputs_of_first(steps: int) -> Float[Array, "b *s o"]:
        inputs, positions = batch.inputs.head(steps), encoding.head(steps)
        return compute(inputs, lengths=batch.lengths, encoding=positions)[0]

    if not isinstance(split, Bucketed) or batch.lengths is None:
        return compute(batch.inputs, lengths=batch.lengths, encoding=encoding)[0]
    edges = [bucket.length for bucket in split.buckets]
    which = jnp.searchsorted(jnp.asarray(edges, jnp.int32), batch.lengths.max())
    return jax.lax.switch(which, [functools.partial(outputs_of_first, steps) for steps in edges])


def plain_scores_at(
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

    return _batch_after_batch(batch_scores, split, indices)


scores_at = eqx.filter_jit(plain_scores_at)


def _batch_after_batch(compute: Callable, split: Split, indices: Int[Array, "n b"]) -> Any:
    """What is computed of each batch; of all at once if they repeat the same few sequences."""
    if _one_example(split).distinct is None:
        return jax.lax.map(compute, indices)
    return jax.tree.map(
        lambda values: values.reshape(*indices.shape, *values.shape[1:]), compute(indices.ravel())
    )


def _one_example(split: Split) -> Batch:
    """The shapes of a batch of one."""
    return eqx.filter_eval_shape(split.at, jnp.zeros(1, jnp.int32))


def sampled_indices(key: Key, split: Split, shape: tuple[int, ...]) -> Int[Array, "..."]:
    """Indices into a split, drawn uniformly. Those along the last axis share a bucket."""
    if not isinstance(split, Bucketed):
        return randint(key, shape, 0, split.size)
    bucket, example = jax.random.split(key)
    begins, ends, _ = (jnp.asarray(edges, jnp.int32) for edges in zip(*split.buckets, strict=True))
    which = jax.random.randint(bucket, (*shape[:-1], 1), 0, split.size, jnp.int32)
    which = jnp.searchsorted(ends, which, side="right")
    return jax.random.randint(example, shape, begins[which], ends[which], jnp.int32)


def check_finite(split: Split, name: str) -> None:
    """Raise if the arrays of a split hold what is no number: hard gates would not notice."""
    for leaf in jax.tree.leaves(eqx.filter(split, eqx.is_inexact_array)):
        if not np.isfinite(np.asarray(leaf)).all():
            raise PersistorError(f"the split {name} holds a value that is not a finite number")


def length_of(split: Split) -> int:
    """The padded length of a split's sequences."""
    return _one_example(split).inputs.length


@eqx.filter_jit
def answers_at(
    model: Backbone,
    split: Split,
    objective: Objective,
    indices: Int[Array, "n b"],
    encoding: Encoding,
) -> dict[str, Array]:
    """What the model says about each example, batch after batch; see `Answers`."""

    def batch_answers(batch_indices):
        batch = split.at(batch_indices)
        outputs = outputs_on(model, split, batch, encoding)
        found = {"scores": objective.score(outputs, batch.targets)}
        if isinstance(objective, Classification | StepClassification | NextToken):
            found["targets"] = batch.targets.astype(jnp.int32)
            found["predicted"] = outputs.argmax(-1).astype(jnp.int32)
            found["confidence"] = jax.nn.softmax(outputs).max(-1)
        elif isinstance(objective, Regression):
            found["targets"], found["predicted"] = batch.targets, outputs
        if batch.lengths is not None:
            found["lengths"] = batch.lengths
        return found

    return _batch_after_batch(batch_answers, split, indices)


def answers_on(
    model: Backbone,
    split: Split,
    objective: Objective,
    *,
    batch: int = 64,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Answers:
    """What a model says about a whole split; `report` is called as in `evaluate`."""
    parts = list(_over(answers_at, model, split, objective, batch, report))

    def joined(name: str) -> NDArray[Any]:
        every = np.concatenate([np.asarray(part[name]) for part in parts])
        return every.reshape(-1, *every.shape[2:])[: split.size]

    return Answers(**{name: joined(name) for name in parts[0]})


def _over(compute: Any, model: Any, split: Split, objective: Objective, batch: int, report: Any):
    """What is computed of every few batches of a split; the last batch is filled up."""
    if not isinstance(model, Backbone):
        raise PersistorError(f"model is {model!r}; give a Backbone")
    if not isinstance(split, Split):
        raise PersistorError(f"split is {split!r}; give a split, such as task.split('test')")
    if not isinstance(objective, Objective):
        raise PersistorError(f"objective is {objective!r}; give an objective, such as a task's")
    check_size("batch", batch)
    total = split.size
    example = _one_example(split)
    encoding = model.encode_positions(example.inputs.length)
    count = -(-total // batch)
    repeats = example.distinct is not None
    at_most = count if repeats else max(1, 500_000 // (batch * encoding.length))
    for chunk in _chunks(count, at_most):
        indices = np.minimum(chunk[:, None] * batch + np.arange(batch), total - 1)
        yield compute(model, split, objective, jax.device_put(indices.astype(np.int32)), encoding)
        report(min((int(chunk[-1]) + 1) * batch, total), total)


def _chunks(count: int, at_most: int) -> list[np.ndarray]:
    """The numbers of that many batches in chunks of one size, so that one program scores all.

    The last ones may be beyond the end.
    """
    chunks = -(-count // at_most)
    return list(np.arange(-(-count // chunks) * chunks).reshape(chunks, -1))


def evaluate(
    model: Backbone,
    split: Split,
    objective: Objective,
    *,
    batch: int = 64,
    report: Callable[[int, int], None] = lambda done, total: None,
    compute: Callable = scores_at,
) -> float:
    """The mean metric over a whole split; `report(done, total)` is called every few batches.

    `compute` is `scores_at`, or the same compiled in another way.
    """
    scores = scores_on(model, split, objective, batch=batch, report=report, compute=compute)
    return float(jax.device_put(scores).mean())


def scores_on(
    model: Backbone,
    split: Split,
    objective: Objective,
    *,
    batch: int = 64,
    report: Callable[[int, int], None] = lambda done, total: None,
    compute: Callable = scores_at,
) -> NDArray[Any]:
    """The metric of each example of a split; for the options see `evaluate`."""
    parts = _over(compute, model, split, objective, batch, report)
    return np.concatenate([np.asarray(part).ravel() for part in parts])[: split.size]
