"""A result says where it comes from, and the command it names repeats it."""

import dataclasses
import json
import shlex
import subprocess
import sys
from importlib.metadata import version

import jax
import numpy as np
import pytest
import tyro
from committed import committed, records, unpack

from persistor import Experiment, ModelSpec, Run, TrainingSpec, train
from persistor._tools.machine import processors
from persistor.cells import CELLS
from persistor.cli import main
from persistor.cli.train import Train
from persistor.kernels import library
from persistor.kernels.doctor import compiled
from persistor.model import ARCHITECTURES
from persistor.model.file import read_arrays, write_arrays
from persistor.reproduction.archive import Archive
from persistor.tasks import TASKS, CopyFirstDiscrete, KWSDigits, Parity, own_task
from persistor.training.loop import Checkpoint, Trainer
from persistor.training.provenance import MISSING, command, in_words

SMALL = ModelSpec(state_size=2, width=8, encoding=8)
SHORT = TrainingSpec(steps=44, batch=8, evaluate_every=8, valid_batches=2)
OPTIONS = [
    {"cell": "mingru,cmru", "blocks": 4, "state_size": 16},
    {"cell": "alpha-cmru", "epsilon": 0.1, "length": 300},
    {"cell": "bmru", "hold": 10.0},
    {"cell": "lru", "dropout": 0.25, "batch": 16},
    {"cell": "ladder", "levels": 7, "encoding": 0},
    {"anneal": True, "seed": 4_294_967_295},
    {"deployable": True, "mismatch": 0.13, "noise": 0.2},
    {"deployable": True, "levels": 4},
    {"tiny": True, "steps": 1},
    {"tiny": True, "width": 32, "encoding": 2},
    {"epsilon": -1.0},
    {"learn_epsilon": True, "hold": 0.5, "thresholds": "constant"},
    {"architecture": "norm-first", "hold": 2.0},
    {"changes": {"base": 100, "encoder_bias": False, "encoding": 4, "norm_epsilon": 1e-3}},
    {"cell": "mingru", "longest": 784.0, "architecture": "quiet"},
]


@pytest.fixture(autouse=True)
def as_users_have_it():
    """optax relies on JAX's usual promotion."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def repeated(text):
    """The experiment that a command stands for."""
    program, verb, *words = shlex.split(text)
    assert (program, verb) == ("persistor", "train")
    return tyro.cli(Train, args=words).experiment()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_command_repeats_its_experiment(options):
    experiment = Experiment.of("copy-first-discrete", **options)
    assert repeated(command(experiment)).name == experiment.name


@pytest.mark.parametrize("task", TASKS)
def test_a_task_by_itself_needs_no_options(task):
    experiment = Experiment.of(task)
    assert command(experiment) == f"persistor train {task}"
    assert repeated(command(experiment)).name == experiment.name


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_command_knows_every_architecture(cell, architecture):
    experiment = Experiment.of("parity", cell=cell, architecture=architecture)
    assert repeated(command(experiment)).name == experiment.name
    assert (architecture == "robust") == ("-robust-" in experiment.name)


@pytest.mark.slow
def test_committed_runs_have_their_commands(tmp_path, monkeypatch):
    assert len(records()) > 100
    for record in records():
        there = record.experiment.task.version or "0.02"
        folder = tmp_path / there
        (folder / f"speech_commands_v{there}").mkdir(parents=True, exist_ok=True)
        monkeypatch.setenv("PERSISTOR_DATA", str(folder))
        assert repeated(command(record.experiment)).name == record.name


def test_the_version_of_the_data_is_no_option():
    assert command(
        Experiment(KWSDigits("0.01"), ModelSpec(state_size=4), TrainingSpec(35_000))
    ) == ("persistor train kws-digits --architecture paper")


def test_own_data_are_named_by_their_place(tmp_path):
    arrays, text = tmp_path / "my data.npz", tmp_path / "text.txt"
    np.savez(arrays, x=np.zeros((20, 5, 1), np.float32), y=np.arange(20) % 2)
    text.write_text("to be or not to be, that is the question " * 40)
    for task in (own_task(arrays), own_task(text), own_task(text).with_length(16)):
        experiment = Experiment(task, SMALL, TrainingSpec(steps=10))
        assert repeated(command(experiment)).name == experiment.name


@pytest.mark.slow
def test_what_has_no_option_is_described_to_python(tmp_path):
    quick = TrainingSpec(steps=4, batch=2, evaluate_every=4, valid_batches=1, learning_rate=0.01)
    text = tmp_path / "lines.txt"  # its alphabet has what must be quoted
    text.write_text("'to be'\n\"or not to be\"\\\n" * 40)
    experiment = Experiment(own_task(text).with_length(5), SMALL, quick)
    program, *words = shlex.split(command(experiment))
    assert program == "python"
    subprocess.run([sys.executable, *words], cwd=tmp_path, check=True)
    assert Run.open(tmp_path / "runs" / experiment.name).result is not None
    other = Experiment(Parity(test_lengths=(60, 60)))
    assert command(other).startswith("python -c ")


def test_a_result_says_where_it_comes_from(tmp_path, monkeypatch):
    monkeypatch.setenv("PERSISTOR_THREADS", "1")
    experiment = Experiment(CopyFirstDiscrete(12), SMALL, SHORT)
    run = Run.create(experiment, tmp_path)
    name = run.path.name
    result = train(run)
    found = result["provenance"]
    assert run.result == result
    assert (run.experiment.name, name) == (name, experiment.name)
    packages = ("persistor", "jax", "jaxlib", "equinox", "optax", "numpy")
    assert found["versions"] == {package: version(package) for package in packages}
    assert found["kernels"] == compiled()
    assert found["engine"]
    assert found["processor"]
    assert found["processors"] == processors()
    xla = library().xla_threads
    assert found["threads"] == {"xla": xla, "kernels": xla and 1}
    assert found["sittings"] == 1
    assert set(found["seconds"]) == {"prepare", "compile", "train", "evaluate", "test"}
    assert all(seconds >= 0 for seconds in found["seconds"].values())
    inside = sum(found["seconds"].values()) - found["seconds"]["prepare"]
    assert result["seconds"] * 0.5 < inside <= result["seconds"] + 0.01
    assert found["command"] == command(experiment)
    assert "provenance" not in experiment.to_json()
    for said in (f"jax {version('jax')}", f"kernels {compiled()}", f"threads xla {xla}, kernels"):
        assert said in in_words(experiment, result)
    assert "is damaged" in in_words(experiment, {**result, "provenance": 5})


def stop_after(intervals):
    left = [intervals]

    def enough():
        left[0] -= 1
        return left[0] == 0

    return enough


@pytest.mark.slow
def test_sittings_add_up(tmp_path):
    run = Run.create(Experiment(CopyFirstDiscrete(12), SMALL, SHORT), tmp_path)
    last = {}
    for sitting in (1, 2):
        assert train(run, should_stop=stop_after(2)) is None
        saved = saved_stopwatch(run)
        assert saved["sittings"] == sitting
        assert set(saved["seconds"]) == {"prepare", "compile", "train", "evaluate"}
        assert all(saved["seconds"][name] > last.get(name, 0) for name in saved["seconds"])
        last = saved["seconds"]
    found = train(run)["provenance"]
    assert found["sittings"] == 3
    assert all(found["seconds"][name] >= round(last[name], 3) for name in last)
    assert found["seconds"]["prepare"] > round(last["prepare"], 3)


def saved_stopwatch(run):
    return checkpoint(run)[1]["stopwatch"]


def checkpoint(run) -> tuple[Checkpoint, dict]:
    return read_arrays(run.latest, Trainer(run.experiment).start(), run.experiment.hash)


@pytest.mark.slow
def test_a_run_begun_before_there_was_provenance_is_finished(tmp_path):
    run = Run.create(Experiment(CopyFirstDiscrete(12), SMALL, SHORT), tmp_path)
    train(run, should_stop=stop_after(2))
    state, metadata = checkpoint(run)
    del metadata["stopwatch"]
    write_arrays(run.latest, state, metadata)
    found = train(run)["provenance"]
    assert found["seconds"][MISSING] == round(metadata["standing"]["seconds"], 3)
    assert found["sittings"] == 2


def shown(capsys, *arguments):
    with pytest.raises(SystemExit, match="0"):
        main(["compare", *map(str, arguments)])
    return capsys.readouterr().out


def test_compare_shows_provenance_under_its_table(tmp_path, capsys):
    table = ("copy-first-discrete", "--only", "cell=cmru", "length=100,1000")
    names = ("L100-cmru-eps1-d4-r1-seed0", "L100-cmru-eps1-d4-r1-seed1", "L1000-cmru-eps1-d4")
    Archive(tmp_path).add([committed(f"copy-first-discrete-{name}-") for name in names])
    old = ("--runs", tmp_path)
    plain = shown(capsys, *table, *old)
    text = shown(capsys, *table, *old, "--provenance")
    assert text.startswith(plain.rstrip("\n"))
    lines = text[len(plain) :].splitlines()
    assert len(lines) == 3  # two seeds of one entry, one of the other
    assert all(f"versions, engine, kernels, processor, threads {MISSING}" in line for line in lines)
    assert lines[-1].endswith("; persistor train copy-first-discrete --architecture paper")
    told = json.loads(shown(capsys, *table, *old, "--provenance", "--json"))["tables"][0]
    origins = told.pop("provenance")
    assert [told] == json.loads(shown(capsys, *table, *old, "--json"))["tables"]
    assert [line.strip() for line in lines] == [
        f"{label}: {origin}" for label, runs in origins.items() for origin in runs.values()
    ]
    for format, start in {"markdown": "- ", "latex": "% "}.items():
        under = shown(capsys, *table, *old, "--provenance", "--format", format).splitlines()[-1]
        assert under.startswith(start + "cmru L 1000: ")


@pytest.mark.slow
def test_compare_shows_what_a_new_run_recorded(tmp_path, capsys):
    model = ModelSpec(state_size=1, epsilon=-1.0)
    task = dataclasses.replace(Parity(), train_lengths=(1, 4), test_lengths=(4, 8))
    record = committed("parity-cmru-eps-1-d1-r1-seed0-")
    new = train(Run.create(Experiment(task, model, TrainingSpec(steps=1, batch=2)), tmp_path))
    result = {**record.result, "provenance": new["provenance"]}
    unpack(dataclasses.replace(record, result=result), tmp_path)
    line = shown(capsys, "parity", "--runs", tmp_path, "--provenance").splitlines()[-1]
    assert f"jax {version('jax')}" in line
    assert new["provenance"]["processor"] in line
    assert "prepare" in line
    assert line.endswith(command(record.experiment))
