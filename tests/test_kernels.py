"""The native engine computes what gating and `sequential` compute: values and all gradients."""

import os
import shutil
import subprocess
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from persistor._tools.errors import PersistorError
from persistor.cells import CELLS
from persistor.kernels import library
from persistor.kernels.doctor import examine
from persistor.kernels.engine import chosen, engine
from persistor.model import Backbone
from persistor.nn.sequence import Dense, Indexed, Positions
from persistor.recurrence.native import native_states
from persistor.recurrence.unroll import unroll

KERNELS = Path(__file__).parents[1] / "src" / "persistor" / "kernels"

needs_library = pytest.mark.skipif(library().variant is None, reason=library().reason)

INPUTS = ("dense", "indexed", "positions", "normed")
SIZES = [  # b, t, d, k
    (1, 1, 1, 2),
    (2, 2, 3, 5),
    (7, 63, 4, 3),
    (64, 63, 1, 2),
    (64, 200, 8, 16),
    (7, 200, 33, 9),
    (2, 63, 32, 256),
    (64, 2, 33, 2),
]


NATIVE = [name for name, kind in CELLS.items() if kind.kernel]


def test_every_cell_that_we_ship_has_a_kernel():
    assert {"bmru", "cmru", "alpha-cmru", "positive-cmru", "ladder", "mingru", "lru"} <= set(NATIVE)


def normal(seed, shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def cell_named(name, d, *, per_unit=False, m=5):
    """A cell with every parameter away from special values."""
    cell = CELLS[name](m, d, key=jax.random.key(d))
    if hasattr(cell, "scale"):
        cell = eqx.tree_at(lambda c: c.scale, cell, jnp.linspace(0.5, 1.5, d))
    if hasattr(cell, "threshold"):
        cell = eqx.tree_at(lambda c: c.threshold, cell, jnp.linspace(-0.83, 1.2, d))
    if hasattr(cell, "epsilon"):
        epsilon = jnp.linspace(-0.9, 0.95, d) if per_unit else jnp.float32(0.7)
        cell = eqx.tree_at(lambda c: c.epsilon, cell, epsilon)
    return cell


def projections(kind, b, t, p, k):
    """Random projections of one kind."""
    rng = np.random.default_rng(0)
    if kind == "dense":
        return Dense(jnp.asarray(normal(0, (b, t, p))))
    rows, ids = jnp.asarray(normal(1, (k, p))), jnp.asarray(rng.integers(0, k, (b, t)), jnp.int32)
    if kind == "indexed":
        return Indexed(rows, ids)
    table, mix = jnp.asarray(normal(2, (t, 3))), jnp.asarray(normal(3, (3, p)))
    if kind == "positions":
        return Indexed(rows, ids, Positions(table, mix))
    gain = jnp.asarray(0.5 + rng.random((k, t)), jnp.float32)
    return Indexed(rows, ids, Positions(table, mix, gain, jnp.asarray(normal(4, (p,)))))


def first_state(cell, b):
    real, imaginary = normal(5, (2, b, cell.state_size))
    is_complex = cell.state_dtype == jnp.complex64
    return jnp.asarray(real + 1j * imaginary if is_complex else real)


def boundaries(kind, b, t):
    rng = np.random.default_rng(6)
    lengths = jnp.asarray(rng.integers(0, t + 1, b), jnp.int32)
    resets = jnp.asarray(rng.random((b, t)) < 0.1)
    return {
        "lengths": lengths if kind in ("lengths", "both") else None,
        "resets": resets if kind in ("resets", "both") else None,
    }


def native(cell, sequence, first, every, **limits):
    """The fused kernel."""
    return native_states(cell, sequence, first, every=every, **limits)


def plain(cell, sequence, first, every, **limits):
    """The same in plain JAX."""
    with engine("sequential"):
        states, last = unroll(cell.gate(sequence.dense()), first, **limits)
    return (states if every else last[..., None, :]), last


def value_and_gradients(run, cell, sequence, first, every, limits):
    """Results, and the gradient of a number that depends on all of them."""

    def number(parts):
        results = run(*parts, every, **limits)
        total = 0.0
        for i, result in enumerate(results):
            weights = normal(10 + i, (2, *result.shape))
            total += jnp.sum(weights[0] * result.real + weights[1] * result.imag)
        return total, results

    inexact, rest = eqx.partition((cell, sequence, first), eqx.is_inexact_array)
    differentiate = jax.value_and_grad(lambda p: number(eqx.combine(p, rest)), has_aux=True)
    (_, results), gradients = jax.jit(differentiate)(inexact)
    return results, gradients


def assert_same(one, two, rtol=1e-4):
    """Equal to rounding: relative to each array's largest entry."""
    assert jax.tree.structure(one) == jax.tree.structure(two)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        np.testing.assert_allclose(a, b, rtol=0, atol=rtol * (np.abs(b).max(initial=0) + 1e-3))


@needs_library
@pytest.mark.parametrize("every", [True, False], ids=["all", "last"])
@pytest.mark.parametrize("limits", ["none", "lengths", "resets"])
@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("name", NATIVE)
def test_native_equals_sequential(name, kind, limits, every):
    choice = INPUTS.index(kind) + 3 * every + len(limits) + 3 * NATIVE.index(name)
    b, t, d, k = SIZES[choice % len(SIZES)]
    cell = cell_named(name, d, per_unit=every)
    p = cell.project.weight.shape[1]
    case = (cell, projections(kind, b, t, p, k), first_state(cell, b), every)
    case = (*case, boundaries(limits, b, t))
    assert_same(value_and_gradients(native, *case), value_and_gradients(plain, *case))


@needs_library
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", NATIVE)
def test_native_equals_sequential_at_all_sizes(name, size):
    b, t, d, k = size
    cell = cell_named(name, d)
    p = cell.project.weight.shape[1]
    case = (cell, projections("normed", b, t, p, k), first_state(cell, b), True)
    case = (*case, boundaries("both", b, t))
    assert_same(value_and_gradients(native, *case), value_and_gradients(plain, *case))


@needs_library
@pytest.mark.parametrize(("kind", "every"), [("dense", True), ("dense", False), ("normed", False)])
@pytest.mark.parametrize("name", NATIVE)
def test_going_from_memory_to_memory_equals_going_through_strips(name, kind, every):
    """Lengths, even if they cut nothing, lead past the shortcut for plain sequences."""
    b, t, d = 3, 37, 48 if kind == "normed" else 32  # blocks of one, two, three or four vectors
    cell = cell_named(name, d, per_unit=every)
    sequence = projections(kind, b, t, cell.project.weight.shape[1], 9)
    case = (native, cell, sequence, first_state(cell, b), every)
    full = {"lengths": jnp.full((b,), t, jnp.int32)}
    assert_same(value_and_gradients(*case, {}), value_and_gradients(*case, full), rtol=1e-5)


@needs_library
@pytest.mark.parametrize("name", NATIVE)
def test_four_units_side_by_side_equal_plain_and_strips(name):
    """Some values and sequences are left over; lengths, even full ones, lead past the shortcut."""
    b, t, k, every = 70, 33, 9, NATIVE.index(name) % 2 == 0
    cell = cell_named(name, 4, per_unit=True)
    sequence = projections("normed", b, t, cell.project.weight.shape[1], k)
    case = (cell, sequence, first_state(cell, b), every)
    found = value_and_gradients(native, *case, {})
    assert_same(found, value_and_gradients(plain, *case, {}))
    full = {"lengths": jnp.full((b,), t, jnp.int32)}
    assert_same(found, value_and_gradients(native, *case, full), rtol=1e-5)


@pytest.mark.slow
@needs_library
@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    name=st.sampled_from(NATIVE),
    kind=st.sampled_from(INPUTS),
    limits=st.sampled_from(["none", "lengths", "resets", "both"]),
    every=st.booleans(),
    b=st.integers(1, 70),
    t=st.integers(1, 90),
    d=st.integers(1, 70),
    k=st.integers(1, 20),
)
def test_native_equals_sequential_whatever_the_shape(name, kind, limits, every, b, t, d, k):
    cell = cell_named(name, d)
    p = cell.project.weight.shape[1]
    case = (cell, projections(kind, b, t, p, k), first_state(cell, b), every)
    case = (*case, boundaries(limits, b, t))
    assert_same(value_and_gradients(native, *case), value_and_gradients(plain, *case))


@needs_library
@pytest.mark.parametrize("levels", [1, 3])
@pytest.mark.parametrize("kind", INPUTS)
def test_a_ladder_is_the_same_to_the_last_bit(levels, kind):
    """Levels are whole numbers, and every step that arrives at an end or is held there counts."""
    cell = CELLS["ladder"](5, 8, levels=levels, key=jax.random.key(0))
    case = (cell, projections(kind, 9, 70, 8, 3), cell.initial_state((9,)), True)
    found, expected = native(*case), plain(*case)
    assert set(np.unique(found[0])) == set(range(levels + 1))
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, two)


def oracle_cmru(c, threshold, scale, epsilon, h, weights):
    """States, and the gradients of sum(weights * states), in float64, a step at a time."""

    def slope(x):
        return 1 / (1 + (np.pi * x) ** 2)

    z = (np.abs(c) >= np.abs(threshold)).astype(float)
    sign = np.where(c >= 0, 1.0, -1.0)
    before, states = np.empty_like(c), np.empty_like(c)
    for t in range(c.shape[1]):
        before[:, t] = h
        h = states[:, t] = z[:, t] * (sign[:, t] * scale + epsilon * h) + (1 - z[:, t]) * h
    dc, dthreshold, dscale = np.empty_like(c), np.empty_like(c), np.zeros_like(scale)
    depsilon, g = np.zeros_like(epsilon), np.zeros_like(h)
    for t in reversed(range(c.shape[1])):
        g = g + weights[:, t]
        dz = g * (sign[:, t] * scale + epsilon * before[:, t] - before[:, t])
        dmargin = dz * slope(np.abs(c[:, t]) - np.abs(threshold[:, t]))
        dc[:, t] = dmargin * np.sign(c[:, t]) + g * z[:, t] * scale * 2 * slope(c[:, t])
        dthreshold[:, t] = -dmargin * np.sign(threshold[:, t])
        dscale += (g * z[:, t] * sign[:, t]).sum(0)
        depsilon += (g * z[:, t] * before[:, t]).sum(0)
        g = g * (1 - z[:, t] + epsilon * z[:, t])
    return states, dc, dthreshold, dscale, depsilon, g


@needs_library
def test_cmru_equals_the_oracle():
    b, t, d = 5, 77, 12
    rng = np.random.default_rng(0)
    c, threshold, weights = rng.normal(size=(3, b, t, d)).astype(np.float32)
    c[:, 3], threshold[:, 5] = 0.0, 0.0  # where |x| has no derivative
    scale, h = rng.normal(size=d).astype(np.float32), rng.normal(size=(b, d)).astype(np.float32)
    epsilon = np.linspace(-1, 1, d, dtype=np.float32)

    def number(c, threshold, scale, epsilon, h):
        p = Dense(jnp.concatenate([c, threshold], -1))
        parameters = (scale, epsilon)
        cell = eqx.tree_at(lambda c: (c.scale, c.epsilon), cell_named("cmru", d), parameters)
        states, _ = native_states(cell, p, h)
        return jnp.sum(states * weights), states

    given_ = (c, threshold, scale, epsilon, h)
    arrays = map(jnp.asarray, given_)
    gradients, states = jax.grad(number, argnums=range(5), has_aux=True)(*arrays)
    wide = [x.astype(np.float64) for x in (*given_, weights)]
    assert_same((states, *gradients), oracle_cmru(*wide), rtol=2e-5)


@needs_library
@pytest.mark.parametrize("name", NATIVE)
@pytest.mark.parametrize("kind", ["dense", "normed"])
@pytest.mark.parametrize("k", [3, 200])
def test_same_bits_whatever_the_number_of_threads(name, kind, k, monkeypatch):
    cell = cell_named(name, 40)
    p = cell.project.weight.shape[1]
    case = (cell, projections(kind, 65, 50, p, k), first_state(cell, 65), True)
    results = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("PERSISTOR_THREADS", threads)
        results.append(value_and_gradients(native, *case, boundaries("lengths", 65, 50)))
    for other in results[1:]:
        for a, b in zip(jax.tree.leaves(results[0]), jax.tree.leaves(other), strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def mapped(run_one):
    """What computes a batch, from what computes a single sequence, by vmap."""

    def run(cell, sequence, first, every, lengths, resets):
        def batched(x):
            return None if x is None else 0

        axes = jax.tree.map(lambda _: None, sequence)

        def at(s):
            return s.values if isinstance(s, Dense) else s.ids

        axes = eqx.tree_at(at, axes, 0, is_leaf=lambda x: x is None)

        def one(s, h, n, r):
            return run_one(cell, s, h, every, lengths=n, resets=r)

        over = (axes, 0, batched(lengths), batched(resets))
        return jax.vmap(one, in_axes=over)(sequence, first, lengths, resets)

    return run


@needs_library
@pytest.mark.parametrize("name", NATIVE)
@pytest.mark.parametrize("kind", INPUTS)
def test_vmap_over_sequences_equals_a_batch(name, kind):
    cell = cell_named(name, 6)
    p = cell.project.weight.shape[1]
    case = (cell, projections(kind, 9, 21, p, 4), first_state(cell, 9), True)
    case = (*case, boundaries("both", 9, 21))
    assert_same(value_and_gradients(mapped(native), *case), value_and_gradients(plain, *case))


@needs_library
def test_vmap_over_models_and_twice_and_of_gradients():
    cells = eqx.filter_vmap(lambda key: CELLS["cmru"](5, 4, key=key))(
        jax.random.split(jax.random.key(0), 3)
    )
    x = jnp.asarray(normal(1, (2, 7, 11, 5)))

    def loss(cell, x, name):
        with engine(name):
            states, last = cell.states(Dense(x))
        return jnp.sum(jnp.sin(states)) + jnp.sum(last**2)

    def gradients(name):
        one = eqx.filter_grad(lambda cell, x: loss(cell, x, name))
        over_x = eqx.filter_vmap(one, in_axes=(None, 0))
        over_cells = eqx.filter_vmap(over_x, in_axes=(None, 0))
        return eqx.filter_jit(eqx.filter_vmap(over_cells, in_axes=(eqx.if_array(0), None)))

    found, expected = gradients("native")(cells, x), gradients("sequential")(cells, x)
    assert found.scale.shape == (3, 2, 7, 4)
    assert_same(found, expected)


@needs_library
def test_a_mapped_call_is_one_call():
    cell = cell_named("mingru", 8)
    x = jnp.zeros((16, 30, 5))
    with engine("native"):
        text = jax.jit(jax.vmap(lambda x: cell.states(Dense(x))[0])).lower(x).as_text()
    assert text.count("persistor_mingru_forward") == 1
    assert "while" not in text


@needs_library
def test_inside_loops_and_rematerialised():
    cell = cell_named("alpha-cmru", 8)
    x = jnp.asarray(normal(0, (4, 30, 5)))

    def descend(name, wrap=lambda f: f):
        loss = wrap(lambda x: jnp.sum(cell.states(Dense(x))[1] ** 2))

        def step(_, x):
            return x - 0.01 * jax.grad(loss)(x)

        with engine(name):
            return jax.jit(lambda x: jax.lax.fori_loop(0, 3, step, x))(x)

    expected = descend("sequential")
    assert_same(descend("native"), expected)
    assert_same(descend("native", jax.checkpoint), expected)


@needs_library
@pytest.mark.parametrize("bad", [-1, 4, 2**31 - 1])
def test_an_id_out_of_range_is_an_error(bad):
    cell = cell_named("cmru", 4)
    good = projections("indexed", 2, 5, 8, 4)
    wrong = Indexed(good.rows, good.ids.at[1, 3].set(bad))
    with pytest.raises(Exception, match="an id is out of range"):
        jax.block_until_ready(native(cell, wrong, cell.initial_state((2,)), True))


@pytest.fixture
def without_annotations():
    """As users have it: annotations are not checked, so the engine must see for itself."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@needs_library
def test_wrong_shapes_are_errors(without_annotations):
    cell = cell_named("cmru", 4)
    x = projections("dense", 2, 5, 8, 4)
    with pytest.raises(PersistorError, match="initial_state: the shape"):
        native(cell, x, cell.initial_state((3,)), True)
    with pytest.raises(PersistorError, match="lengths: the shape"):
        native(cell, x, cell.initial_state((2,)), True, lengths=jnp.zeros(3, jnp.int32))
    with pytest.raises(PersistorError, match="resets: the shape"):
        native(cell, x, cell.initial_state((2,)), True, resets=jnp.zeros((2, 6), bool))
    with pytest.raises(Exception, match="wrong projections"):  # how many there are, C++ knows
        jax.block_until_ready(
            native(cell, Dense(x.values[..., :7]), cell.initial_state((2,)), True)
        )


class Plain(CELLS["cmru"]):
    """A CMRU that names no kernel, as a cell of somebody else's may."""

    kernel = None


def test_a_cell_without_a_kernel_just_works(key):
    cell, x = Plain(5, 4, key=key), Dense(jnp.asarray(normal(0, (2, 6, 5))))
    assert_same(cell.states(x), CELLS["cmru"](5, 4, key=key).states(x))
    with engine("native"), pytest.raises(PersistorError, match="this cell has no kernel"):
        cell.states(x)


@needs_library
def test_one_choice_is_for_recurrence_norm_and_glu_and_a_change_traces_anew(key):
    model = Backbone(3, 2, (CELLS["cmru"](8, 4, key=key),), width=8, key=key)
    x = jnp.asarray(normal(0, (2, 6, 3)))
    run = jax.jit(lambda x: model(Dense(x))[0])
    texts = {}
    for name in ("native", "sequential", "parallel", "auto"):
        with engine(name):
            texts[name] = run.lower(x).as_text()
    for kernel in ("cmru", "norm", "glu"):
        for name, text in texts.items():
            assert (f"persistor_{kernel}_forward" in text) == (name in ("native", "auto"))
    assert texts["sequential"] != texts["parallel"]
    assert chosen() == "auto"


def test_doctor_names_the_engine():
    findings = examine()
    expected = "sequential" if library().variant is None else f"native ({library().variant})"
    assert findings["engine"] == expected
    assert findings["reason"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler (g++)")
def test_no_sanitizer_complains(tmp_path):
    flags = ["-std=c++17", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-psabi"]
    checks = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    program = tmp_path / "sanitize"
    source = Path(__file__).parent / "sanitize.cc"
    command = ["g++", *flags, *checks, f"-I{KERNELS}", str(source), "-o", str(program), "-pthread"]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    environment = {**os.environ, "LD_PRELOAD": ""}
    ran = subprocess.run([str(program)], capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stderr
    assert "cases" in ran.stdout
