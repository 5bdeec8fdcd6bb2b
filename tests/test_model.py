"""Laws of the whole backbone, over every cell and every pooling."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from persistor import CELLS, Backbone, Dense, Indexed, PersistorError, Pooling
from persistor.experiment import ModelSpec, cell_class
from persistor.model import PAPER
from persistor.nn.positions import compact_encoding, sinusoid
from persistor.nn.sequence import inside

WIDTH, STEPS, VALUES = 16, 12, 5
NAMES = sorted(CELLS)
NO_POSITIONS = PAPER.but({"encoding": 0})


def build(names, pooling=Pooling.LAST, dropout=0.0, architecture=PAPER):
    keys = jax.random.split(jax.random.key(3), len(names) + 1)
    epsilon = 0.5 if any("cmru" in name and name != "bmru" for name in names) else None
    spec = ModelSpec(tuple(names), state_size=3, width=WIDTH, epsilon=epsilon)
    cells = tuple(
        spec.build_cell(cell_class(name), key=k) for name, k in zip(names, keys[1:], strict=True)
    )
    model = Backbone(
        2,
        4,
        cells,
        width=WIDTH,
        architecture=architecture,
        pooling=pooling,
        dropout=dropout,
        key=keys[0],
    )
    arrays, rest = eqx.partition(model, eqx.is_array)
    leaves, tree = jax.tree.flatten(arrays)  # away from the special values at the start
    keys = jax.random.split(jax.random.key(4), len(leaves))
    moved = [x + 0.1 * jax.random.normal(k, x.shape) for x, k in zip(leaves, keys, strict=True)]
    return eqx.combine(jax.tree.unflatten(tree, moved), rest)


@pytest.fixture
def inputs(key):
    rows, ids = jax.random.split(key)
    return Indexed(
        jax.random.normal(rows, (VALUES, 2)),
        jax.random.randint(ids, (3, STEPS), 0, VALUES, jnp.int32),
    )


call = eqx.filter_jit(lambda model, xs, memory=None, **options: model(xs, memory, **options))


def close(a, b, tolerance=2e-4):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


HYBRID = ("mingru", "cmru")
LENGTHS = (4, STEPS, 7)
CASES = [((name,), Pooling.LAST, None) for name in NAMES]
CASES += [(HYBRID, pooling, lengths) for pooling in Pooling for lengths in (None, LENGTHS)]
SHARED = [(*case, False) for case in CASES]
SHARED += [((name,), Pooling.LAST, None, True) for name in NAMES]
SHARED += [(HYBRID, Pooling.MEAN, None, True), (("cmru",), Pooling.LAST, LENGTHS, True)]
STREAMS = [((name,), Pooling.LAST) for name in NAMES] + [(HYBRID, pooling) for pooling in Pooling]


@pytest.mark.parametrize(("stack", "pooling", "lengths", "shared"), SHARED)
def test_dense_equals_indexed(stack, pooling, lengths, shared, inputs):
    """Outputs, and gradients for every weight; also where all steps but the first are shared."""
    model = build(stack, pooling)
    if shared:
        inputs = Indexed(inputs.rows, inputs.ids[:, :1], rest=STEPS - 1)
    lengths = None if lengths is None else jnp.array(lengths)

    @eqx.filter_jit
    @eqx.filter_value_and_grad(has_aux=True)
    def loss(model, xs):
        outputs, _ = model(xs, lengths=lengths)
        if lengths is not None and pooling is Pooling.NONE:
            outputs = jnp.where(inside(lengths, STEPS)[..., None], outputs, 0.0)
        return jnp.square(outputs).mean(), outputs

    (_, indexed), indexed_grads = loss(model, inputs)
    (_, dense), dense_grads = loss(model, Dense(inputs.dense()))
    close(indexed, dense)
    jax.tree.map(lambda a, b: close(a, b, 1e-3), indexed_grads, dense_grads)


@pytest.mark.parametrize(("stack", "pooling"), STREAMS)
def test_chunked_and_streamed_equal_whole(stack, pooling, inputs):
    model = build(stack, pooling)
    x = inputs.dense()
    whole, memory = call(model, Dense(x))
    _, half = call(model, Dense(x[:, :5]))
    chunked, chunked_memory = call(model, Dense(x[:, 5:]), half)
    close(chunked, whole[:, 5:] if pooling is Pooling.NONE else whole)
    jax.tree.map(close, chunked_memory, memory)
    stream, step = model.initial_state((3,)), eqx.filter_jit(lambda x, m: model.step(x, m))
    for t in range(STEPS):
        streamed, stream = step(x[:, t], stream)
    close(streamed, whole[:, -1] if pooling is Pooling.NONE else whole)
    jax.tree.map(close, stream, memory)


@pytest.mark.parametrize("pooling", [Pooling.LAST, Pooling.MEAN])
def test_padding_changes_nothing(pooling, inputs):
    model = build(("cmru", "lru"), pooling)
    x = inputs.dense()
    short, _ = call(model, Dense(x[:, :7]))
    padded, _ = call(model, Dense(x), lengths=jnp.array([7, 7, 7]))
    close(padded, short)


def test_a_stream_goes_on_after_padding(inputs):
    model = build(("cmru", "lru"), Pooling.MEAN, architecture=NO_POSITIONS)
    x, lengths = inputs.dense(), jnp.array([4, 6, 0])
    whole, _ = call(model, Dense(x[:, :10]))
    _, memory = call(model, Dense(x[:, :6]), lengths=lengths)
    assert jnp.all(memory.position == lengths)
    rest = jnp.stack([x[i, n : n + 4] for i, n in enumerate((4, 6, 0))])
    ended, after = call(model, Dense(rest), memory)
    close(ended[1], whole[1])
    close(ended[0], call(model, Dense(x[:1, :8]))[0][0])
    assert after.position.tolist() == [8, 10, 4]
    nothing, _ = call(model, Dense(x), lengths=jnp.zeros(3, int))
    assert jnp.isfinite(nothing).all()


def test_with_positions_a_stream_cannot_go_on_from_several(inputs):
    model = build(("cmru",), Pooling.LAST)
    _, memory = call(model, inputs, lengths=jnp.array([4, 6, 5]))
    with pytest.raises(PersistorError, match="different positions"):
        call(model, inputs, memory)


def test_epsilon_moves_in_every_cumulative_cell_and_is_not_trained():
    model = build(("cmru", "mingru", "alpha-cmru"))
    moved = model.with_epsilon(jnp.array(-1.0))
    assert [float(moved.blocks[i].cell.epsilon) for i in (0, 2)] == [-1.0, -1.0]
    params, rest = eqx.partition(model, eqx.is_inexact_array)
    assert params.blocks[0].cell.epsilon is None
    assert rest.blocks[0].cell.project.weight is None


def test_dropout_needs_a_key_and_then_differs_by_step(inputs):
    model = build(("mingru",), Pooling.NONE, dropout=0.5)
    close(model(inputs)[0], model(inputs)[0], 0)
    one, two = (model(inputs, key=jax.random.key(k))[0] for k in (0, 1))
    assert not np.allclose(one, two)
    same = Indexed(inputs.rows, jnp.zeros_like(inputs.ids))
    no_positions = build(
        ("mingru",), Pooling.NONE, dropout=0.5, architecture=PAPER.but({"encoding": 0})
    )
    outputs = np.asarray(no_positions(same, key=jax.random.key(0))[0])
    assert not np.allclose(outputs[0, 0], outputs[1, 0])


@pytest.mark.parametrize("pooling", Pooling)
def test_rematerialising_changes_nothing(pooling, inputs):
    """Outputs, and gradients for every weight."""
    model = build(HYBRID, pooling)

    @eqx.filter_jit
    @eqx.filter_value_and_grad(has_aux=True)
    def loss(model, remat):
        outputs, _ = model(inputs, lengths=jnp.array(LENGTHS), remat=remat)
        return jnp.square(outputs).mean(), outputs

    (_, kept), kept_grads = loss(model, False)
    (_, again), again_grads = loss(model, True)
    close(again, kept, 1e-5)
    jax.tree.map(lambda a, b: close(a, b, 1e-4), again_grads, kept_grads)


def test_the_encoding_is_the_sinusoid():
    table = np.asarray(sinusoid(jnp.array([0, 3, 50]), 8), np.float64)
    frequencies = 1.0 / 10_000 ** (np.arange(4) / 4)
    for row, position in zip(table, (0, 3, 50), strict=True):
        np.testing.assert_allclose(row[:4], np.sin(position * frequencies), atol=1e-5)
        np.testing.assert_allclose(row[4:], np.cos(position * frequencies), atol=1e-5)


@pytest.mark.parametrize(("steps", "width"), [(1, 8), (30, 64), (784, 256), (3000, 64)])
def test_a_compact_encoding_is_the_encoding(steps, width):
    compact = compact_encoding(steps, width)
    table = np.asarray(sinusoid(jnp.arange(steps), width), np.float64)
    np.testing.assert_allclose(
        np.asarray(compact.codes, np.float64) @ np.asarray(compact.basis, np.float64),
        table,
        atol=2e-5,
    )
    assert compact.codes.shape[1] <= min(steps, width)
    if steps == 784:
        assert compact.codes.shape[1] < 110


def test_a_model_with_a_compact_encoding_is_the_same(inputs):
    """Outputs, and gradients for every weight."""
    model = build(HYBRID, Pooling.NONE)

    @eqx.filter_jit
    @eqx.filter_value_and_grad(has_aux=True)
    def loss(model, table):
        outputs, _ = model(inputs, encoding=table)
        return jnp.square(outputs).mean(), outputs

    (_, plain), plain_grads = loss(model, None)
    (_, compact), compact_grads = loss(model, model.encode_positions(STEPS))
    close(compact, plain)
    jax.tree.map(lambda a, b: close(a, b, 1e-3), compact_grads, plain_grads)
