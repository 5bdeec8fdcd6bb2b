"""Laws that every registered cell obeys."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from persistor import CELLS, CMRU, AlphaCMRU, Ladder, PersistorError, PositiveCMRU
from persistor.cells.epsilon import EPSILON
from persistor.cells.ladder import LEVELS
from persistor.kernels.engine import engine
from persistor.nn.sequence import Dense
from persistor.recurrence.unroll import ENGINES

NAMES = sorted(CELLS)
WIDTH = 6
shapes = st.sampled_from([(1, 1), (1, 7), (3, 2), (4, 17)])  # few, for each one compiles anew
sizes = st.builds(lambda shape, seed: (*shape, seed), shapes, st.integers(0, 2**16))


def test_registry_is_not_empty_and_has_an_oracle_each():
    assert len(NAMES) >= 5
    assert set(oracle.STEPS) <= set(NAMES)
    assert len(oracle.STEPS) >= 7  # a new cell may have one; those that we ship do


def make(name, state, seed, epsilon=0.7):
    """A cell whose biases and scales are not at their special starting values."""
    key, bias, scale = jax.random.split(jax.random.key(seed), 3)
    kwargs = {"epsilon": epsilon} if EPSILON in CELLS[name].options else {}
    cell = CELLS[name](WIDTH, state, key=key, **kwargs)
    if cell.project.bias is not None:
        b = 0.5 * jax.random.normal(bias, cell.project.bias.shape)
        cell = eqx.tree_at(lambda c: c.project.bias, cell, b)
    if hasattr(cell, "scale"):
        s = 1 + 0.3 * jax.random.normal(scale, cell.scale.shape)
        cell = eqx.tree_at(lambda c: c.scale, cell, s)
    return cell


def inputs(seed, *shape):
    return jax.random.normal(jax.random.key(seed + 1), (*shape, WIDTH))


def a_state(cell, seed, batch=()):
    real, imaginary = jax.random.normal(jax.random.key(seed + 2), (2, *batch, cell.state_size))
    return jax.lax.complex(real, imaginary) if cell.state_dtype == jnp.complex64 else real


call = eqx.filter_jit(lambda cell, x, first=None, **options: cell(x, first, **options))
step = eqx.filter_jit(lambda cell, x, state: cell.step(x, state))


def close(a, b, tolerance=2e-5):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


def trees_close(a, b, tolerance=2e-4):
    jax.tree.map(lambda x, y: close(x, y, tolerance), a, b)


@pytest.mark.parametrize("name", sorted(oracle.STEPS))
@given(sizes)
def test_matches_the_oracle(name, size):
    state, steps, seed = size
    cell = make(name, state, seed)
    x, first = inputs(seed, steps), a_state(cell, seed)
    ys, last = call(cell, x, first)
    close(ys, oracle.outputs(name, cell, x, first), 1e-4)
    close(last, oracle.states(name, cell, x, first)[-1], 1e-4)


@pytest.mark.parametrize("choice", sorted(ENGINES))
@pytest.mark.parametrize("name", NAMES)
@given(sizes)
def test_engines_agree_with_streaming(name, choice, size):
    state, steps, seed = size
    cell = make(name, state, seed)
    x, first = inputs(seed, 2, steps), a_state(cell, seed, (2,))
    with engine(choice):
        ys, last = call(cell, x, first)
    h, streamed = first, []
    for t in range(steps):
        y, h = step(cell, x[:, t], h)
        streamed.append(y)
    close(ys, jnp.stack(streamed, 1))
    close(last, h)


@eqx.filter_jit
@eqx.filter_grad
def gradients(arguments, choice, lengths=None, resets=None):
    """Of a scalar that depends on every output and on the last state."""
    cell, x, first = arguments
    with engine(choice):
        ys, last = cell(x, first, lengths=lengths, resets=resets)
    weights = jnp.cos(jnp.arange(ys.size, dtype=jnp.float32)).reshape(ys.shape)
    return (ys * weights).sum() + jnp.square(jnp.abs(last)).sum()


@pytest.mark.parametrize("name", NAMES)
@given(sizes)
def test_gradients_agree_between_engines(name, size):
    """Weights, inputs, first state and epsilon: parallel equals sequential."""
    state, steps, seed = size
    cell = make(name, state, seed)
    arguments = (cell, inputs(seed, 2, steps), a_state(cell, seed, (2,)))
    lengths = jnp.array([steps, (steps + 1) // 2])
    resets = jax.random.bernoulli(jax.random.key(seed), 0.2, (2, steps))
    choices = ("sequential", "parallel")
    trees_close(*(gradients(arguments, choice, lengths, resets) for choice in choices))


@pytest.mark.parametrize("name", NAMES)
def test_gradient_through_the_first_state_is_the_product_of_decays(name):
    cell = make(name, 3, 5)
    x, first = inputs(5, 9), a_state(cell, 5)
    decays = np.asarray(cell.transition(x).decay).prod(0)
    got = jax.jacobian(lambda h: cell(x, h)[1], holomorphic=name == "lru")(first)
    close(got, np.diag(decays), 1e-4)


@pytest.mark.parametrize("name", NAMES)
@given(sizes, st.sampled_from([0, 1, 5]))
def test_chunks_equal_the_whole(name, size, cut):
    state, steps, seed = size
    cut = min(cut, steps - 1)
    cell = make(name, state, seed)
    x = inputs(seed, steps)
    whole, last = call(cell, x)
    h, parts = cell.initial_state(), []
    for part in (x[:cut], x[cut:]):
        if len(part):
            ys, h = call(cell, part, h)
            parts.append(ys)
    close(whole, jnp.concatenate(parts))
    close(last, h)


@pytest.mark.parametrize("name", NAMES)
@given(sizes)
def test_padding_changes_nothing(name, size):
    state, steps, seed = size
    cell = make(name, state, seed)
    x = inputs(seed, steps)
    ys, last = call(cell, x)
    padded = jnp.concatenate([x, 100 * inputs(seed + 9, 5)])
    padded_ys, padded_last = call(cell, padded, lengths=jnp.array(steps))
    close(padded_ys[:steps], ys)
    close(padded_last, last)
    grads = gradients((cell, padded, cell.initial_state()), "auto", jnp.array(steps))
    close(grads[1][steps:] if name != "lru" else 0.0, 0.0)


@pytest.mark.parametrize("name", NAMES)
@given(sizes, st.sampled_from([1, 5]))
def test_a_reset_equals_a_new_sequence(name, size, cut):
    state, steps, seed = size
    cut = min(cut, steps)
    cell = make(name, state, seed)
    x = inputs(seed, steps + 1)
    resets = jnp.zeros(steps + 1, bool).at[cut].set(True)
    ys, last = call(cell, x, a_state(cell, seed), resets=resets)
    fresh, fresh_last = call(cell, x[cut:])
    close(ys[cut:], fresh)
    close(last, fresh_last)


@pytest.mark.parametrize("name", NAMES)
def test_batch_axes_are_free_and_vmap_agrees(name):
    cell = make(name, 4, 3)
    x = inputs(3, 2, 3, 11)
    ys, last = cell(x)
    mapped, mapped_last = jax.vmap(jax.vmap(cell))(x)
    close(ys, mapped)
    close(last, mapped_last)


@pytest.mark.parametrize("name", NAMES)
def test_transitions_compose_associatively(name):
    cell = make(name, 4, 11)
    a, b, c = (cell.transition(x) for x in inputs(11, 3))
    left, right = a.then(b).then(c), a.then(b.then(c))
    trees_close(left, right, 1e-5)
    h = a_state(cell, 11)
    close(left(h), c(b(a(h))))


@pytest.mark.parametrize("kind", [CMRU, AlphaCMRU])
def test_epsilon_can_be_traced_and_per_unit(kind, key):
    cell = kind(WIDTH, 3, key=key)
    x = inputs(1, 20)

    @eqx.filter_jit
    def run(cell, epsilon):
        return eqx.tree_at(lambda c: c.epsilon, cell, epsilon)(x)[0]

    for epsilon in (-1.0, 0.0, 0.5):
        close(run(cell, jnp.array(epsilon)), kind(WIDTH, 3, epsilon=epsilon, key=key)(x)[0])
    per_unit = run(cell, jnp.array([-1.0, 0.0, 0.5]))
    for unit, epsilon in enumerate((-1.0, 0.0, 0.5)):
        close(per_unit[:, unit], run(cell, jnp.array(epsilon))[:, unit])
    assert run._cached._cache_size() == 2  # one compilation a shape of epsilon


def test_bmru_is_cmru_at_epsilon_zero(key):
    x = inputs(2, 40)
    close(CELLS["bmru"](WIDTH, 5, key=key)(x)[0], CMRU(WIDTH, 5, epsilon=0.0, key=key)(x)[0], 0)


@pytest.mark.parametrize("name", ["bmru", "cmru", "alpha-cmru"])
def test_units_that_hold_retain_at_the_start_and_differ_in_nothing_else(name, key):
    x, first = inputs(2, 200), jnp.arange(5.0)
    holding, usual = CELLS[name](WIDTH, 5, hold=10.0, key=key), CELLS[name](WIDTH, 5, key=key)
    close(call(holding, x, first)[1], first, 0)
    assert not np.array_equal(call(usual, x, first)[1], first)
    moved = jax.tree.map(jnp.subtract, holding, usual)
    assert np.array_equal(moved.project.bias[5:10], np.full(5, 10.0))
    assert sum(jnp.abs(leaf).sum() for leaf in jax.tree.leaves(moved)) == 50


@given(st.integers(0, 2**16), st.sampled_from([1.3, 0.0, -0.7]))
def test_a_ladder_of_one_level_is_the_positive_cmru_at_epsilon_zero(seed, scale):
    key = jax.random.key(seed)
    cells = (Ladder(WIDTH, 5, levels=1, key=key), PositiveCMRU(WIDTH, 5, epsilon=0.0, key=key))
    scales = [eqx.tree_at(lambda c: c.scale, cell, jnp.full(5, scale)) for cell in cells]
    one, two = (call(cell, inputs(seed, 40))[0] for cell in scales)
    close(one, two, 0)


@pytest.mark.parametrize("levels", [1, 2, 4, 7])
def test_a_ladder_goes_by_single_levels_between_its_ends(levels, key):
    states, _ = Ladder(WIDTH, 6, levels=levels, key=key).states(Dense(3 * inputs(4, 500)))
    assert set(np.unique(states)) == set(range(levels + 1))
    assert set(np.unique(np.diff(states, axis=0))) == {-1, 0, 1}


def test_gradients_pass_the_ends_of_a_ladder(key):
    """As at epsilon 1: by a retaining step, by one that arrives at an end, by one held there."""
    cell = Ladder(WIDTH, 6, levels=2, key=key)
    x = 3 * inputs(4, 60)
    for name in ENGINES:
        with engine(name):
            jacobian = jax.jit(jax.jacobian(lambda h: cell(x, h)[1]))(cell.initial_state())
        close(jacobian, np.eye(6), 0)


@pytest.mark.parametrize("levels", [0, -3, 2.5, float("nan"), float("inf")])
def test_levels_that_no_ladder_has_are_refused(levels):
    with pytest.raises(PersistorError, match="whole number, at least 1"):
        LEVELS.checked(levels)


def test_quantised_states_stay_on_their_lattice(key):
    """Fixed points of the paper: +-alpha at epsilon 0, integer multiples at epsilon 1."""
    x = inputs(4, 300)
    levels = {
        e: np.unique(np.asarray(CMRU(WIDTH, 4, epsilon=e, key=key)(x)[0])) for e in (0.0, 1.0)
    }
    assert set(levels[0.0]) <= {-1.0, 0.0, 1.0}
    assert np.array_equal(levels[1.0], np.round(levels[1.0]))
    assert len(levels[1.0]) > 3


@pytest.mark.parametrize("epsilon", [2.0, -1.5, float("nan")])
def test_epsilon_out_of_range_is_refused(epsilon, key):
    with pytest.raises(PersistorError, match=r"\[-1, 1\]"):
        CMRU(WIDTH, 3, epsilon=epsilon, key=key)


def test_epsilon_of_a_wrong_shape_is_refused(key):
    with pytest.raises(PersistorError, match="one per unit"):
        CMRU(WIDTH, 3, epsilon=jnp.zeros(2), key=key)


@pytest.mark.parametrize("name", NAMES)
def test_no_steps_leave_the_state_as_it_is(name):
    cell = make(name, 3, 0)
    first = cell.initial_state((2,)) + 1
    states, last = cell.states(Dense(jnp.zeros((2, 0, WIDTH))), first)
    assert states.shape == (2, 0, cell.state_size)
    assert (last == first).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_first_state_of_another_kind_is_refused(name):
    cell = make(name, 3, 0)
    other = jnp.zeros(cell.state_size, jnp.float32 if name == "lru" else jnp.complex64)
    with pytest.raises(PersistorError, match="this cell's state is"):
        cell.states_of(Dense(jnp.zeros((3, cell.project.weight.shape[1]))), other)


def test_an_unknown_engine_is_refused():
    with pytest.raises(PersistorError, match="did you mean sequential"):
        engine("sequentiel")


def test_lru_starts_on_the_papers_ring(key):
    eigenvalues = np.asarray(CELLS["lru"](WIDTH, 500, key=key).eigenvalues())
    radius, phase = np.abs(eigenvalues), np.angle(eigenvalues) % (2 * np.pi)
    assert radius.min() >= 0.9
    assert radius.max() <= 0.999
    assert np.histogram(phase, 4, (0, 2 * np.pi))[0].min() > 80
