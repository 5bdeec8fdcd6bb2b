"""Your own data: made a task, or refused with a line that says what was expected."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from publishers import npz
from test_cli import call
from test_data import FUZZ, damaged, refused_or_whole

from persistor import Experiment, PersistorError
from persistor.tasks import KINDS, own_task
from persistor.tasks.task import SPLITS

RNG = np.random.default_rng(0)
X = RNG.normal(3, 2, (50, 7, 2))
CLASSES = RNG.integers(0, 3, 50)
TEXT = "the quick brown fox jumps over the lazy dög\n" * 40


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PERSISTOR_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sounds(folder, per_class=6):
    soundfile = pytest.importorskip("soundfile")
    for word, pitch in (("low", 300), ("high", 2_000)):
        (folder / "clips" / word).mkdir(parents=True)
        for i in range(per_class):
            signal = 0.3 * np.sin(np.arange(9_000 + 900 * i) * pitch * 2 * np.pi / 16_000)
            soundfile.write(
                folder / "clips" / word / f"{i}.{('wav', 'flac')[i % 2]}", signal, 16_000
            )
    return folder / "clips"


def make(kind, folder):
    if kind == "own-sounds":
        return sounds(folder)
    path = folder / {"own-arrays": "signals.npz", "own-text": "novel.txt"}[kind]
    path.write_bytes(npz(x=X, y=CLASSES) if kind == "own-arrays" else TEXT.encode())
    return path


OWN = ["own-arrays", "own-sounds", "own-text"]


@pytest.mark.parametrize("kind", OWN)
def test_it_becomes_a_task_that_goes_to_json_and_back(kind, folder):
    path = make(kind, folder)
    task = own_task(path)
    assert type(task) is KINDS[kind]
    experiment = Experiment(task.with_length(20) if kind == "own-text" else task)
    assert Experiment.from_json(json.loads(json.dumps(experiment.to_json()))) == experiment
    for name in SPLITS:
        split = experiment.task.split(name)
        batch = split.at(jnp.arange(min(3, split.size), dtype=jnp.int32))
        assert batch.inputs.dense().shape[-1] == task.inputs
        assert 0 <= batch.targets.min() <= batch.targets.max() < task.outputs


@pytest.mark.parametrize("kind", OWN)
def test_other_data_under_the_same_name_are_refused(kind, folder):
    path = make(kind, folder)
    task = own_task(path)
    changed = path / "low" / "0.wav" if path.is_dir() else path
    changed.write_bytes(changed.read_bytes()[:-1])
    with pytest.raises(PersistorError, match="has changed"):
        task.split("train")


def test_arrays_keep_their_examples(folder):
    task = own_task(make("own-arrays", folder))
    splits = [task.split(name) for name in SPLITS]
    assert [split.size for split in splits] == [40, 5, 5]
    every = np.concatenate([split.features for split in splits])
    np.testing.assert_allclose(np.sort(every.ravel()), np.sort(X.ravel()), rtol=1e-6)
    train = splits[0].at(jnp.arange(40, dtype=jnp.int32)).inputs.dense()
    np.testing.assert_allclose(train.mean((0, 1)), 0, atol=1e-5)


@pytest.mark.parametrize("y", [RNG.normal(size=50), RNG.normal(size=(50, 3))])
def test_fractions_are_numbers_to_give_back(y, folder):
    (folder / "a.npz").write_bytes(npz(x=X.astype(np.float16), y=y))
    task = own_task(folder / "a.npz")
    assert (task.objective.metric, task.outputs) == ("mae", y.size // 50)
    assert task.split("valid").at(jnp.arange(2, dtype=jnp.int32)).targets.shape == (2, task.outputs)


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"x": X}, "should hold x and y"),
        ({"x": X[0], "y": CLASSES}, r"\(N, T, F\)"),
        ({"x": X, "y": CLASSES[:-1]}, "for each of 50 sequences"),
        ({"x": X, "y": CLASSES - 1}, "one class"),
        ({"x": X, "y": np.zeros(50, int)}, "one class"),
        ({"x": X[:5], "y": CLASSES[:5]}, "at least 10"),
        ({"x": np.where(X > 3, np.nan, X), "y": CLASSES}, "not a finite number"),
        ({"x": X.astype(str), "y": CLASSES}, r"\(N, T, F\)"),
    ],
)
def test_arrays_that_are_none(arrays, says, folder):
    (folder / "a.npz").write_bytes(npz(**arrays))
    with pytest.raises(PersistorError, match=says):
        own_task(folder / "a.npz")


@FUZZ
@given(damaged(npz(x=X, y=CLASSES)))
def test_damaged_arrays(tmp_path, content):
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    with refused_or_whole(path):
        assert own_task(path).inputs >= 1


def test_texts_and_folders_that_are_none(folder):
    (folder / "binary.txt").write_bytes(b"\xff\xfe\x00")
    (folder / "dull.txt").write_text("aaaa")
    (folder / "empty").mkdir()
    for name, says in (
        ("binary.txt", "UTF-8"),
        ("dull.txt", "1 different characters"),
        ("empty", "0 sounds of 0 classes"),
        ("nowhere", "does not exist"),
    ):
        with pytest.raises(PersistorError, match=says):
            own_task(folder / name)
    clips = sounds(folder)
    (clips / "low" / "0.wav").write_bytes(b"RIFF")
    with pytest.raises(PersistorError, match=r"low/0\.wav"):
        own_task(clips)


def test_train_and_sample_from_the_command_line(folder, capsys):
    make("own-text", folder)
    small = ["--blocks", 1, "--state", 3, "--width", 16, "--batch", 4, "--steps", 2]
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        assert call("train", "--data", "novel.txt", "--length", 16, *small, "--json") == 0
        run = json.loads(capsys.readouterr().out)["run"]
        assert call("sample", run, "--prompt", "dög", "--count", 5, "--json") == 0
        assert json.loads(capsys.readouterr().out)["text"].startswith("dög")
        assert call("train", "parity", "--data", "novel.txt") == 2
        assert "not both" in capsys.readouterr().err
        assert call("train") == 2
        assert "unknown task" in capsys.readouterr().err
