"""A model answers about a file what it computes from the same example in its data."""

import io
import json
import tempfile
import wave
from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.image
import numpy as np
import pytest
from publishers import npz, on_data, publish

import persistor
from persistor import Experiment, PersistorError, Run, train
from persistor.cli import main
from persistor.cli.predict import files
from persistor.data.preparation import FILES, Preparation
from persistor.model.file import opened, read_metadata, write_arrays
from persistor.model.prediction import TOGETHER
from persistor.tasks import PMNIST, TASKS, CopyFirstClean, IMDb, KWSDigits, Parity, own_task
from persistor.tasks.own_data import Reading

TINY = {"tiny": True, "state_size": 3, "seed": 3}


@pytest.fixture(autouse=True)
def as_users_have_it():
    """optax relies on JAX's usual promotion."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def tone(path, hertz, rate=8000, seconds=0.5, seed=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    n = round(rate * seconds)
    noise = np.random.default_rng(seed).normal(size=n)
    signal = 0.4 * np.sin(2 * np.pi * hertz * np.arange(n) / rate) + 0.02 * noise
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((32767 * signal).astype("<i2").tobytes())


@pytest.fixture(scope="module")
def tones(tmp_path_factory):
    """Two classes of tones at 8 kHz."""
    folder = tmp_path_factory.mktemp("tones") / "sounds"
    for i in range(20):
        tone(folder / "low" / f"{i}.wav", 300, seed=i)
        tone(folder / "high" / f"{i}.wav", 2500, seed=i)
    return folder


@pytest.fixture(scope="module")
def listener(tones, tmp_path_factory):
    """A run that has learned to tell the tones apart."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        experiment = Experiment.of(own_task(tones), tiny=True, state_size=4, steps=120, batch=16)
        training = replace(experiment.training, evaluate_every=40, valid_batches=2)
        run = Run.create(replace(experiment, training=training), tmp_path_factory.mktemp("runs"))
        result = train(run)
    assert result["test"]["accuracy"] == 1.0
    return run, tones


def model_of(task):
    """An untrained model as `train` would have saved it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        model = Experiment.of(task, **TINY).build()
        persistor.save(model, path, preparation=task.preparation().to_json())
        return persistor.load(path)


def computed(model, task, indices):
    """What the model computes from examples of the test set."""
    batch = task.split("test").at(jnp.asarray(indices))
    return batch, eqx.filter_jit(model)(batch.inputs, lengths=batch.lengths)[0]


def close(a, b):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-4, atol=2e-5)


def test_arrays_of_any_lengths_are_answered_as_in_a_batch():
    task = Parity(train_lengths=(3, 20), test_lengths=(3, 20))
    model = model_of(task)
    batch, outputs = computed(model, task, range(5))
    rows = [np.asarray(x)[:n] for x, n in zip(batch.inputs.dense(), batch.lengths, strict=True)]
    together = model.predict(rows)
    close([p.values for p in together], jax.nn.softmax(outputs))
    for row, prediction in zip(rows, together, strict=True):
        (alone,) = model.predict(row)
        close(alone.values, prediction.values)
        assert alone.best == prediction.best == ("0", "1")[int(alone.values.argmax())]
        assert [name for name, _ in alone.top(1)] == [alone.best]


def test_more_inputs_than_a_batch_come_in_order():
    task = CopyFirstClean(length=4)
    model = model_of(task)
    _, outputs = computed(model, task, range(TOGETHER + 3))
    batch = task.split("test").at(jnp.arange(TOGETHER + 3))
    found = model.predict(list(np.asarray(batch.inputs.dense())))
    close([p.values for p in found], outputs)
    assert found[0].best == pytest.approx([float(outputs[0, 0])], abs=1e-4)
    with pytest.raises(PersistorError, match="no likeliest class"):
        found[0].top()


def test_a_picture_is_read_in_the_order_of_its_pixels(tmp_path):
    model = model_of(PMNIST())
    picture = np.random.default_rng(0).integers(0, 256, (28, 28), np.uint8)
    np.save(tmp_path / "one.npy", picture)
    matplotlib.image.imsave(tmp_path / "one.png", np.dstack([picture] * 3))
    pixels = picture.reshape(-1)[np.random.RandomState(42).permutation(784)] / 255
    outputs, _ = model(pixels.astype(np.float32)[:, None])
    for name in ("one.npy", "one.png"):
        (prediction,) = model.predict(tmp_path / name)
        close(prediction.values, jax.nn.softmax(outputs))


def test_a_table_of_several_sequences_is_answered_one_by_one(tmp_path):
    rows = [f"r{i},{t + i},{'ab'[i % 2]}\n" for t in range(3) for i in range(20)]
    (tmp_path / "all.csv").write_text("id,x,label\n" + "".join(rows))
    task = own_task(tmp_path / "all.csv", Reading(target="label", sequence="id"))
    model = model_of(task)
    every = model.predict(tmp_path / "all.csv")
    assert [p.name for p in every] == [f"{tmp_path / 'all.csv'}[r{i}]" for i in range(20)]
    for text in ("id,x\nr4,4\nr4,5\nr4,6\n", "x\n4\n5\n6\n"):
        (tmp_path / "one.csv").write_text(text)
        (one,) = model.predict(tmp_path / "one.csv")
        assert one.name == str(tmp_path / "one.csv")
        close(one.values, every[4].values)


RNG = np.random.default_rng(0)
ARRAYS = {"x": RNG.normal(size=(30, 5, 2)), "lengths": RNG.integers(1, 6, 30)}


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """An untrained model of arrays with a class for every step."""
    path = tmp_path_factory.mktemp("arrays") / "a.npz"
    path.write_bytes(npz(**ARRAYS, y=RNG.integers(0, 2, (30, 5))))
    return model_of(own_task(path))


def test_arrays_in_a_file_and_in_a_folder_are_answered_alike(reader, tmp_path):
    (tmp_path / "a.npz").write_bytes(npz(**ARRAYS, y=np.zeros(30)))
    (tmp_path / "folder").mkdir()
    for name, array in ARRAYS.items():
        np.save(tmp_path / "folder" / f"{name}.npy", array)
    assert files((str(tmp_path / "folder"),), FILES["arrays"]) == [tmp_path / "folder"]
    found, again = (reader.predict(tmp_path / name) for name in ("a.npz", "folder"))
    assert [len(p.best) for p in found] == ARRAYS["lengths"].tolist()
    for one, other in zip(found, again, strict=True):
        np.testing.assert_array_equal(one.values, other.values)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"lengths": ARRAYS["lengths"] + 1}, "lengths is 6 for sequence .*; it must lie between"),
        ({"lengths": ARRAYS["lengths"][:9]}, r"lengths is int64 \(9,\); whole numbers \(30,\)"),
        ({"lengths": ARRAYS["lengths"] / 2}, "lengths is float64"),
        ({"z": ARRAYS["x"]}, "holds z, which is not understood"),
        ({"x": ARRAYS["x"][..., :1]}, r"\[0\] has shape \(.*, 1\); \(t, 2\) is expected"),
        ({"x": np.full((30, 5, 2), np.inf)}, "not a finite number at step 0, feature 0"),
        ({"x": np.zeros(30)}, r"x has shape \(30,\); \(n, t, f\) or \(t, f\)"),
    ],
)
def test_arrays_that_cannot_be_answered_are_named_in_a_line(changed, says, reader, tmp_path):
    (tmp_path / "new.npz").write_bytes(npz(**ARRAYS | changed))
    with pytest.raises(PersistorError, match=says) as error:
        reader.predict(tmp_path / "new.npz")
    assert "\n" not in str(error.value)


def test_a_text_is_answered_by_class_or_by_what_comes_next(tmp_path):
    (tmp_path / "review.txt").write_text("A film, a café.")
    review = model_of(IMDb(length=12))
    (prediction,) = review.predict(str(tmp_path / "review.txt"))
    assert prediction.best in ("favourable", "unfavourable")
    ids = list("A film, a café.".encode()[:12])
    outputs, _ = review(np.eye(256, dtype=np.float32)[ids])
    close(prediction.values, jax.nn.softmax(outputs))
    (tmp_path / "own.txt").write_text("to be or not to be " * 60)
    task = own_task(tmp_path / "own.txt")
    (next_letter,) = model_of(task).predict(tmp_path / "own.txt")
    assert next_letter.best in task.letters
    assert next_letter.values.shape == (len(task.letters),)


def test_a_run_keeps_all_that_prediction_needs(listener, tmp_path, capsys):
    run, tones = listener
    model = persistor.load(run.path)
    files = [tones / "low" / "0.wav", tones / "high" / "3.wav"]
    found = model.predict(files)
    assert [p.best for p in found] == ["low", "high"]
    persistor.save(model, tmp_path / "alone.safetensors")
    again = persistor.load(tmp_path / "alone.safetensors")
    assert again.preparation == model.preparation == run.experiment.task.preparation()
    tone(tmp_path / "new" / "high.wav", 2400, rate=44100, seed=99)
    (tmp_path / "new" / ".hidden.wav").write_bytes(b"no")
    (tmp_path / "new" / "notes.txt").write_text("not a sound")
    say = ["predict", str(tmp_path / "alone.safetensors")]
    with pytest.raises(SystemExit) as ended:
        main([*say, str(tmp_path / "new"), str(files[0]), "--json"])
    assert ended.value.code == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["class"], second["class"]) == ("high", "low")
    assert sum(first["top"].values()) == pytest.approx(1, abs=1e-5)


def listening(monkeypatch, content, *words):
    class Standard:
        buffer = io.BytesIO(content)

    monkeypatch.setattr("sys.stdin", Standard())
    with pytest.raises(SystemExit) as ended:
        main(["predict", *map(str, words)])
    return ended.value.code


def test_a_stream_of_samples_gets_a_running_answer(listener, monkeypatch, capsys):
    run, _ = listener
    time = np.arange(16_000) / 16_000
    sound = np.concatenate([0.4 * np.sin(2 * np.pi * f * time) for f in (300, 2500)])
    assert listening(monkeypatch, (32767 * sound).astype("<i2").tobytes(), run.path, "-") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8
    assert lines[3].startswith("1.00 s  low")
    assert lines[-1].startswith("2.00 s  high")


def test_a_run_of_before_says_how_to_add_what_is_missing(listener, tmp_path, capsys):
    run, tones = listener
    old = Run.create(run.experiment, tmp_path)
    with opened(run.best) as file:
        metadata = read_metadata(run.best, file)
    del metadata["preparation"], metadata["constants"]
    write_arrays(old.best, run.model(), metadata)
    for words, code, says in (
        (["predict", str(old.path), str(tones)], 2, "`persistor evaluate"),
        (["evaluate", str(old.path)], 0, "accuracy 1.0000"),
        (["predict", str(old.path), str(tones / "low" / "1.wav")], 0, "low "),
    ):
        with pytest.raises(SystemExit) as ended:
            main(words)
        told = capsys.readouterr()
        assert ended.value.code == code
        assert says in told.out + told.err


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path / "missing.wav", "does not exist"),
        (lambda path: path, "there are no files"),
        (lambda path: _written(path / "cut.wav", b"RIFF0000WAVEfmt "), "is truncated"),
        (
            lambda path: _written(path / "odd.wav", b"hello"),
            "odd.wav is not a complete sound file (Format not recognised)",
        ),
        (lambda path: _written(path / "none.wav", b""), "is not a complete sound file"),
    ],
)
def test_inputs_that_cannot_be_read_are_named_in_a_line(make, says, listener, tmp_path, capsys):
    run, _ = listener
    with pytest.raises(SystemExit) as ended:
        main(["predict", str(run.path), str(make(tmp_path))])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert says in told
    assert len(told.splitlines()) == 1


def test_samples_are_fractions_or_pcm(listener):
    model = persistor.load(listener[0].path)
    sound = (9_000 * np.sin(np.arange(8_000))).astype(np.int16)
    close(model.predict(sound)[0].values, model.predict(sound / 2**15)[0].values)
    broken = np.where(np.arange(8_000) == 70, np.nan, 0.0)
    for given, says in (
        (broken, "not a finite number at sample 70"),
        (np.zeros(0), "holds no samples"),
        (np.zeros(8_000, int), "int64; samples of a sound are fractions in .-1, 1., or int16"),
    ):
        with pytest.raises(PersistorError, match=says):
            model.predict(given)
    with pytest.raises(PersistorError, match="count is 0; it must be a whole number, at least 1"):
        model.predict(sound)[0].top(0)


def _written(path, content):
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (np.zeros((4, 2)), r"shape \(4, 2\); \(t, 1\) is expected"),
        (np.zeros((0, 1)), "with a step"),
        (np.array([[0.0], [np.nan]]), "not a finite number at step 1, feature 0"),
        (np.array([["a"]]), "numbers are expected"),
    ],
)
def test_wrong_arrays_are_named_in_a_line(given, says):
    with pytest.raises(PersistorError, match=says):
        model_of(CopyFirstClean(length=4)).predict(given)


def test_a_model_of_your_own_says_that_it_cannot_read():
    with pytest.raises(PersistorError, match="does not say how to read"):
        Experiment.of("parity", **TINY).build().predict(np.zeros((3, 1)))


@pytest.mark.parametrize("name", sorted(n for n in TASKS if TASKS[n].data != "speech-commands"))
def test_a_preparation_goes_through_json(name):
    preparation = TASKS[name]().preparation()
    assert preparation.kind in FILES
    assert Preparation.from_json(json.loads(json.dumps(preparation.to_json()))) == preparation


def test_spoken_words_are_scaled_as_in_training(tmp_path, monkeypatch):
    monkeypatch.setenv("PERSISTOR_DATA", str(tmp_path))
    task = on_data(KWSDigits, publish(tmp_path, "speech-commands"))()
    preparation, train_split = task.preparation(), task.split("train")
    assert preparation.classes == task.classes
    close(preparation.mean, train_split.mean)
    close(preparation.deviation, train_split.deviation)
    assert preparation.clip == 1.0
