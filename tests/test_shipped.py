"""Models that come with persistor are what their cards say, and a name opens them everywhere."""

import dataclasses
import fnmatch
import json
import shlex
import tomllib
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest
from on_this_machine import use_real
from test_cli import call

import persistor
from persistor import Experiment, PersistorError, Run, evaluate
from persistor.cli import commands
from persistor.model import shipped
from persistor.model.file import opened, read_metadata

ROOT = Path(persistor.__file__).parent
NAMES = shipped.names()
LONGEST = 1_000  # of the lengths on a card, those that are measured again here
LARGEST = 500_000  # bytes, of all together


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def test_there_are_some_and_they_are_small():
    assert {"parity", "copy-first"} <= set(NAMES)
    assert sum(shipped.card(name).bytes for name in NAMES) < LARGEST


@pytest.mark.parametrize("name", NAMES)
def test_a_model_has_the_parameters_of_its_card(name):
    model = persistor.load(name)
    arrays = jax.tree.leaves(eqx.filter(model, eqx.is_array))
    assert sum(array.size for array in arrays) == shipped.card(name).parameters


@pytest.mark.parametrize("name", NAMES)
def test_a_model_scores_what_its_card_says(name, monkeypatch):
    card, model = shipped.card(name), persistor.load(name)
    task = Run.open(shipped.FOLDER / name).experiment.task
    if task.data:
        use_real(task.data, monkeypatch)
    tests = [(task, card.test[task.objective.metric])]
    tests += [(task.with_length(int(n)), v) for n, v in card.lengths.items() if int(n) <= LONGEST]
    for tested, said in tests:
        # an answer in a thousand may differ where rounding does
        assert abs(evaluate(model, tested.split("test"), tested.objective) - said) <= 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_the_command_of_a_card_is_its_experiment(name):
    import tyro

    program, command, *arguments = shlex.split(shipped.card(name).command)
    assert (program, command) == ("persistor", "train")
    experiment = tyro.cli(commands()["train"], args=arguments).experiment()
    assert isinstance(experiment, Experiment)
    trained = Run.open(shipped.FOLDER / name).experiment
    if trained.task.version:  # the command takes the version of the data that are here
        task = dataclasses.replace(experiment.task, version=trained.task.version)
        experiment = dataclasses.replace(experiment, task=task)
    assert experiment == trained
    path = shipped.FOLDER / name / "best.safetensors"
    with opened(path) as file:
        assert read_metadata(path, file)["experiment"] == experiment.hash


def test_a_wheel_has_every_file():
    project = ROOT.parents[1] / "pyproject.toml"
    if not project.exists():
        pytest.skip("not a checkout")
    kept = tomllib.loads(project.read_text())["tool"]["setuptools"]["package-data"]["persistor"]
    for path in (path for name in NAMES for path in (shipped.FOLDER / name).iterdir()):
        assert any(fnmatch.fnmatch(str(path.relative_to(ROOT)), pattern) for pattern in kept)


def test_models_are_listed(capsys):
    assert call("models") == 0
    said = capsys.readouterr().out
    assert call("models", "--json") == 0
    cards = json.loads(capsys.readouterr().out)["models"]
    assert [card["name"] for card in cards] == NAMES
    for card in cards:
        assert f"{card['parameters']:,}" in said
        assert card["command"] in said


def test_a_name_predicts(capsys):
    bits = np.zeros((2, 30, 1), np.float32)
    bits[1, 7] = 1
    np.savez("bits.npz", x=bits)
    assert call("predict", "parity", "bits.npz", "--json") == 0
    answers = [json.loads(line)["class"] for line in capsys.readouterr().out.splitlines()]
    assert answers == ["0", "1"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_exported(name, tmp_path, capsys):
    assert call("export", "c", name, "--folder", "model", "--json") == 0
    assert (tmp_path / "model" / "src" / "model.c").exists()


def test_a_name_is_evaluated_and_nothing_is_written_into_the_package(tmp_path, capsys):
    before = sorted(shipped.FOLDER.rglob("*"))
    assert call("evaluate", "copy-first", "--json") == 0
    assert json.loads(capsys.readouterr().out)["picture"] == "copy-first-evaluate.png"
    assert call("inspect", "parity", "--json") == 0
    assert {p.name for p in tmp_path.glob("*.png")} == {
        "copy-first-evaluate.png",
        "parity-inspect.png",
    }
    assert sorted(shipped.FOLDER.rglob("*")) == before


@pytest.mark.parametrize("open_", [persistor.load, lambda name: Run.open(name)])
def test_an_unknown_name_is_answered_with_those_there_are(open_):
    with pytest.raises(PersistorError, match=", ".join(NAMES)):
        open_("paritty")


def test_what_is_here_comes_first(tmp_path):
    Path("parity").mkdir()
    with pytest.raises(PersistorError, match=r"hides the model parity .* rename it"):
        persistor.load("parity")
    persistor.save(persistor.load("copy-first"), tmp_path / "parity" / "best.safetensors")
    assert persistor.load("parity").encoder.linear.weight.shape[0] == 15
