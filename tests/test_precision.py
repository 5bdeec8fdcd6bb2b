"""Any precision: double, single, and inputs or parameters of half (bfloat16), for every cell."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest

from persistor import CELLS, Architecture, Backbone, Dense, PersistorError, Pooling
from persistor.kernels import library
from persistor.kernels.engine import engine
from persistor.nn.sequence import Indexed

NAMES = sorted(CELLS)
ENGINES = ("auto", "parallel")  # in other than single precision auto is sequential
B, T, M, D = 2, 7, 6, 4
HALF = 2.0**-7  # of bfloat16: relative, a step from one number to the next


def test_registry_is_not_empty():
    assert len(NAMES) >= 5


def draw(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def cell_named(name):
    """A cell with biases and scales that are not at their special starting values."""
    cell = CELLS[name](M, D, key=jax.random.key(3))
    if cell.project.bias is not None:
        bias = jnp.asarray(0.3 * draw(1, cell.project.bias.size), cell.project.bias.dtype)
        cell = eqx.tree_at(lambda c: c.project.bias, cell, bias)
    return cell


def network(*names, pooling=Pooling.MEAN):
    *keys, last = jax.random.split(jax.random.key(5), len(names) + 1)
    cells = tuple(CELLS[name](8, D, key=k) for name, k in zip(names, keys, strict=True))
    architecture = Architecture(encoding=4)
    return Backbone(M, 3, cells, width=8, architecture=architecture, pooling=pooling, key=last)


@eqx.filter_jit
def compiled(model, x, **options):
    """What a model gives, as one program instead of one for each operation."""
    return model(x, **options)


def results_and_gradients(model, x):
    """What a model gives, and the gradients of a number made of all of it, for all its weights."""

    @eqx.filter_jit
    def both(model, x):
        def number(pair):
            y, memory = pair[0](pair[1])
            leaves = [y, *(a for a in jax.tree.leaves(memory) if eqx.is_inexact_array(a))]
            total = sum(jnp.square(jnp.abs(a)).sum().astype("float32") for a in leaves[1:])
            return jnp.cos(y).sum().astype("float32") + total, (y, memory)

        (_, results), gradients = eqx.filter_value_and_grad(number, has_aux=True)((model, x))
        return results, gradients

    return both(model, x)


def streamed(model, x, state):
    step = eqx.filter_jit(lambda model, x, state: model.step(x, state))
    ys = []
    for t in range(x.shape[-2]):
        y, state = step(model, x[..., t, :], state)
        ys.append(y)
    return jnp.stack(ys, -2), state


def close(one, two, tolerance):
    """Equal, relative to each array's largest entry, in values and types."""
    assert jax.tree.structure(one) == jax.tree.structure(two)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        assert a.dtype == b.dtype
        wide = np.complex128 if jnp.iscomplexobj(a) else np.float64
        a, b = np.asarray(a).astype(wide), np.asarray(b).astype(wide)
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * (np.abs(b).max(initial=0) + 1e-3))


def types(tree):
    return {str(a.dtype) for a in jax.tree.leaves(tree) if eqx.is_inexact_array(a)}


@pytest.fixture
def double():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("name", NAMES)
def test_in_double_precision_engines_agree_with_streaming_and_the_oracle(name, double):
    cell, x = cell_named(name), jnp.asarray(draw(0, B, T, M))
    found = {}
    for choice in ENGINES:
        with engine(choice):
            found[choice] = results_and_gradients(cell, x)
    (ys, last), gradients = found["auto"]
    assert types((cell, ys, gradients)) == {"float64"}
    assert types(last) == {"complex128" if name == "lru" else "float64"}
    for other in found.values():
        close(other, found["auto"], 1e-11)
    close(streamed(cell, x, cell.initial_state((B,))), (ys, last), 1e-11)
    for y, one in zip(ys, x, strict=True):
        close(y, jnp.asarray(oracle.outputs(name, cell, one, np.zeros(D))), 1e-11)
    with engine("native"), pytest.raises(PersistorError, match="single precision, not in"):
        cell(x)


@pytest.mark.parametrize("pooling", [Pooling.MEAN, Pooling.NONE])
def test_in_double_precision_a_network_agrees_with_streaming(pooling, double):
    model = network("cmru", "lru", pooling=pooling)
    x = jnp.asarray(draw(0, B, T, M))
    found = {}
    for choice in ENGINES:
        with engine(choice):
            found[choice] = results_and_gradients(model, x)
    (ys, memory), gradients = found["auto"]
    assert types((model, ys, gradients)) == {"float64"}
    for other in found.values():
        close(other, found["auto"], 1e-10)
    steps, after = streamed(model, x, model.initial_state((B,)))
    close(steps if pooling is Pooling.NONE else steps[:, -1], ys, 1e-10)
    close(after, memory, 1e-10)
    compact, _ = compiled(model, x, encoding=model.encode_positions(T))
    close(compact, ys, 1e-10)


def test_in_double_precision_few_values_are_the_same_as_all_written_out(double):
    model = network("cmru", "mingru")
    ids = jnp.asarray(np.random.default_rng(0).integers(0, 3, (B, T)), jnp.int32)
    x = Indexed(jnp.asarray(draw(0, 3, M)), ids)
    encoding = model.encode_positions(T)
    few = compiled(model, x, encoding=encoding)[0]
    close(few, compiled(model, Dense(x.dense()), encoding=encoding)[0], 1e-10)


@pytest.mark.skipif(library().variant is None, reason=library().reason)
@pytest.mark.parametrize("name", ["cmru", "lru"])
def test_a_model_of_single_precision_stays_native_where_double_is_enabled(name):
    model, x = network(name), jnp.asarray(draw(0, B, T, M), jnp.float32)
    expected = results_and_gradients(model, x)
    with jax.enable_x64(True), engine("native"):
        found = results_and_gradients(model, x)
        close(found, expected, 1e-5)
        outputs, memory = compiled(model, jnp.asarray(draw(0, B, T, M)))
        assert types(outputs) == {"float64"}
        assert types(memory) == {"complex64", "float32"} if name == "lru" else {"float32"}


@pytest.mark.parametrize("name", NAMES)
def test_inputs_of_half_precision_are_computed_in_that_of_the_parameters(name):
    cell, half = cell_named(name), jnp.asarray(draw(0, B, T, M), jnp.bfloat16)
    (ys, last), gradients = results_and_gradients(cell, half)
    (full_ys, full_last), full = results_and_gradients(cell, half.astype(jnp.float32))
    close(ys, full_ys.astype(jnp.bfloat16), 0)  # once rounded, nothing else
    close(last, full_last, 1e-6)
    assert types(gradients[0]) == {"float32"}
    close(gradients[0], full[0], 4 * HALF)  # the cotangent of the outputs was rounded
    close(gradients[1], full[1].astype(jnp.bfloat16), 4 * HALF)
    y, state = cell.step(half[:, 0], cell.initial_state((B,)))
    assert (y.dtype, state.dtype) == (jnp.bfloat16, cell.state_dtype)


def test_a_network_takes_inputs_of_half_precision():
    model, half = network("cmru", "lru"), jnp.asarray(draw(0, B, T, M), jnp.bfloat16)
    (ys, memory), gradients = results_and_gradients(model, half)
    (full_ys, full_memory), full = results_and_gradients(model, half.astype(jnp.float32))
    close(ys, full_ys.astype(jnp.bfloat16), HALF)
    close(memory, full_memory, 1e-5)
    close(gradients[0], full[0], 4 * HALF)


def halved(model):
    return jax.tree.map(lambda a: a.astype(jnp.bfloat16) if eqx.is_inexact_array(a) else a, model)


@pytest.mark.parametrize("name", NAMES)
def test_parameters_of_half_precision_work(name):
    """States of half precision too. The unit that rounds to the other side of a threshold is why
    only cells without one are compared."""
    cell = halved(cell_named(name))
    x = jnp.asarray(draw(0, B, T, M), jnp.bfloat16)
    (ys, last), gradients = results_and_gradients(cell, x)
    lengths, resets = jnp.array([T, 3]), jnp.zeros((B, T), bool).at[:, 4].set(True)
    with engine("parallel"):
        masked, _ = compiled(cell, x, lengths=lengths, resets=resets)
    assert types((ys, gradients)) == {"bfloat16"}
    assert types(last) == {"complex64" if name == "lru" else "bfloat16"}
    assert all(bool(jnp.isfinite(a).all()) for a in (ys, last, masked, *jax.tree.leaves(gradients)))
    if name in ("mingru", "lru"):
        wide = jax.tree.map(lambda a: a.astype(jnp.float32), eqx.filter(cell, eqx.is_array))
        full, _ = compiled(eqx.combine(wide, cell), x.astype(jnp.float32))
        close(ys.astype(jnp.float32), full, 8 * HALF)


def test_a_network_of_half_precision_works():
    model = halved(network("mingru", "lru"))
    x = jnp.asarray(draw(0, B, T, M), jnp.float32)
    (ys, memory), gradients = results_and_gradients(model, x)
    assert types(ys) == {"float32"}
    assert types(gradients[0]) == {"bfloat16"}
    assert types(memory) == {"bfloat16", "complex64"}
    compact, _ = compiled(model, x, encoding=model.encode_positions(T))
    close(compact, ys, 8 * HALF)
    with engine("native"), pytest.raises(PersistorError, match="single precision, not in bfloat16"):
        model(x)
