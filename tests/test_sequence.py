"""Dense and Indexed, with or without a shared rest, are ways to write the same sequence.

Sequences of many lengths come in batches of similar ones, and no step is computed beyond them. A
sequence that a batch repeats is computed once, with the outputs and gradients of the plain batch.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from persistor import Experiment, ModelSpec
from persistor.bench.workloads import CopyFirstRepeated
from persistor.cells import CELLS
from persistor.model import Backbone, Pooling
from persistor.nn.layers import LayerNorm, Linear
from persistor.nn.sequence import Dense, Indexed
from persistor.tasks import CopyFirstDiscrete
from persistor.tasks.copy_first import SYMBOLS
from persistor.tasks.task import Bucketed
from persistor.tasks.text import BUCKETS, Ragged
from persistor.training.evaluation import answers_on, evaluate, outputs_on, sampled_indices

VALUES, STEPS, WIDTH, ENCODING = 5, 11, 6, 4


@pytest.fixture(params=["plain", "positions", "normalised"])
def operate(request, key):
    """The operations of a block before its cell."""
    table, mix, norm, linear = jax.random.split(key, 4)
    table = jax.random.normal(table, (STEPS, ENCODING))
    mix = jax.random.normal(mix, (ENCODING, WIDTH))
    scale, shift = 1 + 0.3 * jax.random.normal(norm, (2, WIDTH))
    layer = LayerNorm(WIDTH)
    layer = jax.tree.unflatten(jax.tree.structure(layer), [scale, shift])

    def operate(xs):
        if request.param != "plain":
            xs = xs.add_positions(table, mix)
        if request.param == "normalised":
            xs = xs.normalise(layer)
        return xs.linear(Linear(WIDTH, 4, key=linear))

    return operate


@pytest.fixture(params=[None, 1, 4])
def pair(request, operate, key):
    """The same sequence in both forms, after the same operations; the rest shared, if any is."""
    rows, ids = jax.random.split(jax.random.fold_in(key, 1))
    own = STEPS if request.param is None else request.param
    indexed = Indexed(
        jax.random.normal(rows, (VALUES, WIDTH)),
        jax.random.randint(ids, (3, own), 0, VALUES, jnp.int32),
        rest=STEPS - own,
    )
    return operate(indexed), operate(Dense(indexed.dense()))


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_they_write_out_the_same(pair):
    indexed, dense = pair
    assert isinstance(indexed, Indexed)
    assert isinstance(dense, Dense)
    assert (indexed.length, indexed.batch) == (dense.length, dense.batch) == (STEPS, (3,))
    close(indexed.dense(), dense.dense())


@pytest.mark.parametrize("lengths", [None, (1, 7, STEPS)])
def test_the_last_step_is_the_same(pair, lengths):
    indexed, dense = pair
    lengths = None if lengths is None else jnp.array(lengths)
    ends = [STEPS] * 3 if lengths is None else lengths.tolist()
    expected = jnp.stack([dense.values[b, e - 1] for b, e in enumerate(ends)])[:, None]
    close(dense.last(lengths).values, expected)
    last = indexed.last(lengths).values
    if indexed.rest and lengths is None:
        assert last.shape == (1, 1, 4)  # once for all
    close(jnp.broadcast_to(last, expected.shape), expected)


def test_a_pointwise_map_is_the_same(pair):
    indexed, dense = pair
    close(indexed.map(jnp.tanh).dense(), dense.map(jnp.tanh).dense())


def test_a_norm_of_a_norm_is_the_same(pair):
    indexed, dense = pair
    close(indexed.normalise(LayerNorm(4)).dense(), dense.normalise(LayerNorm(4)).dense())


def test_a_shared_rest_is_the_same_for_all(pair):
    indexed, dense = pair
    if not indexed.rest:
        with pytest.raises(ValueError, match="its own"):
            indexed.parts()
        return
    own, rest = indexed.parts()
    close(own.dense(), dense.values[:, : own.length])
    for values in dense.values:
        close(rest.dense(), values[own.length :])
    assert not indexed.whole().rest


def test_positions_are_added_once(key):
    xs = Indexed(jnp.ones((2, 3)), jnp.zeros((4,), jnp.int32))
    table, mix = jnp.ones((4, 2)), jnp.ones((2, 3))
    with pytest.raises(ValueError, match="already"):
        xs.add_positions(table, mix).add_positions(table, mix)


KINDS, LONGEST = 5, 40


class Mean:
    """The first output, so that evaluation is a mean of predictions."""

    metric, higher_is_better, perfect = "mean", True, None

    def score(self, outputs, targets):
        return outputs[:, 0]

    loss = score


def ragged(count=23, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 60, count)
    starts = np.cumsum([0, *lengths[:-1]])
    tokens = rng.integers(0, KINDS, lengths.sum()).astype(np.uint8)
    return Ragged.of(tokens, starts, lengths, np.arange(count), kinds=KINDS, longest=LONGEST)


@pytest.fixture
def model(key):
    cell = CELLS["cmru"](8, 4, key=key)
    return Backbone(KINDS, 3, (cell,), width=8, pooling=Pooling.MEAN, key=key)


def test_sequences_are_numbered_by_length_and_nothing_is_lost():
    split = ragged()
    assert isinstance(split, Bucketed)
    assert np.all(np.diff(split.lengths) >= 0)
    assert int(split.lengths.max()) == LONGEST
    assert sorted(np.asarray(split.targets)) == list(range(split.size))
    assert [b.begin for b in split.buckets[1:]] == [b.end for b in split.buckets[:-1]]
    assert (split.buckets[0].begin, split.buckets[-1].end) == (0, split.size)
    for bucket in split.buckets:
        assert int(split.lengths[bucket.begin : bucket.end].max()) == bucket.length


@pytest.mark.parametrize("count", [1, 2, BUCKETS])
def test_a_small_split_has_buckets_that_are_not_empty(count):
    assert all(b.begin < b.end for b in ragged(count).buckets)


@pytest.mark.slow
def test_what_is_cut_off_is_padding(model):
    split, encoding = ragged(), model.encode_positions(LONGEST)

    @eqx.filter_jit
    def both(model, indices):
        """Outputs and gradients, cut off and whole."""
        batch = split.at(indices)

        def whole(model):
            return model(batch.inputs, lengths=batch.lengths, encoding=encoding)[0]

        def cut(model):
            return outputs_on(model, split, batch, encoding)

        gradient = eqx.filter_grad(lambda model, f: jnp.sin(f(model)).sum())
        return [(f(model), gradient(model, f)) for f in (cut, whole)]

    for bucket in split.buckets:
        indices = jnp.linspace(bucket.begin, bucket.end - 1, 4).astype(jnp.int32)
        one, two = map(jax.tree.leaves, both(model, indices))
        for a, b in zip(one, two, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-4)


def test_a_batch_is_of_one_bucket_and_every_example_is_as_likely_as_another():
    split = ragged()
    drawn = np.asarray(sampled_indices(jax.random.key(0), split, (4000, 8)))
    ends = [bucket.end for bucket in split.buckets]
    buckets = np.searchsorted(ends, drawn, side="right")
    assert np.all(buckets == buckets[:, :1])
    share = np.bincount(drawn.ravel(), minlength=split.size) / drawn.size
    np.testing.assert_allclose(share, 1 / split.size, rtol=0.15)


def test_a_whole_split_is_evaluated_as_if_it_were_padded(model):
    split = ragged()
    batch = split.at(jnp.arange(split.size, dtype=jnp.int32))
    whole, _ = eqx.filter_jit(model)(batch.inputs, lengths=batch.lengths)
    assert evaluate(model, split, Mean(), batch=8) == pytest.approx(float(whole[:, 0].mean()), 1e-4)


def symbols(cell="cmru", **options):
    """A model of copy-first, and the same split twice: as it is, and computing every example."""
    spec = ModelSpec((cell,), state_size=3, width=8, encoding=4, **options)
    model = Experiment(CopyFirstDiscrete(9), spec).build()
    return model, CopyFirstDiscrete(9).split("test"), CopyFirstRepeated(9).split("test")


@pytest.mark.parametrize(
    ("cell", "count"), [*((name, 64) for name in sorted(CELLS)), ("cmru", 1), ("cmru", SYMBOLS + 1)]
)
def test_a_sequence_that_a_batch_repeats_is_computed_once(cell, count):
    model, split, plain = symbols(cell)
    encoding, indices = model.encode_positions(9), jnp.arange(count, dtype=jnp.int32)

    @eqx.filter_jit
    @eqx.filter_value_and_grad(has_aux=True)
    def loss(model, split):
        batch = split.at(indices)
        outputs = outputs_on(model, split, batch, encoding, key=jax.random.key(0))
        return CopyFirstDiscrete.objective.loss(outputs, batch.targets).mean(), outputs

    for a, b in zip(*map(jax.tree.leaves, (loss(model, split), loss(model, plain))), strict=True):
        close(a, b)


def test_what_a_batch_repeats_is_what_it_holds():
    batch = CopyFirstDiscrete(5).split("train").at(jnp.arange(40, dtype=jnp.int32))
    assert batch.distinct is not None
    sequences = np.asarray(batch.distinct.inputs.dense())
    assert len(np.unique(sequences, axis=0)) == len(sequences) == SYMBOLS
    np.testing.assert_array_equal(sequences[batch.distinct.which], batch.inputs.dense())


@pytest.mark.parametrize("options", [{"dropout": 0.5}, {"cell": "positive-cmru", "noise": 0.5}])
def test_nothing_is_shared_where_something_is_drawn_for_each_sequence(options):
    model, split, plain = symbols(**options)
    encoding, indices = model.encode_positions(9), jnp.zeros(40, jnp.int32)
    ours, theirs = (
        outputs_on(model, s, s.at(indices), encoding, key=jax.random.key(0)) for s in (split, plain)
    )
    np.testing.assert_array_equal(ours, theirs)
    assert len(np.unique(ours, axis=0)) > 1


def test_repeated_sequences_are_evaluated_as_if_each_were_computed():
    model, split, plain = symbols()
    assert evaluate(model, split, Mean()) == pytest.approx(evaluate(model, plain, Mean()), 1e-5)
    ours, theirs = (answers_on(model, s, CopyFirstDiscrete.objective) for s in (split, plain))
    np.testing.assert_array_equal(ours.targets, theirs.targets)
    close(ours.confidence, theirs.confidence)
