"""Keyword spotting: published lists, and clips that vary."""

import io
import wave

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from publishers import WORDS, npz, on_data, publish

from persistor._tools.errors import PersistorError
from persistor.data import mfcc, speech
from persistor.tasks import KWS12, KWSWords
from persistor.tasks.spotting import COMMANDS, _moved, _with_gap, _with_noise


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERSISTOR_DATA", str(folder))
        yield publish(folder, "speech-commands")


def words_of(task, name):
    """The word of each example: the mean of a made-up clip is the number of its word."""
    split = task.split(name)
    return np.rint(np.asarray(split.features, np.float32).mean((1, 2))).astype(int)


@pytest.mark.parametrize("kind", [KWS12, KWSWords])
@pytest.mark.parametrize("name", ["train", "valid", "test"])
def test_classes_hold_their_words(kind, name, data):
    task = on_data(kind, data)()
    targets, words = np.asarray(task.split(name).targets), words_of(task, name)
    for word, target in zip(words, targets, strict=True):
        expected = WORDS[word]
        if kind is KWS12:
            expected = {speech.NOISE: "silence"}.get(expected, expected)
            expected = expected if expected in (*COMMANDS, "silence") else "unknown"
            assert task.classes[target] == expected
        else:
            assert expected == WORDS[target] != speech.NOISE
    assert set(targets) == set(range(task.outputs))


def test_sampled_classes_are_a_tenth(data):
    task = on_data(KWS12, data)()
    for name in ("valid", "test"):
        counts = np.bincount(np.asarray(task.split(name).targets))
        assert (counts == [20] * 12).all()  # a tenth of ten times 20
    everything = np.bincount(np.asarray(task.split("train").targets))
    assert everything[:11].tolist() == [80] * 11
    assert everything[11] == 25 * 80  # every other word


def test_splits_are_the_published_ones(data):
    clips = speech.load(data)
    task = on_data(KWSWords, data)()
    for number, name in enumerate(("train", "valid", "test")):
        kept = np.flatnonzero((clips.splits == number) & (clips.labels < len(WORDS) - 1))
        assert np.array_equal(task.split(name).features, clips.features[kept])


def test_examples_are_drawn_by_index_alone(data):
    split = on_data(KWS12, data)().split("train")
    draw = eqx.filter_jit(split.at)
    indices = jnp.asarray([0, 12, 25, 25, 7], jnp.int32)
    batch = draw(indices)
    alone = draw(jnp.full(5, 25, jnp.int32))
    x = np.asarray(batch.inputs.dense())
    np.testing.assert_allclose(x[2], alone.inputs.dense()[0], rtol=1e-5, atol=1e-5)
    assert np.array_equal(x[2], x[3])
    assert not np.array_equal(x[0], x[1])  # the same class, another example
    assert np.asarray(batch.targets).tolist() == [0, 0, 1, 1, 7]
    assert split.size == 1_000 * len(split.features)


def test_every_class_is_drawn_as_often(data):
    split = on_data(KWS12, data)().split("train")
    targets = np.asarray(split.at(jnp.arange(240, dtype=jnp.int32)).targets)
    assert np.bincount(targets).tolist() == [20] * 12


def test_a_clip_that_moves_by_nothing_stays():
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(2, 101, 13)), jnp.float32)
    same = _moved(x, jnp.ones(2), jnp.zeros(2))
    np.testing.assert_allclose(same, x, rtol=1e-5, atol=1e-6)
    later = np.asarray(_moved(x, jnp.ones(2), jnp.full(2, 3.0)))
    np.testing.assert_allclose(later[:, 3:], x[:, :-3], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(later[:, :3], np.repeat(x[:, :1], 3, 1), rtol=1e-5, atol=1e-6)
    faster = np.asarray(_moved(x, jnp.full(2, 2.0), jnp.zeros(2)))
    np.testing.assert_allclose(faster[:, 30], x[:, 10], rtol=1e-4, atol=1e-4)


def test_noise_far_below_is_not_heard():
    rng = np.random.default_rng(1)
    x, noise = (jnp.asarray(rng.normal(size=(2, 101, 13)), jnp.float32) for _ in range(2))
    same = _with_noise(x, noise, jnp.full(2, 200.0), jnp.zeros(2))
    np.testing.assert_allclose(same, x, atol=1e-3)


def test_noise_is_added_as_power():
    """Sounds of smooth spectra: what is added is what their powers add up to."""
    rng = np.random.default_rng(2)
    quiet, loud = (rng.normal(size=(1, 101, 13)) * 3 for _ in range(2))
    quiet[..., 0] -= 100
    levels = [x @ mfcc.cosines().T.astype(float) for x in (loud, quiet)]
    distance = levels[0].mean(-1).max(-1) - levels[1].mean((-2, -1))
    power = 10 * np.log10(sum(10 ** (level / 10) for level in levels))
    expected = power @ mfcc.cosines()
    mixed = _with_noise(
        *(jnp.asarray(x, jnp.float32) for x in (loud, quiet, distance)), jnp.zeros(1)
    )
    np.testing.assert_allclose(mixed, expected, atol=0.05)
    louder = _with_noise(
        *(jnp.asarray(x, jnp.float32) for x in (loud, quiet, distance)), jnp.full(1, 6.0)
    )
    difference = np.asarray(louder - mixed)
    np.testing.assert_allclose(difference[..., 0], 6 * np.sqrt(mfcc.BANDS), rtol=1e-4)
    np.testing.assert_allclose(difference[..., 1:], 0, atol=1e-3)


def test_a_gap_is_the_mean():
    x = jnp.ones((1, 101, 13))
    lost = np.asarray(_with_gap(x, jnp.full(1, 0.5), jnp.full(1, 12.0)))[0, :, 0]
    assert lost.tolist() == [1.0] * 51 + [0.0] * 12 + [1.0] * 38
    assert (np.asarray(_with_gap(x, jnp.zeros(1), jnp.zeros(1))) == 1).all()


def test_features_without_lists_are_refused(tmp_path, data):
    (file,) = data.locate()
    stored = dict(np.load(file))
    del stored["split"]
    folder = tmp_path / "without"
    folder.mkdir()
    (folder / file.name).write_bytes(npz(**stored))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERSISTOR_DATA", str(folder))
        with pytest.raises(PersistorError, match="original archive"):
            KWS12().split("test")


def sound(seconds):
    made = io.BytesIO()
    with wave.open(made, "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        noise = np.random.default_rng(3).normal(size=int(16_000 * seconds))
        file.writeframes((1_000 * noise).astype("<i2").tobytes())
    return made.getvalue()


@pytest.mark.slow
def test_lists_are_read_with_the_clips(tmp_path, monkeypatch):
    monkeypatch.setenv("PERSISTOR_DATA", str(tmp_path))
    folder = tmp_path / "speech_commands_v0.01"
    for word in ("no", "yes"):
        (folder / word).mkdir(parents=True)
        for name in "abc":
            (folder / word / f"{name}.wav").write_bytes(sound(1))
    (folder / speech.NOISE).mkdir()
    (folder / speech.NOISE / "rain.wav").write_bytes(sound(20))
    (folder / "validation_list.txt").write_text("no/b.wav\nyes/c.wav\n")
    (folder / "testing_list.txt").write_text("yes/a.wav\n")
    clips = speech.load()
    assert clips.splits is not None
    spoken = clips.splits[clips.labels < 2]
    assert spoken.tolist() == [0, 1, 0, 2, 0, 1]
    noise = clips.splits[clips.labels == 2]
    starts = np.arange(len(noise)) / 10  # seconds
    expected = np.full(len(noise), 3)
    expected[starts + 1 <= 16] = 0
    expected[(starts >= 16) & (starts + 1 <= 18)] = 1
    expected[starts >= 18] = 2
    assert np.array_equal(noise, expected)
