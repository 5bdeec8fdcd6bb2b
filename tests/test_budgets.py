"""Own data choose their steps, stop when they no longer improve, and no run of the paper does."""

import json
from dataclasses import replace

import jax
import numpy as np
import pytest
from committed import RESULTS, records
from hypothesis import given
from hypothesis import strategies as st
from publishers import npz
from test_cli import call

from persistor import Experiment, PersistorError, TrainingSpec, train
from persistor._tools.progress import Watcher
from persistor.paper.budgets import BUDGETS, FEWEST, MOST, steps_for
from persistor.tasks import own_task
from persistor.training.loop import Progress, Standing, _over
from persistor.training.provenance import command

RNG = np.random.default_rng(0)
SMALL = {"width": 8, "state_size": 2, "batch": 4}


@pytest.fixture(autouse=True)
def as_users_have_it(tmp_path, monkeypatch):
    """optax relies on JAX's usual promotion."""
    monkeypatch.setenv("PERSISTOR_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def noise(path, count=40):
    """Nothing can be learned from it."""
    y = np.arange(count) % 2
    (path / "noise.npz").write_bytes(npz(x=RNG.normal(size=(count, 5, 1)), y=y))
    return own_task(path / "noise.npz")


@given(st.integers(1, 10**7), st.integers(1, 4096))
def test_more_examples_never_have_fewer_steps(examples, batch):
    steps = steps_for(examples, batch)
    assert FEWEST <= steps <= MOST
    assert steps % 100 == 0
    assert steps_for(examples + 1, batch) >= steps >= steps_for(examples, batch + 1)


def test_own_data_choose_their_steps_by_number(tmp_path):
    task = noise(tmp_path, 4000)
    assert task.examples == 3200
    assert Experiment.of(task).training.steps == 2500
    assert Experiment.of(task, batch=32).training.steps == 5000
    assert Experiment.of(task, steps=7).training.steps == 7
    (tmp_path / "a.txt").write_text("to be or not to be " * 10_000)
    text = own_task(tmp_path / "a.txt")
    assert text.examples == -(-190_000 * 9 // 2560)
    assert text.with_length(16).examples > text.examples


def test_a_number_of_examples_makes_no_other_experiment(tmp_path):
    experiment = Experiment.of(noise(tmp_path))
    without = replace(experiment, task=replace(experiment.task, examples=0))
    assert without.hash == experiment.hash
    assert Experiment.from_json(experiment.to_json()) == experiment


@pytest.mark.parametrize("name", BUDGETS)
def test_the_tasks_of_the_paper_keep_its_budget_and_its_protocol(name):
    experiment = Experiment.of(name)
    assert experiment.training.steps == BUDGETS[name].steps
    assert experiment.training.stop_early is False
    assert "stop_early" not in experiment.to_json()["training"]
    assert experiment.training.final_learning_rate == TrainingSpec().final_learning_rate


def test_committed_runs_keep_their_names():
    assert len(records()) > 100
    written = [json.loads(line) for line in (RESULTS / "runs.jsonl").read_text().splitlines()]
    assert {line["run"] for line in written} == {record.name for record in records()}
    for line in written:
        experiment = Experiment.from_json(line["experiment"])
        assert experiment.name == line["run"]
        assert experiment.to_json() == line["experiment"]


@pytest.mark.slow
def test_a_run_that_no_longer_improves_stops_and_says_so(tmp_path, capsys):
    noise(tmp_path)
    words = ["--data", "noise.npz", "--tiny", "--state", 2, "--batch", 4, "--steps", 20_000]
    assert call("train", *words) == 0
    told = capsys.readouterr().out
    assert " of 20,000, when validation no longer improved, in " in told
    assert call("train", *words, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["steps"] < 20_000
    assert not {"budget", "paper_steps"} & set(result)
    assert "paper" not in json.dumps(result)


def test_when_a_run_is_over(tmp_path):
    def over(step, improved, *, stop_early=True, steps=10_000):
        spec = TrainingSpec(steps=steps, stop_early=stop_early)
        return _over(Standing(step=step, improved=improved), replace(experiment, training=spec))

    experiment = Experiment.of(noise(tmp_path))
    assert not over(2_499, 0)
    assert over(2_500, 0)
    assert not over(2_500, 1)
    assert not over(9_999, 0, stop_early=False)
    assert not over(639, 0, steps=1_000)  # ten evaluations at least
    assert over(640, 0, steps=1_000)


@pytest.mark.slow
def test_equal_evaluations_are_no_improvement_but_the_later_weights_are_kept(tmp_path):
    x = np.repeat(np.arange(60) % 2, 4).reshape(60, 4, 1).astype(float)
    (tmp_path / "easy.npz").write_bytes(
        npz(x=x + RNG.normal(0, 0.01, x.shape), y=np.arange(60) % 2)
    )
    experiment = Experiment.of(own_task(tmp_path / "easy.npz"), steps=4_000, **SMALL)
    quick = replace(experiment.training, evaluate_every=16, valid_batches=4)
    result = train(replace(experiment, training=quick), runs=tmp_path)
    assert result["test"]["accuracy"] == 1
    assert result["steps"] < 4_000
    assert result["valid"]["step"] == result["steps"]


@pytest.mark.parametrize("stop_early", [None, True, False])
def test_a_command_repeats_rates_and_early_stops(stop_early, tmp_path):
    for task in ("parity", noise(tmp_path)):
        words = command(Experiment.of(task, learning_rate=3e-3, stop_early=stop_early))
        assert "--lr 0.003" in words
        assert ("--stop-early" in words) == (stop_early is (task == "parity"))
        assert ("--steps" in words) == (task != "parity")


@pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf")])
def test_a_rate_that_is_none_is_named(rate):
    with pytest.raises(PersistorError, match="learning_rate is"):
        Experiment.of("parity", learning_rate=rate)


def test_the_time_is_measured_and_said_once(capsys):
    with Watcher("own-arrays-cmru-0000", "accuracy", "--steps for more") as watcher:
        for step, seconds in ((64, 30.0), (128, 38.0), (192, 46.0)):
            watcher.update(Progress(step, 2_000, 1.0, 0.5, None, seconds))
    said = capsys.readouterr().err
    assert said.count("2,000 steps, about 4 min here; --steps for more") == 1
