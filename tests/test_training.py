"""The protocol, and that a run can be stopped, killed and continued without a trace."""

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from committed import records

from persistor import PAPER, Experiment, ModelSpec, PersistorError, Run, TrainingSpec, train
from persistor._tools.files import write_atomically
from persistor.model.file import read_arrays, write_arrays
from persistor.tasks import CopyFirstClean, CopyFirstDiscrete, Parity
from persistor.training import Trainer
from persistor.training.schedule import (
    annealed_epsilon,
    gate_rate,
    learning_rate,
    what_feeds_gates,
)

SMALL = ModelSpec(("cmru",), state_size=3, width=16, encoding=16)
SHORT = TrainingSpec(steps=44, batch=8, evaluate_every=8, valid_batches=2)


def experiment(**changes):
    return dataclasses.replace(
        Experiment(CopyFirstDiscrete(length=12), SMALL, SHORT, seed=3), **changes
    )


def files(run):
    """The bytes that matter, without the times."""
    progress = [{k: v for k, v in line.items() if k != "seconds"} for line in run.progress()]
    result = {k: v for k, v in run.result.items() if k not in ("seconds", "provenance")}
    params, _ = read_arrays(run.best, eqx.filter(run.model(), eqx.is_array), run.experiment.hash)
    leaves = [np.asarray(x).tobytes() for x in jax.tree.leaves(params)]
    return progress, result, leaves


@pytest.fixture(autouse=True)
def as_users_have_it():
    """optax relies on JAX's usual promotion."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def moved(changes, steps):
    """How far the gates and the rest have moved after some steps of 100, and the update of each."""
    trainer = Trainer(experiment(model=replace_architecture(changes), training=TrainingSpec(100)))
    begin = trainer.start()
    before = jax.tree.map(jnp.copy, begin.params)
    after, _ = trainer.advance(begin, steps)
    change = jax.tree.map(jnp.subtract, after.params, before)
    gates = [float(jnp.abs(x).max()) for x in what_feeds_gates(change)]
    return max(gates), float(jnp.abs(change.decoder.linear.weight).max()), what_feeds_gates(change)


def replace_architecture(changes):
    return ModelSpec(("cmru",), state_size=3, width=16, architecture=PAPER.but(changes))


@pytest.mark.slow
def test_gates_learn_at_a_rate_of_their_own_after_their_sleep():
    _, _, whole = moved({}, 1)
    _, _, half = moved({"gate_rate": 0.5}, 1)
    for a, b in zip(whole, half, strict=True):
        np.testing.assert_allclose(0.5 * a, b, rtol=1e-5, atol=1e-9)
    for change in ({"gate_rate": 0.0}, {"gate_sleep": 0.4}):
        gates, others, _ = moved(change, 40)
        assert gates == 0
        assert others > 0
    assert moved({"gate_sleep": 0.4}, 45)[0] > 0
    soft = Experiment.of("parity", cell="mingru", tiny=True).build()
    assert what_feeds_gates(soft) == []  # soft gates learn like all else
    rates = [
        float(gate_rate(PAPER.but({"gate_sleep": 0.4}), 100, jnp.asarray(s)))
        for s in (40, 50, 61, 100)
    ]
    assert rates == pytest.approx([0, 10 / 21, 1, 1])


def test_a_run_is_a_folder(tmp_path):
    run = Run.create(experiment(), tmp_path)
    result = train(run)
    assert result["steps"] == 44
    assert result["budget"] == "reduced"
    assert set(result["test"]) == {"accuracy"}
    assert [line["step"] for line in run.progress()] == [8, 16, 24, 32, 40, 44]
    assert run.result == json.loads((run.path / "result.json").read_text())
    assert Run.open(run.path).experiment == run.experiment
    assert not [p for p in run.path.iterdir() if p.name.startswith(".") and p.name != ".lock"]


def test_a_finished_run_is_not_computed_again(tmp_path):
    run = Run.create(experiment(), tmp_path)
    result = train(run)
    before = {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in run.path.iterdir()}
    heard = []
    assert train(run, watch=heard.append, should_stop=lambda: True) == result
    assert heard == []
    assert {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in run.path.iterdir()} == before


@pytest.mark.parametrize("stops", [(1,), (2, 3), (1, 1, 1, 1)])
def test_stopped_and_continued_equals_uninterrupted(tmp_path, stops):
    whole = Run.create(experiment(), tmp_path / "whole")
    train(whole)
    parts = Run.create(experiment(), tmp_path / "parts")
    for intervals in stops:
        left = [intervals]

        def enough(left=left):
            left[0] -= 1
            return left[0] == 0

        assert train(parts, should_stop=enough) is None
    assert train(parts) is not None
    assert files(parts) == files(whole)


@pytest.mark.slow
def test_work_beyond_the_last_save_is_done_again_alike(tmp_path):
    """What kill -9 leaves behind: an older state, newer progress, perhaps a newer best."""
    whole = Run.create(experiment(), tmp_path / "whole")
    train(whole)
    torn = Run.create(experiment(), tmp_path / "torn")
    left = [2]

    def enough():
        left[0] -= 1
        return left[0] == 0

    train(torn, should_stop=enough, save_every=0.0)
    kept = torn.latest.read_bytes()
    left[0] = 2
    train(torn, should_stop=enough, save_every=0.0)
    torn.latest.write_bytes(kept)
    with (torn.path / "progress.jsonl").open("a") as file:
        file.write('{"step": 99, "los')
    train(torn, save_every=0.0)
    assert files(torn) == files(whole)


SCRIPT = """
import dataclasses, sys, pathlib
import test_training as t
from persistor import Run, train
train(Run.create(t.experiment(training=t.KILLED), pathlib.Path(sys.argv[1])), save_every=0.0)
"""
KILLED = dataclasses.replace(SHORT, steps=400)


@pytest.mark.slow
def test_killed_at_any_moment_equals_uninterrupted(tmp_path):
    whole = Run.create(experiment(training=KILLED), tmp_path / "whole")
    train(whole)
    folder = tmp_path / "killed"
    path = folder / whole.path.name
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(__file__)}
    kills = 0
    for delay in (0.0, 0.05, 0.13, 0.4):
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(folder)], env=environment, stderr=subprocess.DEVNULL
        )
        before = (path / "progress.jsonl").read_text() if path.exists() else ""
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            now = (
                (path / "progress.jsonl").read_text() if (path / "progress.jsonl").exists() else ""
            )
            if len(now) > len(before) + 100:
                break
            time.sleep(0.01)
        time.sleep(delay)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
    assert kills >= 2
    killed = Run.open(path)
    train(killed)
    assert files(killed) == files(whole)


def test_learning_rate_is_the_papers():
    rate = learning_rate(TrainingSpec(steps=100_000))
    assert float(rate(0)) == 0.0
    np.testing.assert_allclose(rate(500), 5e-4, rtol=1e-6)
    np.testing.assert_allclose(rate(1_000), 1e-3, rtol=1e-6)
    np.testing.assert_allclose(rate(1_000 + 99_000 // 2), (1e-3 + 1e-5) / 2, rtol=1e-4)
    np.testing.assert_allclose(rate(100_000), 1e-5, rtol=1e-4)


@pytest.mark.parametrize("steps", [100_000, 35_000, 1_500])
def test_warm_up_is_one_percent_of_any_budget(steps):
    rate = learning_rate(TrainingSpec(steps=steps))
    np.testing.assert_allclose(rate(steps // 500), 2e-4, rtol=1e-6)
    np.testing.assert_allclose(rate(steps // 100), 1e-3, rtol=1e-6)
    assert float(rate(steps // 10)) < 1e-3


def test_annealing_is_the_papers():
    at = {p: float(annealed_epsilon(jnp.asarray(p * 10), 1000)) for p in (0, 5, 40, 75, 76, 100)}
    assert at[0] == at[5] == 1.0
    np.testing.assert_allclose(at[40], 0.5, atol=1e-6)
    assert at[76] == at[100] == 0.0
    np.testing.assert_allclose(at[75], 0.0, atol=1e-6)


def test_an_annealed_run_keeps_only_what_is_deployable(tmp_path):
    training = dataclasses.replace(SHORT, steps=80, anneal=True)
    run = Run.create(experiment(training=training), tmp_path)
    result = train(run)
    assert float(run.model().blocks[0].cell.epsilon) == 0.0
    assert result["valid"]["step"] >= 60
    epsilons = [line["epsilon"] for line in run.progress()]
    assert epsilons[0] < 1.0
    assert epsilons[-1] == 0.0


def test_the_optimiser_is_clipped_adamw():
    """One step of the chain against the formulas, in NumPy."""
    from persistor.training.schedule import optimiser

    spec = TrainingSpec(steps=10)
    params = {"w": jnp.array([1.0, -2.0, 3.0])}
    transform = optimiser(spec)
    state = transform.init(params)
    m = v = np.zeros(3)
    w = np.array([1.0, -2.0, 3.0])
    for count in range(3):
        grads = np.array([3.0, -4.0, 12.0]) * (count + 1)
        updates, state = transform.update({"w": jnp.asarray(grads, jnp.float32)}, state, params)
        params = optax.apply_updates(params, updates)
        g = grads / max(1.0, np.linalg.norm(grads))
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g**2
        mean, square = m / (1 - 0.9 ** (count + 1)), v / (1 - 0.99 ** (count + 1))
        rate = float(learning_rate(spec)(count))
        w = w - rate * (mean / (np.sqrt(square) + 1e-8) + 1e-4 * w)
    np.testing.assert_allclose(params["w"], w, rtol=1e-5)


def test_a_run_stops_after_perfect_evaluations_in_a_row(tmp_path):
    training = dataclasses.replace(SHORT, steps=4000, patience=3, batch=16)
    model = dataclasses.replace(SMALL, cells=("alpha-cmru",), state_size=8, width=32)
    run = Run.create(
        experiment(task=CopyFirstDiscrete(2), model=model, training=training), tmp_path
    )
    result = train(run)
    assert result["steps"] < 4000
    lines = run.progress()
    perfect = [line["accuracy"] == 1.0 for line in lines]
    runs_of_three = [all(perfect[i : i + 3]) for i in range(len(perfect) - 2)]
    assert runs_of_three.index(True) == len(perfect) - 3
    assert result["valid"] == {"accuracy": 1.0, "step": lines[-1]["step"]}


def test_regression_keeps_the_lowest_error(tmp_path):
    run = Run.create(experiment(task=CopyFirstClean(4)), tmp_path)
    result = train(run)
    assert result["valid"]["mae"] == min(line["mae"] for line in run.progress())


def test_seeds_differ_and_repeat():
    losses = []
    for seed in (0, 1, 0):
        trainer = Trainer(experiment(seed=seed))
        losses.append(trainer.advance(trainer.start(), 4)[1])
    assert losses[0] == losses[2] != losses[1]


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path):
    training = dataclasses.replace(SHORT, learning_rate=1e30)
    run = Run.create(experiment(training=training), tmp_path)
    with pytest.raises(PersistorError, match="not finite between steps"):
        train(run, save_every=0.0)


@pytest.mark.parametrize(
    "value",
    [
        experiment(),
        experiment(task=Parity(), model=ModelSpec(("lru", "mingru"), blocks=3)),
        experiment(training=TrainingSpec(anneal=True), seed=9),
        experiment(model=ModelSpec(("mingru", "ladder"), blocks=2, levels=7)),
    ],
)
def test_an_experiment_goes_to_json_and_back(value):
    again = Experiment.from_json(json.loads(json.dumps(value.to_json())))
    assert again == value
    assert again.hash == value.hash


def test_numbers_are_settled_before_they_name_a_run():
    """In a process of its own: the type checker of the tests would refuse them first."""
    code = """
from persistor import Experiment, ModelSpec, PersistorError, TrainingSpec
from persistor.tasks import Parity

whole = Experiment(Parity(), ModelSpec(epsilon=1, hold=2), TrainingSpec(clip=1))
fraction = Experiment(Parity(), ModelSpec(epsilon=1.0, hold=2.0), TrainingSpec(clip=1.0))
assert whole == fraction
assert whole.name == fraction.name
for wrong in (lambda: ModelSpec(state_size=1.5), lambda: TrainingSpec(steps=10.0)):
    try:
        wrong()
    except PersistorError as error:
        assert "a whole number" in str(error)
    else:
        raise AssertionError("accepted")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_only_ladders_have_levels():
    """So that runs of all other cells keep the names that they had."""
    assert "levels" not in experiment().to_json()["model"]
    assert len(records()) > 5
    for record in records():
        assert record.experiment.name == record.name
    assert ModelSpec(("ladder",)) == ModelSpec(("ladder",), levels=4)
    assert [
        getattr(block.cell, "levels", None)
        for block in experiment(model=ModelSpec(("mingru", "ladder"), 2, 2, levels=7))
        .build()
        .blocks
    ] == [None, 7]


def test_different_experiments_have_different_names():
    values = [experiment(), experiment(seed=4), experiment(task=CopyFirstDiscrete(13))]
    values += [experiment(model=dataclasses.replace(SMALL, epsilon=0.5))]
    values += [experiment(model=dataclasses.replace(SMALL, hold=10.0))]
    assert len({value.name for value in values}) == 5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ModelSpec(("gru",)), "unknown cell"),
        (lambda: ModelSpec(epsilon=2.0), r"\[-1, 1\]"),
        (lambda: ModelSpec(("lru",), epsilon=0.5), "does not apply"),
        (lambda: ModelSpec(levels=4), "levels does not apply to cmru; use ladder"),
        (lambda: ModelSpec(("ladder",), levels=0), "whole number, at least 1"),
        (lambda: ModelSpec(("ladder",), epsilon=0.5), "does not apply"),
        (lambda: ModelSpec(("lru",), hold=10.0), "hold does not apply to lru; use bmru"),
        (lambda: ModelSpec(hold=-1.0), "at least 0"),
        (lambda: ModelSpec(hold=float("nan")), "at least 0"),
        (lambda: ModelSpec(state_size=0), "at least 1"),
        (lambda: ModelSpec(encoding=3), "even"),
        (lambda: ModelSpec(dropout=1.0), "dropout"),
        (lambda: TrainingSpec(steps=0), "at least 1"),
        (lambda: experiment(seed=-1), "between 0 and"),
        (lambda: experiment(model=ModelSpec(("lru",)), training=TrainingSpec(anneal=True)), "none"),
        (lambda: Experiment.from_json({"task": {}}), "not the description"),
        (lambda: experiment(seed=2**32), "between 0 and"),
        (lambda: Experiment.from_json({"task": {"name": "mnits"}}), "unknown task"),
    ],
)
def test_wrong_settings_are_refused(make, message):
    with pytest.raises(PersistorError, match=message):
        make()


def trained(tmp_path):
    run = Run.create(experiment(training=dataclasses.replace(SHORT, steps=8)), tmp_path)
    train(run)
    return run


def test_damaged_and_foreign_checkpoints_are_refused(tmp_path):
    run = trained(tmp_path)
    good = run.best.read_bytes()
    for size in (0, 5, 100, len(good) - 1):
        run.best.write_bytes(good[:size])
        with pytest.raises(PersistorError, match="damaged"):
            run.model()
    write_arrays(run.best, {"x": np.zeros(2)}, {"experiment": "someone else's"})
    with pytest.raises(PersistorError, match="another experiment"):
        run.model()
    write_arrays(run.best, {"x": np.zeros(2)}, {"experiment": run.experiment.hash})
    with pytest.raises(PersistorError, match="different model"):
        run.model()
    run.best.unlink()
    with pytest.raises(PersistorError, match="missing"):
        run.model()


def test_a_folder_that_is_not_a_run_is_refused(tmp_path):
    with pytest.raises(PersistorError, match="not a run folder"):
        Run.open(tmp_path)
    (tmp_path / "experiment.json").write_text("{")
    with pytest.raises(PersistorError, match="not JSON"):
        Run.open(tmp_path)


def test_two_processes_do_not_train_one_run(tmp_path):
    run = Run.create(experiment(), tmp_path)
    with run.locked(), pytest.raises(PersistorError, match="another process"):
        train(run)


def test_what_fails_in_training_is_not_laid_to_the_run_folder(tmp_path):
    run = Run.create(experiment(), tmp_path)
    with pytest.raises(PermissionError, match="elsewhere"), run.locked():
        raise PermissionError(errno.EACCES, "elsewhere")


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PersistorError, match="disk is full"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
def test_files_have_the_permissions_that_the_umask_leaves(umask, mode, tmp_path):
    before = os.umask(umask)
    try:
        run = Run.create(experiment(), tmp_path)
        run.note({"step": 1})
        run.rewind(0)
        write_arrays(run.latest, {"x": jnp.zeros(3)}, {})
        run.finish({})
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in run.path.iterdir()}
    names = ("experiment.json", "progress.jsonl", "latest.safetensors", "result.json")
    assert modes == dict.fromkeys(names, mode)
