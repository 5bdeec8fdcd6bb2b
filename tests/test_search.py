"""Poised starts, and a search that starts again while a run only guesses."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_training import SHORT, files

from persistor import Experiment, ModelSpec, PersistorError, Run, TrainingSpec, train
from persistor.cells import CELLS
from persistor.cli.options import CELL_OPTIONS
from persistor.cli.train import Train
from persistor.tasks import CopyFirstClean, CopyFirstDiscrete, Parity
from persistor.training import Trainer

WAITING = ("bmru", "cmru", "alpha-cmru")
SEARCH = dataclasses.replace(SHORT, search=True)
BITS = Parity(train_lengths=(5, 20), test_lengths=(5, 40))


@pytest.fixture(autouse=True)
def as_users_have_it():
    """optax relies on JAX's usual promotion."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def guessing(cell="lru", **changes):
    """A run that cannot learn parity, and so starts again after every evaluation."""
    model = ModelSpec((cell,), state_size=1, width=16, encoding=16)
    return dataclasses.replace(Experiment(BITS, model, SEARCH, seed=5), **changes)


@pytest.mark.parametrize("cell", CELLS)
def test_a_poised_start_changes_thresholds_scales_and_read_outs_alone(cell):
    plain = guessing(cell, training=SHORT).build()
    poised = guessing(cell).build()
    changed = {
        jax.tree_util.keystr(path)
        for (path, one), other in zip(
            jax.tree_util.tree_leaves_with_path(eqx.filter(plain, eqx.is_array)),
            jax.tree.leaves(eqx.filter(poised, eqx.is_array)),
            strict=True,
        )
        if not np.array_equal(one, other)
    }
    expected = {".blocks[0].readout.bias"}
    if cell in WAITING:
        expected |= {f".blocks[0].cell.project.{part}" for part in ("weight", "bias")}
        d = poised.blocks[0].cell.state_size
        before, after = plain.blocks[0].cell.project, poised.blocks[0].cell.project
        assert np.array_equal(before.weight[:, :d], after.weight[:, :d])
        assert np.array_equal(before.bias[:d], after.bias[:d])
    assert changed == expected
    assert 0.5 < float(poised.blocks[0].readout.bias.std()) < 1.5


@pytest.mark.parametrize("cell", WAITING)
def test_units_of_a_poised_start_retain_and_would_store_one(cell):
    made = guessing(cell, model=ModelSpec((cell,), state_size=8)).build().blocks[0].cell
    x = jax.random.normal(jax.random.key(0), (1000, 256))
    transition = made.transition(x)
    assert np.all(np.asarray(transition.decay) == 1)
    assert np.all(np.asarray(transition.drive) == 0)
    louder = made.transition(100 * x)
    updates = np.asarray(louder.drive) != 0
    assert updates.mean() > 0.9
    np.testing.assert_allclose(np.abs(louder.drive)[updates], 1.0, rtol=1e-6)


def test_a_new_start_has_other_weights_and_the_schedule_of_its_step():
    trainer = Trainer(guessing("cmru"))
    first, later, again, other = (trainer.start(step) for step in (0, 16, 16, 24))
    weights = [np.asarray(s.params.encoder.linear.weight) for s in (first, later, again, other)]
    assert np.array_equal(weights[1], weights[2])
    assert not any(np.array_equal(weights[1], weights[i]) for i in (0, 3))
    assert int(later.step) == 16
    adam, _, schedule = later.optimiser[1]
    assert int(schedule.count) == 16
    assert int(adam.count) == 0
    assert all(float(jnp.abs(leaf).max()) == 0 for leaf in jax.tree.leaves((adam.mu, adam.nu)))
    trained, _ = trainer.advance(later, 8)
    assert int(trained.step) == 24


def test_a_run_that_guesses_starts_again_after_every_evaluation_but_the_last(tmp_path):
    run = Run.create(guessing(), tmp_path)
    result = train(run)
    told = [line["restarts"] for line in run.progress()]
    assert told == [1, 2, 3, 4, 5, 5]
    assert result["restarts"] == 5
    assert result["steps"] == SHORT.steps


def test_a_run_that_learns_is_left_alone(tmp_path):
    task = CopyFirstDiscrete(length=2)
    training = dataclasses.replace(SEARCH, steps=256, evaluate_every=64, batch=64)
    model = ModelSpec(("alpha-cmru",), state_size=4, width=32, encoding=32)
    run = Run.create(Experiment(task, model, training), tmp_path)
    train(run)
    better = [line["accuracy"] > 0.2 for line in run.progress()]
    assert any(better)
    told = [line["restarts"] for line in run.progress()]
    for before, after, learns in zip(told, told[1:], better[1:], strict=False):
        assert not learns or before == after


def test_without_a_search_nothing_is_said_of_restarts(tmp_path):
    run = Run.create(guessing(training=SHORT), tmp_path)
    assert "restarts" not in train(run)
    assert all("restarts" not in line for line in run.progress())


@pytest.mark.parametrize("stop_after", [1, 3])
def test_a_search_that_was_stopped_equals_one_that_was_not(tmp_path, stop_after):
    whole = Run.create(guessing(), tmp_path / "whole")
    train(whole, save_every=1e9)
    parts = Run.create(guessing(), tmp_path / "parts")
    intervals = 0

    def tired():
        nonlocal intervals
        intervals += 1
        return intervals == stop_after

    assert train(parts, should_stop=tired, save_every=1e9) is None
    train(parts, save_every=1e9)
    assert files(parts) == files(whole)


@pytest.mark.parametrize(("metric", "guessed"), [(0.3, True), (0.54, True), (0.55, False)])
def test_a_guess_is_within_three_standard_errors_of_chance(metric, guessed):
    spec = TrainingSpec(steps=64, search=True)  # 1,280 answers: 0.5 + 3 * 0.014
    assert Trainer(guessing(training=spec)).guesses(metric) is guessed


def test_only_searches_are_called_so():
    assert "search" not in guessing(training=SHORT).to_json()["training"]
    assert guessing().to_json()["training"]["search"] is True
    assert Experiment.from_json(guessing().to_json()) == guessing()
    assert "-search-" in guessing().name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": CopyFirstClean(5)}, "classification task, which copy-first-clean is not"),
        ({"model": ModelSpec(hold=2.0)}, "leave hold out"),
    ],
)
def test_searches_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(PersistorError, match=message):
        guessing(**changes)


@pytest.mark.parametrize(
    ("options", "searches"),
    [
        ({"task": "parity"}, True),
        ({"task": "parity", "cell": "lru"}, True),
        ({"task": "parity", "search": "off"}, False),
        ({"task": "parity", "options": CELL_OPTIONS(hold=2.0)}, False),
        ({"task": "parity", "deployable": True}, False),
        ({"task": "copy-first-discrete"}, False),
        ({"task": "copy-first-discrete", "search": "on"}, True),
    ],
)
def test_parity_searches_unless_told_otherwise(options, searches):
    assert Train(**options).experiment().training.search is searches


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["cmru", "alpha-cmru"])
def test_one_unit_learns_parity_in_1500_steps(tmp_path, cell):
    asked = Train("parity", cell=cell, options=CELL_OPTIONS(epsilon=-1.0), state=1, steps=1500)
    result = train(Run.create(asked.experiment(), tmp_path))
    assert result["test"] == {"accuracy": 1.0}
