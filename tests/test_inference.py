"""A call without a gradient is compiled by itself, and a large batch is computed in pieces."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from persistor import CELLS, CMRU, Architecture, Backbone, Dense, Indexed, MinGRU, Pooling
from persistor.bench.inference import batches
from persistor.bench.measure import QUICK
from persistor.nn.sequence import in_pieces
from persistor.tasks import CopyFirstNoisy
from persistor.training.evaluation import answers_on, evaluate

WIDTH, STEPS, BATCH = 8, 2_000, 7
HIDDEN = 64  # so wide that two sequences are a piece


class Counting(CMRU):
    """Says how often Python has seen its gate."""

    seen = 0

    def gate(self, p):
        type(self).seen += 1
        return super().gate(p)

    kernel = None


def model_of(kind=MinGRU, blocks=2, pooling=Pooling.MEAN, encoding=4):
    keys = jax.random.split(jax.random.key(0), blocks + 1)
    cells = tuple(kind(WIDTH, 3, key=key) for key in keys[1:])
    architecture = Architecture(encoding=encoding, hidden=HIDDEN)
    return Backbone(
        2, 5, cells, width=WIDTH, architecture=architecture, pooling=pooling, key=keys[0]
    )


def close(a, b):
    """Equal to rounding: relative to the largest entry."""
    a, b = np.asarray(a), np.asarray(b)
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * np.abs(b).max(initial=1.0))


def apart(model, inputs, memory, lengths):
    """The same call inside a transformation, where it is computed as a whole."""
    return eqx.filter_jit(lambda *given: model(*given[:2], lengths=given[2]))(
        inputs, memory, lengths
    )


@pytest.mark.parametrize("pooling", list(Pooling))
@pytest.mark.parametrize("indexed", [False, True])
def test_pieces_are_the_whole(pooling, indexed):
    """Answers and memory, with lengths and without, from the start and from a memory."""
    model, key = model_of(pooling=pooling), jax.random.key(1)
    inputs = jax.random.normal(key, (BATCH, STEPS, 2))
    if indexed:
        ids = jax.random.randint(key, (BATCH, STEPS), 0, 3, jnp.int32)
        inputs = Indexed(inputs[0, :3], ids)
    lengths = jnp.asarray([2_000, 1, 3, 2_000, 200, 50, 4], jnp.int32)
    assert model._pieces(inputs if indexed else Dense(inputs)) == 4
    memory = None
    for given in (None, lengths):
        ours, theirs = model(inputs, memory, lengths=given), apart(model, inputs, memory, given)
        jax.tree.map(close, ours, theirs)
        memory = ours[1]


def test_pieces_of_sequences_that_stopped_at_different_positions():
    model = model_of(encoding=0)
    inputs = jax.random.normal(jax.random.key(1), (BATCH, STEPS, 2))
    _, memory = model(inputs, lengths=jnp.arange(BATCH, dtype=jnp.int32))
    assert memory.position.shape == (BATCH,)
    jax.tree.map(close, model(inputs, memory), apart(model, inputs, memory, None))


@pytest.mark.parametrize("name", sorted(CELLS))
def test_a_cell_in_pieces(name):
    """Its state, which may be complex, is cut and joined. Rounding may move a hard gate."""
    model = model_of(CELLS[name], blocks=1)
    inputs = jax.random.normal(jax.random.key(1), (BATCH, STEPS, 2))
    (ours, after), (theirs, then) = model(inputs), apart(model, inputs, None, None)
    same = np.isclose(ours, theirs, atol=1e-4).all(-1)
    same &= np.isclose(after.cells[0], then.cells[0], rtol=1e-4, atol=1e-4).all(-1)
    assert same.sum() >= BATCH - 1


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7])
def test_an_uneven_number_is_cut_into_pieces(count):
    x = jnp.arange(14.0).reshape(7, 2)
    found = in_pieces(lambda part: (part[0] * 2, part[0].sum(-1)), (x, None), count)
    np.testing.assert_array_equal(found[0], x * 2)
    np.testing.assert_array_equal(found[1], x.sum(-1))


def test_a_split_is_evaluated_in_pieces():
    task = CopyFirstNoisy(50)
    model = Backbone(
        1,
        1,
        (MinGRU(WIDTH, 3, key=jax.random.key(0)),),
        width=WIDTH,
        architecture=Architecture(encoding=4, hidden=HIDDEN),
        key=jax.random.key(1),
    )
    inputs = task.split("test").at(jnp.arange(2_000, dtype=jnp.int32)).inputs
    assert model._pieces(inputs.head(50)) == 25
    whole = eqx.filter_jit(lambda model, inputs: model(inputs)[0])(model, inputs)
    found = answers_on(model, task.split("test"), task.objective, batch=125)
    close(found.predicted, whole)
    value = evaluate(model, task.split("test"), task.objective, batch=125)
    assert value == pytest.approx(float(jnp.abs(whole - inputs.values[:, 0]).mean()), abs=1e-5)


def test_a_call_is_compiled_once_for_each_shape():
    model = model_of(Counting, blocks=1)
    inputs = np.zeros((BATCH, 6, 2), np.float32)
    for times, given in ((1, inputs), (1, inputs + 1), (2, inputs[1:]), (2, inputs[1:])):
        model(given)
        assert Counting.seen == times
    other = eqx.tree_at(lambda m: m.encoder.linear.bias, model, jnp.ones(WIDTH))
    other(inputs)
    assert Counting.seen == 2  # other weights are the same program


@pytest.mark.slow
def test_inside_a_transformation_a_call_is_part_of_it():
    """One program, without another inside: what somebody compiles is what they compile."""
    model = model_of(blocks=1)
    x = jnp.zeros((BATCH, 6, 2))
    text = str(jax.make_jaxpr(lambda x: model(x)[0])(x))
    assert "_answered" not in text
    gradient = eqx.filter_grad(lambda model: model(x)[0].sum())(model)
    assert float(jnp.abs(gradient.decoder.linear.bias).max()) > 0


@pytest.mark.slow
def test_a_batch_is_measured():
    rows = list(batches(QUICK))
    assert {"ONNX Runtime", "PyTorch", "inside jax.jit"} <= {row.against for row in rows}
    for row in rows:
        assert row.ratio is not None or row.note.startswith("not here:")
