"""The coefficients are librosa's; sound of any form becomes them, once."""

import bz2
import io
import shutil
import zipfile

import librosa
import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from real_data import real

from persistor import PersistorError
from persistor.data import mfcc as sound
from persistor.data.mfcc import clips, features, mfcc, read_clip


def librosas(signal):
    return librosa.feature.mfcc(y=signal, sr=16_000, n_mfcc=13, n_fft=512, hop_length=160).T


def assert_equal_to_librosa(signal):
    ours, theirs = mfcc(signal), librosas(signal)
    assert ours.dtype == np.float32
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= 3e-5 * np.abs(theirs).max()


def encoded(signal, rate=16_000, form="wav"):
    file = io.BytesIO()
    soundfile.write(file, signal, rate, format=form, subtype="PCM_16")
    return file.getvalue()


def tone(hertz, samples=16_000):
    return (0.3 * np.sin(2 * np.pi * hertz * np.arange(samples) / 16_000)).astype(np.float32)


@pytest.fixture
def folder(tmp_path):
    """Seven clips in two folders, wav and flac, short and long."""
    root = tmp_path / "clips"
    for i, form in enumerate(["wav", "flac", "wav", "flac", "wav", "flac", "wav"]):
        path = root / f"word{i % 2}" / f"{i}.{form}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(tone(200 + 100 * i, 12_000 + 1_500 * i), form=form))
    return root


def names_in(root):
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*.*"))


@given(st.integers(0, 2**32), st.integers(512, 40_000), st.floats(1e-6, 1), st.floats(20, 8_000))
def test_equal_to_librosa(seed, samples, loudness, hertz):
    noise = np.random.default_rng(seed).normal(size=samples)
    signal = loudness * noise + np.sin(2 * np.pi * hertz * np.arange(samples) / 16_000)
    assert_equal_to_librosa(signal.astype(np.float32))


@pytest.mark.parametrize("signal", [np.zeros(16_000), np.ones(16_000), np.eye(1, 16_000)[0]])
def test_equal_to_librosa_on_silence_and_steps(signal):
    assert_equal_to_librosa(signal.astype(np.float32))


def test_equal_to_librosa_on_speech():
    path = real("speech_commands_v0.01_clips.zip")
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith(".flac")][::50]
    assert len(names) > 20
    for name, data in clips(path, names):
        clip = read_clip(data, name)
        assert mfcc(clip).shape == (101, 13)
        assert_equal_to_librosa(clip)


@pytest.mark.slow
def test_equal_to_the_features_of_all_clips():
    """Each clip's coefficients, in steps of the 8 bits the features were stored in, are there."""
    stored = np.load(real("speech_commands_v0.01_mfcc13_u8.npz"))
    path = real("speech_commands_v0.01_clips.zip")
    count, steps, width = stored["shape"]
    deltas = np.frombuffer(bz2.decompress(stored["delta_bz2"].tobytes()), np.uint8)
    deltas = deltas.reshape(width, count, steps)
    words = stored["words"].tolist()
    with zipfile.ZipFile(path) as archive:
        names = [n for n in archive.namelist() if n.split("/")[0] in words[:-1]][::10]
    assert len(names) == 120
    for name, data in clips(path, names):
        ours = (mfcc(read_clip(data, name)) - stored["lo"]) / stored["step"]
        ours = np.clip(ours, 0, 255)
        rows = np.flatnonzero(stored["label"] == words.index(name.split("/")[0]))
        rows = rows[np.abs(deltas[:, rows, 0].T - ours[0]).max(1) < 1]
        theirs = np.cumsum(deltas[:, rows].transpose(1, 2, 0), axis=1, dtype=np.uint8)
        assert np.abs(theirs - ours).max((1, 2)).min() < 0.6, name


def test_many_at_once_are_each_by_itself():
    signals = np.stack([tone(300), tone(1_000), np.zeros(16_000, np.float32)])[None]
    together = mfcc(signals)
    assert together.shape == (1, 3, 101, 13)
    for i in range(3):
        np.testing.assert_allclose(together[0, i], mfcc(signals[0, i]), rtol=1e-5, atol=1e-3)


def test_a_clip_is_one_second():
    for samples in (1, 9_000, 16_000, 16_001, 50_000):
        signal = tone(440, samples)
        for form in ("wav", "flac"):
            clip = read_clip(encoded(signal, form=form), "clip")
            assert clip.shape == (16_000,)
            np.testing.assert_allclose(clip[:samples], signal[:16_000], atol=2**-15)
            assert not clip[samples:].any()
    both = np.stack([tone(440), np.zeros(16_000)], 1)
    np.testing.assert_allclose(read_clip(encoded(both), "two"), tone(440) / 2, atol=2**-15)


def test_folder_zip_and_tar_give_the_same_once(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(sound, "CHUNK", 3)
    names = names_in(folder)
    expected = np.stack([mfcc(read_clip((folder / n).read_bytes(), n)) for n in names])
    sources = [folder]
    for form in ("zip", "tar", "gztar"):
        sources.append(shutil.make_archive(str(tmp_path / f"as-{form}"), form, folder))
    assert len(sources) == 4
    for source in map(type(tmp_path), sources):
        told = []
        for _ in range(2):
            report = lambda *counts: told.append(counts)  # noqa: B023, E731
            found = features(source, names, tmp_path / "cache", report=report, processes=1)
            np.testing.assert_array_equal(found, expected)
        assert told == [(3, 7), (6, 7), (7, 7)]  # the second time nothing is computed
    assert len(list((tmp_path / "cache").iterdir())) == 4
    features(folder, names[:2], tmp_path / "cache", processes=1)
    monkeypatch.setattr(sound, "SETTINGS", "others")
    features(folder, names, tmp_path / "cache", processes=1)
    assert len(list((tmp_path / "cache").iterdir())) == 6


def test_processes_change_nothing(folder, tmp_path):
    names = names_in(folder)[::-1]
    one = features(folder, names, tmp_path / "one", processes=1)
    two = features(folder, names, tmp_path / "two", processes=2)
    np.testing.assert_array_equal(one, two)


def test_an_interruption_leaves_nothing_half_written(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(sound, "CHUNK", 2)

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        features(folder, names_in(folder), tmp_path / "cache", report=stop, processes=1)
    assert not list((tmp_path / "cache").iterdir())


def test_mistakes(folder, tmp_path):
    with pytest.raises(PersistorError, match="no samples"):
        mfcc(np.zeros(0, np.float32))
    with pytest.raises(PersistorError, match="resample it to 16000"):
        read_clip(encoded(tone(440), rate=44_100), "music.wav")
    with pytest.raises(PersistorError, match="holds no sound"):
        read_clip(encoded(np.zeros(0, np.float32)), "empty.wav")
    with pytest.raises(PersistorError, match="no clips"):
        features(folder, [], tmp_path)
    names = names_in(folder)
    with pytest.raises(PersistorError, match="absent"):
        features(folder, [*names, "absent.wav"], tmp_path)
    with pytest.raises(PersistorError, match="cannot be read"):
        features(tmp_path / "nowhere.zip", names, tmp_path)
    for form in ("zip", "gztar"):
        archive = type(tmp_path)(shutil.make_archive(str(tmp_path / "whole"), form, folder))
        with pytest.raises(PersistorError, match="absent"):
            features(archive, [*names, "absent.wav"], tmp_path, processes=1)
        data = archive.read_bytes()
        for end in (0, 10, len(data) // 3, len(data) - 200):
            archive.write_bytes(data[:end])
            with pytest.raises(PersistorError):
                features(archive, names, tmp_path, processes=1)


@pytest.mark.parametrize("form", ["wav", "flac"])
@given(data=st.data())
def test_cut_and_changed_sound_is_refused_or_still_a_clip(form, data):
    whole = encoded(tone(440, 4_000), form=form)
    broken = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    for place in data.draw(st.lists(st.integers(0, 60), max_size=4)):
        if place < len(broken):
            broken[place] = data.draw(st.integers(0, 255))
    try:
        clip = read_clip(bytes(broken), "x")
    except PersistorError:
        return
    assert clip.shape == (16_000,)
    assert np.isfinite(clip).all()
