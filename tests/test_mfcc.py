"""The coefficients are librosa's; sound of any form becomes them."""

import bz2
import io
import zipfile

import librosa
import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from on_this_machine import real

from persistor import PersistorError
from persistor.data.mfcc import mfcc
from persistor.data.sounds import one_second, read_sound


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


def read_clip(content, name):
    return one_second(read_sound(content, name))


@pytest.mark.slow
@given(st.integers(0, 2**32), st.integers(512, 40_000), st.floats(1e-6, 1), st.floats(20, 8_000))
def test_equal_to_librosa(seed, samples, loudness, hertz):
    noise = np.random.default_rng(seed).normal(size=samples)
    signal = loudness * noise + np.sin(2 * np.pi * hertz * np.arange(samples) / 16_000)
    assert_equal_to_librosa(signal.astype(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("signal", [np.zeros(16_000), np.ones(16_000), np.eye(1, 16_000)[0]])
def test_equal_to_librosa_on_silence_and_steps(signal):
    assert_equal_to_librosa(signal.astype(np.float32))


@pytest.mark.slow
def test_equal_to_librosa_on_speech():
    path = real("speech_commands_v0.01_clips.zip")
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith(".flac")][::50]
        sounds = {name: archive.read(name) for name in names}
    assert len(sounds) > 20
    for name, data in sounds.items():
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
        sounds = {name: archive.read(name) for name in names}
    assert len(sounds) == 120
    for name, data in sounds.items():
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


def test_mistakes():
    with pytest.raises(PersistorError, match="no samples"):
        mfcc(np.zeros(0, np.float32))
    with pytest.raises(PersistorError, match="resample it to 16000"):
        read_clip(encoded(tone(440), rate=44_100), "music.wav")
    with pytest.raises(PersistorError, match="holds no sound"):
        read_clip(encoded(np.zeros(0, np.float32)), "empty.wav")


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
