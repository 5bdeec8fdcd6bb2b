"""Theory, inspection and sampling: what we say of a model is what the model does."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from persistor import (
    CELLS,
    Affine,
    AlphaCMRU,
    Backbone,
    Dense,
    Experiment,
    Indexed,
    MinGRU,
    ModelSpec,
    PersistorError,
    Pooling,
    Saturating,
    gradient_flow,
    quantisation_limit,
    state_space_form,
)
from persistor.analysis.inspection import BlockTrace, first_batch, report_units, trace
from persistor.analysis.sampling import sample
from persistor.recurrence.unroll import unroll
from persistor.tasks import Parity

NAMES = sorted(CELLS)


@pytest.mark.parametrize("name", sorted(set(CELLS) - {"ladder"}))
def test_the_state_space_form_is_the_cell(name, key):
    """h_t = A(x_t) h_{t-1} + B(x_t) x_t gives the same states."""
    cell = CELLS[name](6, 3, key=key)
    xs = jax.random.normal(key, (10, 6))
    states, _ = cell.states(Dense(xs))
    h = cell.initial_state()
    for x, expected in zip(xs, states, strict=True):
        form = state_space_form(cell, x)
        assert form.b.shape == (3, 6)
        h = form(x, h)
        np.testing.assert_allclose(h, expected, rtol=1e-4, atol=1e-5)


def test_a_cell_that_saturates_has_no_state_space_form(key):
    with pytest.raises(PersistorError, match="Ladder saturates"):
        state_space_form(CELLS["ladder"](6, 3, key=key), jnp.ones(6))


def test_retain_mode_is_the_identity(key):
    """Remark: A = I where z = 0, diag(epsilon) where z = 1."""
    cell = CELLS["cmru"](6, 4, epsilon=0.25, key=key)
    form = state_space_form(cell, jax.random.normal(key, (200, 6)))
    assert set(np.unique(form.a)) == {0.25, 1.0}
    retained = np.asarray(form.a) == 1.0
    assert not np.asarray(form.b)[retained].any()


@pytest.mark.parametrize("name", NAMES)
def test_gradient_flow_is_the_gradient(name, key):
    cell = CELLS[name](6, 3, key=key)
    xs = jax.random.normal(key, (8, 6))
    flow = gradient_flow(cell.transition(xs))
    states, _ = cell.states(Dense(xs))
    for t in range(8):
        tail = xs[t + 1 :]
        if len(tail):
            jacobian = jax.jacobian(lambda h, x=tail: cell(x, h)[1], holomorphic=name == "lru")
            expected = np.abs(np.diag(jax.jit(jacobian)(states[t])))
        else:
            expected = np.ones(3)
        np.testing.assert_allclose(flow[t], expected, rtol=1e-4, atol=1e-6)


def test_epsilon_one_lets_every_gradient_through(key):
    xs = jax.random.normal(key, (50, 6))
    assert (gradient_flow(CELLS["cmru"](6, 4, epsilon=1.0, key=key).transition(xs)) == 1).all()


@pytest.mark.parametrize("bits", [1, 2, 4, 7])
def test_the_quantisation_limit_is_what_the_best_quantiser_reaches(bits):
    x = np.linspace(-1, 1, 200_001)
    bins = 2**bits
    middle = (np.floor((x + 1) / 2 * bins).clip(0, bins - 1) + 0.5) * 2 / bins - 1
    np.testing.assert_allclose(np.abs(x - middle).mean(), quantisation_limit(bits), rtol=1e-3)
    assert quantisation_limit(bits) == 1 / 2 ** (bits + 1)


def test_gradient_flow_takes_batches(key):
    transitions = CELLS["lru"](6, 3, key=key).transition(jnp.ones((2, 5, 6)))
    assert gradient_flow(transitions).shape == (2, 5, 3)


STEPS = 20
UNITS = {  # decay and drive after a first step that stores one
    "keeps": (1.0, 0.0),
    "counts": (1.0, 0.5),
    "flips": (-1.0, 1.0),
    "forgets": (0.0, 1.0),
    "fades": (0.9, 0.1),
}


def traced(decay, drive):
    decay, drive = (
        jnp.full((3, STEPS, 1), x).at[:, 0].set(y) for x, y in ((decay, 1.0), (drive, 1.0))
    )
    transitions = Affine(decay, drive)
    states, _ = unroll(transitions, jnp.zeros((3, 1)))
    return BlockTrace(transitions, states, gradient_flow(transitions))


@pytest.mark.parametrize("verdict", UNITS)
def test_the_verdict_names_what_the_unit_does(verdict):
    (report,) = report_units([traced(*UNITS[verdict])], None)
    assert report.verdict == verdict


def test_numbers_of_a_counter():
    (report,) = report_units([traced(1.0, 0.5)], None)
    assert report.retains == report.retains_after_first == 0.0
    assert report.count == 0.5 * (STEPS - 1)
    assert (report.lowest, report.highest, report.levels) == (1.0, 1 + 0.5 * (STEPS - 1), STEPS)


def ladder_trace(*pushes):
    """A ladder of two levels that is pushed up, down or not at all, as these say."""
    drive = jnp.array(pushes)[None, :, None] * jnp.ones((3, 1, 1))
    low, high = (jnp.full(drive.shape, x) for x in (0.0, 2.0))
    transitions = Saturating(Affine(jnp.ones_like(drive), drive), low, high)
    states, _ = unroll(transitions, jnp.zeros((3, 1)))
    before = jnp.concatenate([jnp.zeros((3, 1, 1)), states[:, :-1]], axis=1)
    affine = transitions.at(before)
    return BlockTrace(affine, states, gradient_flow(affine), 2)


@pytest.mark.parametrize(
    ("pushes", "verdict", "count", "shares"),
    [
        ((1.0, 0.0, 0.0, 0.0), "keeps", 0, (0.0, 1.0, 0.0)),
        ((0.0, 1.0, 1.0, -1.0), "counts", 1, (0.25, 0.5, 0.25)),
        ((1.0, 1.0, 1.0, 1.0), "forgets", 1, (0.0, 0.25, 0.75)),  # held at the top
    ],
)
def test_the_levels_of_a_ladder(pushes, verdict, count, shares):
    (report,) = report_units([ladder_trace(*pushes)], None)
    assert (report.verdict, report.count, report.at_level) == (verdict, count, shares)


def test_a_ladder_in_a_model_visits_whole_levels():
    spec = ModelSpec(("ladder",), state_size=4, width=16, encoding=16, levels=3)
    model = Experiment(Parity(), spec).build()
    batch = first_batch(Parity(test_lengths=(20, 40)).split("test"), 8)
    with jax.numpy_dtype_promotion("standard"):
        reports = report_units(trace(model, batch), batch.lengths)
    for report in reports:
        assert len(report.at_level) == 4
        assert sum(report.at_level) == pytest.approx(1)
        assert report.levels == sum(share > 0 for share in report.at_level)


def test_padding_changes_nothing():
    """Two of the sequences are short; what follows their end must not be seen."""
    model = Experiment(
        Parity(), ModelSpec(("mingru",), state_size=2, width=16, encoding=16)
    ).build()
    batch = first_batch(Parity(test_lengths=(5, 30)).split("test"), 4)
    assert batch.lengths is not None
    longer = dataclasses.replace(
        batch.inputs, ids=jnp.pad(batch.inputs.ids, ((0, 0), (0, 9)), constant_values=1)
    )
    padded = dataclasses.replace(batch, inputs=longer)
    with jax.numpy_dtype_promotion("standard"):
        one, two = (report_units(trace(model, b), b.lengths) for b in (batch, padded))
    for a, b in zip(one, two, strict=True):
        for field in dataclasses.fields(a):
            np.testing.assert_allclose(
                getattr(a, field.name), getattr(b, field.name), rtol=1e-5, err_msg=field.name
            )


LETTERS = tuple("abcdefgh ")


@pytest.fixture
def writer(key):
    cells = (AlphaCMRU(16, 5, key=key), MinGRU(16, 5, key=key))
    return Backbone(9, 9, cells, width=16, pooling=Pooling.NONE, key=key)


def write(writer, prompt, count, *, window, temperature=0.0, seed=0):
    key = jax.random.key(seed)
    options = {"window": window, "temperature": temperature, "key": key}
    return "".join(sample(writer, LETTERS, prompt, count, **options))


def likeliest(writer, text):
    ids = jnp.array([LETTERS.index(letter) for letter in text], jnp.int32)
    outputs, _ = eqx.filter_jit(writer)(Indexed(jnp.eye(len(LETTERS)), ids))
    return "".join(LETTERS[i] for i in np.asarray(outputs).argmax(-1))


@pytest.mark.slow
def test_without_chance_every_letter_is_the_likeliest_after_all_before(writer):
    text = "bad cab" + write(writer, "bad cab", 20, window=100)
    assert likeliest(writer, text)[6:-1] == text[7:]


def test_beyond_the_window_the_second_half_is_read_again(writer):
    text = "a" + write(writer, "a", 9, window=8)
    assert len(text) == 10
    assert text[9] == likeliest(writer, text[5:9])[-1]


def test_a_seed_decides_what_is_drawn(writer):
    drawn = [write(writer, "a", 30, window=50, temperature=2.0, seed=s) for s in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
