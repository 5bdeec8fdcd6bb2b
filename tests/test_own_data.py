"""Your own data: made a task, or refused with a line that says what was expected."""

import hashlib
import io
import json
import math
import os
import shlex
import shutil
import struct
import sys
import wave
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tyro
from hypothesis import given
from hypothesis import strategies as st
from publishers import npz
from started import started
from test_cli import call
from test_data import FUZZ, damaged, refused_or_whole

from persistor import Experiment, PersistorError
from persistor.cli.train import Train
from persistor.data.contents import fingerprint
from persistor.data.dataset import SPLITS
from persistor.data.mfcc import mfcc
from persistor.data.preparation import Preparation
from persistor.data.sounds import Sound, decoded, resampled
from persistor.data.splits import at_random
from persistor.data.tables import new_sequences
from persistor.experiment import ModelSpec, TrainingSpec
from persistor.nn.pooling import Pooling
from persistor.tasks import KINDS, own_task
from persistor.tasks.keywords import Features
from persistor.tasks.own_data import OwnArrays, OwnSounds, Reading
from persistor.tasks.own_data.stored import Rows, Stored
from persistor.tasks.task import Classification, StepClassification, Task
from persistor.training import Run, train
from persistor.training.provenance import command

RNG = np.random.default_rng(0)
X = RNG.normal(3, 2, (50, 7, 2))
CLASSES = RNG.integers(0, 3, 50)
TEXT = "the quick brown fox jumps over the lazy dög\n" * 40
SMALL = ["--blocks", 1, "--state", 3, "--width", 16, "--batch", 4, "--steps", 2]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PERSISTOR_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tone(hertz, samples, rate=16_000, phase=0.0):
    return 0.3 * np.sin(2 * np.pi * hertz * np.arange(samples) / rate + phase)


def write_wav(path, signal, rate=16_000, channels=1):
    path.parent.mkdir(parents=True, exist_ok=True)
    values = np.repeat(np.round(np.asarray(signal) * 32_767).astype("<i2"), channels)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(values.tobytes())


def sounds(folder, per_class=10, rate=16_000, channels=1, name="clips"):
    """Two classes; sound i has its own length and phase, and speaker i % 5."""
    for word, pitch in (("low", 300), ("high", 2_000)):
        for i in range(per_class):
            signal = tone(pitch, rate // 2 + rate // 40 * i, rate, i)
            write_wav(folder / name / word / f"{chr(97 + i % 5)}_{i}.wav", signal, rate, channels)
    return folder / name


def table(rows, header="id,a,b,label"):
    return "\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n"


def rows(label=lambda i, t: ("up", "down")[i % 2], count=20):
    """Sequence i has 3 + i % 4 rows."""
    return [
        (f"s{i}", 0.5 * i + t, i % 3 - t, label(i, t))
        for i in range(count)
        for t in range(3 + i % 4)
    ]


def tables(folder):
    for i in range(20):
        path = folder / "tables" / ("up", "down")[i % 2] / f"{i}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(table([(t, t * i) for t in range(3 + i % 4)], "a,b"))
    return folder / "tables"


def make(kind, folder):
    if kind == "own-sounds":
        return sounds(folder)
    if kind == "own-table":
        return tables(folder)
    path = folder / {"own-arrays": "signals.npz", "own-text": "novel.txt"}[kind]
    path.write_bytes(npz(x=X, y=CLASSES) if kind == "own-arrays" else TEXT.encode())
    return path


def change(kind, path):
    """Change one value of the data; what the error calls it."""
    if kind == "own-sounds":
        write_wav(path / "low" / "a_0.wav", tone(500, 9_000))
        return "changed low/a_0.wav"
    if kind == "own-table":
        (path / "up" / "0.csv").write_text("a,b\n1,2\n3,4\n")
        return "changed up/0.csv"
    path.write_bytes(npz(x=X + 1, y=CLASSES) if kind == "own-arrays" else TEXT.encode() + b"dog")
    return "changed x" if kind == "own-arrays" else "changed text"


OWN = ["own-arrays", "own-sounds", "own-table", "own-text"]


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
def test_other_contents_are_refused_by_name(kind, folder):
    path = make(kind, folder)
    task = own_task(path)
    says = change(kind, path)
    with pytest.raises(PersistorError, match=f"has changed .*{says}"):
        task.split("train")


@pytest.mark.parametrize("kind", OWN)
def test_a_run_knows_on_another_machine_too_what_has_changed(kind, folder, monkeypatch):
    path = make(kind, folder)
    task = own_task(path)
    run = Run.create(Experiment(task.with_length(20) if kind == "own-text" else task), folder)
    monkeypatch.setenv("PERSISTOR_DATA", str(folder / "other data"))
    taken = Run.open(shutil.move(run.path, folder / "taken along"))
    says = change(kind, path)
    with pytest.raises(PersistorError, match=f"has changed .*{says}"):
        taken.experiment.task.split("train")


@pytest.mark.parametrize("kind", OWN)
def test_data_may_move_and_be_touched(kind, folder):
    path = make(kind, folder)
    task = own_task(path)
    short = task.with_length(20) if kind == "own-text" else task
    experiment = Experiment(short)
    moved = folder / "elsewhere" / f"moved{path.suffix}"
    moved.parent.mkdir()
    shutil.move(path, moved)
    for file in [moved, *moved.rglob("*")]:
        os.utime(file, (1, 1))
    with pytest.raises(PersistorError, match="no longer exists; say where it is now with --data"):
        short.split("test")
    assert short.with_data(moved).split("test").size
    again = own_task(moved)
    again = again.with_length(20) if kind == "own-text" else again
    assert Experiment(again).name == experiment.name
    assert Experiment(again).to_json() != experiment.to_json()
    first = Run.create(experiment, folder / "runs")
    assert Run.create(Experiment(again), folder / "runs").path == first.path
    assert Run.open(first.path).experiment.task.path == str(moved)


@pytest.mark.parametrize("kind", OWN)
def test_preparation_is_plain_json_and_needs_no_data(kind, folder):
    path = make(kind, folder)
    task = own_task(path)
    shutil.move(path, folder / "away")
    prepared = task.preparation()
    assert Preparation.from_json(json.loads(json.dumps(prepared.to_json()))) == prepared
    assert prepared.kind == kind.removeprefix("own-")
    if kind != "own-text":
        assert len(prepared.mean) == len(prepared.deviation) == task.inputs


def test_added_and_removed_files_are_named(folder):
    path = sounds(folder)
    task = own_task(path)
    shutil.move(path / "low" / "a_0.wav", path / "low" / "new.wav")
    with pytest.raises(PersistorError, match=r"added low/new\.wav; removed low/a_0\.wav"):
        task.split("train")


def test_runs_of_earlier_versions_open(folder):
    """They named the place and the times of files, and had one random order for all classes."""
    path = sounds(folder)
    write_wav(path / "low" / "deeper" / "unseen.wav", tone(300, 9_000))
    old = {"path": str(path), "digest": fingerprint(path), "classes": ["high", "low"]}
    value = Experiment(own_task(path)).to_json() | {"task": {"name": "own-sounds", **old}}
    experiment = Experiment.from_json(value)
    assert experiment.to_json() == value
    assert experiment.without_hints(value) == value
    assert [experiment.task.split(name).size for name in SPLITS] == [16, 2, 2]
    assert len(experiment.task.preparation().mean) == 13
    (folder / "a.npz").write_bytes(content := npz(x=X, y=CLASSES))
    digest = hashlib.sha256(content).hexdigest()[:16]
    arrays = OwnArrays(str(folder / "a.npz"), digest, 2, 3, False)
    order = np.random.RandomState(0).permutation(50)
    np.testing.assert_array_equal(arrays.split("test").targets, CLASSES[order[45:]])
    (folder / "a.npz").write_bytes(npz(x=X + 1, y=CLASSES))
    with pytest.raises(PersistorError, match="has changed since"):
        arrays.split("test")
    write_wav(path / "new" / "x.wav", tone(300, 9_000))
    other = OwnSounds(str(path), fingerprint(path), ("high", "low"))
    with pytest.raises(PersistorError, match="read otherwise by an earlier version"):
        other.split("test")
    with pytest.raises(PersistorError, match="of an earlier version, which compares the times"):
        experiment.task.split("test")


# Sounds


@pytest.mark.parametrize("rate", [8_000, 11_025, 22_050, 44_100, 48_000, 17_321])
def test_resampling_keeps_what_both_rates_can_hold(rate):
    signal = tone(1_000, rate, rate).astype(np.float32)
    ours = resampled(Sound(signal, rate))
    assert abs(len(ours) - 16_000) <= 1
    np.testing.assert_allclose(ours[800:-800], tone(1_000, 16_000)[800:15_200], atol=3e-5)
    if rate > 20_000:
        high = resampled(Sound(tone(9_500, rate, rate).astype(np.float32), rate))
        assert np.abs(high[800:-800]).max() < 3e-5
    for samples in (1, 2, 3, 50, 441, 442):
        assert len(resampled(Sound(signal[:samples], rate))) == -(-samples * 16_000 // rate)


@pytest.mark.parametrize(
    "subtype", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW"]
)
def test_our_wav_reader_equals_soundfile(subtype):
    soundfile = pytest.importorskip("soundfile")
    stereo = np.stack([tone(300, 500), tone(700, 500)], 1)
    file = io.BytesIO()
    soundfile.write(file, stereo, 22_050, format="WAV", subtype=subtype)
    theirs, rate = soundfile.read(io.BytesIO(file.getvalue()), dtype="float32")
    ours = decoded(file.getvalue())
    assert ours.rate == rate
    np.testing.assert_allclose(ours.signal, theirs.mean(1), atol=1e-7)


def test_sounds_of_any_rate_and_form_are_the_same_sounds(folder):
    soundfile = pytest.importorskip("soundfile")
    plain = own_task(sounds(folder))
    slow = own_task(sounds(folder, rate=8_000, channels=2, name="slow"))
    assert (plain.clip, plain.classes) == (slow.clip, slow.classes) == (0.8, ("high", "low"))
    assert ", resampled from 8,000 Hz, " in slow.remarks()[0]
    ours, theirs = (task.split("test").features for task in (slow, plain))
    middle = (slice(None), slice(5, 40), slice(0, 3))
    assert np.abs(ours[middle] - theirs[middle]).mean() < 0.2 * np.abs(theirs[middle]).mean()
    for i, form in enumerate(("flac", "ogg", "mp3")):
        soundfile.write(folder / "clips" / "low" / f"more{i}.{form}", tone(900 + i, 9_000), 16_000)
    assert own_task(folder / "clips").remarks()[0].startswith("23 sounds, 2 classes")


def test_a_clip_is_chosen_or_given_and_counted(folder):
    path = sounds(folder)
    write_wav(path / "low" / "long.wav", tone(300, 50_000))
    task = own_task(path)
    assert task.clip == 0.8
    assert task.remarks() == (
        "21 sounds, 2 classes, 17 / 2 / 2, 1 cut to 0.8 s, 20 padded, rarest class 10 (high)",
    )
    half = own_task(path, Reading(clip=0.5))
    assert half.split("train").features.shape == (17, 51, 13)
    assert "19 cut to 0.5 s" in half.remarks()[0]
    assert Experiment(half).name != Experiment(task).name
    longest = own_task(path, Reading(clip=5.0)).split("train")
    kept = longest.features[:, :20]
    np.testing.assert_allclose(kept.max(), half.split("train").features[:, :20].max(), rtol=0.1)
    with pytest.raises(PersistorError, match="clip is 0"):
        own_task(path, Reading(clip=0.0))


def test_features_are_mfccs_scaled_over_training(folder):
    task = own_task(sounds(folder))
    every = {name: task.split(name) for name in SPLITS}
    train = every["train"].at(jnp.arange(16, dtype=jnp.int32)).inputs.dense()
    np.testing.assert_allclose(train.mean((0, 1)), 0, atol=1e-3)
    np.testing.assert_allclose(train.std((0, 1)), 1, atol=1e-3)
    sound = decoded((folder / "clips" / "low" / "a_0.wav").read_bytes()).signal
    expected = mfcc(np.pad(sound, (0, 12_800 - len(sound)))).astype(np.float16)
    rows_ = np.concatenate([split.features for split in every.values()])
    assert (rows_ == expected).all((1, 2)).sum() == 1


def test_odd_files_are_left_out_and_counted(folder):
    path = sounds(folder)
    plain = own_task(path)
    write_wav(folder / "real" / "0.wav", tone(700, 9_000))
    for i in range(1, 10):
        write_wav(folder / "real" / f"{i}.wav", tone(700 + i, 9_000))
    (path / "low" / ".hidden.wav").write_bytes(b"x")
    (path / "low" / "._a_0.wav").write_bytes(b"x")
    (path / "low" / "empty.wav").write_bytes(b"")
    write_wav(path / "low" / "no_samples.wav", [])
    (path / "low" / "broken.wav").symlink_to(folder / "nowhere.wav")
    (path / "README.md").write_text("about")
    write_wav(path / "loose.wav", tone(300, 900))
    write_wav(path / "_noise_" / "hum.wav", tone(50, 90_000))
    (path / ".git").mkdir()
    (path / "low" / "loop").symlink_to(path)
    assert Experiment(own_task(path)).name == Experiment(plain).name
    (skipped,) = (part for part in own_task(path).remarks() if "skipped" in part)
    for said in ("2 empty", "3 hidden", "1 broken links", "1 other files", "1 links in a circle"):
        assert said in skipped
    assert "1 outside a folder of a class" in skipped
    assert "1 in folders that begin with _" in skipped
    (path / "linked").symlink_to(folder / "real")
    assert own_task(path).classes == ("high", "linked", "low")


def test_silent_sounds_are_named(folder):
    path = sounds(folder)
    write_wav(path / "low" / "zero.wav", np.zeros(9_000))
    assert own_task(path).remarks()[1:] == ("silent: low/zero.wav",)


def riff(data, *, size=None, bits=16, form=1, rate=16_000, channels=1):
    size = len(data) if size is None else size
    header = struct.pack("<HHIIHH", form, channels, rate, 0, 0, bits)
    return (
        b"RIFF\0\0\0\0WAVEfmt "
        + struct.pack("<I", 16)
        + header
        + b"data"
        + (struct.pack("<I", size) + data)
    )


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (riff(b"ab" * 100, size=900), r"low/x\.wav is truncated: 200 of 900 bytes"),
        (riff(b"ab" * 100)[:30], "is truncated: it ends before the sound begins"),
        (b"RIFF", "is not a complete sound file"),
        (b"hello", "is not a complete sound file"),
        (riff(b"ab" * 100, rate=0), "sample rate of 0 Hz"),
        (riff(b"ab" * 100, channels=0), "no channels"),
        (riff(np.full(90, np.nan, "<f4").tobytes(), form=3, bits=32), "finite number, at sample 0"),
    ],
)
def test_damaged_sounds_are_named(content, says, folder):
    pytest.importorskip("soundfile")
    path = sounds(folder)
    (path / "low" / "x.wav").write_bytes(content)
    with pytest.raises(PersistorError, match=says) as error:
        own_task(path)
    assert str(error.value).endswith("; mend or remove it")


def test_a_stream_has_no_size_in_its_header(folder):
    assert len(decoded(riff(b"ab" * 100, size=0xFFFFFFFF)).signal) == 100


def test_without_soundfile_the_extra_is_named(folder, monkeypatch):
    path = sounds(folder)
    monkeypatch.setitem(sys.modules, "soundfile", None)
    assert own_task(path).outputs == 2
    (path / "low" / "x.flac").write_bytes(b"fLaC")
    with pytest.raises(PersistorError, match=r"pip install 'persistor\[audio\]'"):
        own_task(path)


def test_the_command_of_a_run_repeats_it(folder):
    path, who = sounds(folder), "(?P<group>.)_"
    (path / "who.csv").write_text(
        "".join(f"{chr(97 + i % 5)}_{i}.wav,{i % 5}\n" for i in range(10))
    )
    (folder / "all.csv").write_text(table(rows()))
    tasks = [
        own_task(path, Reading(clip=0.7)),
        own_task(path, Reading(group_by=who)),
        own_task(path, Reading(group_by="clips/who.csv")),
        own_task(tables(folder)),
        own_task(folder / "all.csv", Reading(columns=("b",), target="label", sequence="id")),
    ]
    for task in tasks:
        experiment = Experiment.of(task)
        _, _, *words = shlex.split(command(experiment))
        assert tyro.cli(Train, args=words).experiment() == experiment


# Splits


def divided(task):
    """The names in each split, as the task divides them."""
    found = task._sounds()
    return {name: {found.names[i] for i in task._division(found).of(name)} for name in SPLITS}


def test_a_random_split_is_stratified_and_does_not_move(folder):
    path = sounds(folder, per_class=20)
    one = divided(own_task(path))
    for word in ("low", "high"):
        counts = [sum(name.startswith(word) for name in one[split]) for split in SPLITS]
        assert counts == [16, 2, 2]
    assert one == divided(own_task(path))


@pytest.mark.parametrize("by", ["pattern", "file", "folders"])
def test_no_group_is_in_two_splits(by, folder):
    path = sounds(folder, per_class=20)
    files = [file.name for word in ("low", "high") for file in (path / word).iterdir()]
    who = "".join(f"{file},{file[0]}\n" for file in dict.fromkeys(files))
    (folder / "who.csv").write_text(who)
    group_by = {
        "pattern": "^(?P<group>[a-z])_",
        "file": "who.csv",
        "folders": "[^/]*/(?P<group>.)_",
    }[by]
    task = own_task(path, Reading(group_by=group_by))
    groups = [{name.split("/")[1][0] for name in part} for part in divided(task).values()]
    assert all(groups)
    assert sum(map(len, groups)) == len(set.union(*groups)) == 5
    if by == "file":
        (folder / "who.csv").write_text(
            (folder / "who.csv").read_text().replace("a_0.wav,a", "a_0.wav,b")
        )
        with pytest.raises(PersistorError, match=r"changed --group-by who\.csv"):
            task.split("train")


def test_a_table_in_the_folder_is_not_taken_for_sounds(folder):
    path = sounds(folder)
    (path / "notes.csv").write_text("name,group\n")
    assert type(own_task(path)) is OwnSounds


@pytest.mark.parametrize(
    ("reading", "says"),
    [
        (Reading(group_by="[a-z]"), "names no group"),
        (Reading(group_by="(?P<group>"), "--group-by"),
        (Reading(group_by="(?P<group>q)_"), "matches 0 of 20 names, but not high/a_0"),
        (Reading(group_by="(?P<group>w)av"), "there are 1 groups; at least 3"),
        (Reading(group_by="few.csv"), "gives no group for high/a_5.wav"),
        (Reading(group_by="torn.csv"), r"torn\.csv, line 2"),
        (Reading(split="lists"), "has no validation_list"),
        (Reading(split="folders"), "no folders train, valid and test"),
        (Reading(split="lists", group_by="(?P<group>.)_"), "leave out --split lists"),
        (Reading(columns=("a",)), "holds sounds; --columns does not apply"),
    ],
)
def test_splits_that_cannot_be_made(reading, says, folder):
    path = sounds(folder)
    (folder / "few.csv").write_text("".join(f"{chr(97 + i)}_{i}.wav,g\n" for i in range(5)))
    (folder / "torn.csv").write_text("a_0.wav,g\na_1.wav\n")
    with pytest.raises(PersistorError, match=says):
        own_task(path, reading)


def in_folders(folder):
    path = sounds(folder)
    for split, last in (("train", "01234567"), ("valid", "8"), ("test", "9")):
        for word in ("low", "high"):
            (folder / "own" / split / word).mkdir(parents=True)
            for file in (path / word).iterdir():
                if file.stem[-1] in last:
                    shutil.copy(file, folder / "own" / split / word)
    return folder / "own"


def test_own_folders_are_the_splits(folder):
    path = in_folders(folder)
    task = own_task(path)
    assert (task.classes, task.rule) == (("high", "low"), "folders")
    assert {name.split("/")[0] for name in divided(task)["valid"]} == {"valid"}
    assert ", 16 / 2 / 2, " in task.remarks()[0]
    shutil.copy(path / "train" / "low" / "a_0.wav", path / "test" / "low" / "copy.wav")
    with pytest.raises(PersistorError, match=r"in two splits: test/low/copy\.wav = "):
        own_task(path)
    (path / "test" / "low" / "copy.wav").unlink()
    shutil.rmtree(path / "test" / "low")
    assert own_task(path).remarks()[1:] == ("no example of low is in the split test",)
    shutil.move(path / "train" / "low", folder / "low")
    with pytest.raises(PersistorError, match="no example of low is in the training split"):
        own_task(path)
    shutil.move(folder / "low", path / "train" / "low")
    shutil.rmtree(path / "valid")
    with pytest.raises(PersistorError, match="no example is in the split valid"):
        own_task(path)


def test_published_lists_are_used_when_asked(folder):
    path = sounds(folder)
    (path / "validation_list.txt").write_text("low/a_0.wav\nhigh/a_0.wav\n")
    (path / "testing_list.txt").write_text("low/b_1.wav\nhigh/b_1.wav\nhigh/gone.wav\n")
    task = own_task(path, Reading(split="lists"))
    assert divided(task)["test"] == {"low/b_1.wav", "high/b_1.wav"}
    assert divided(own_task(path))["test"] != divided(task)["test"]
    offer = "validation_list.txt and testing_list.txt are there: --split lists"
    assert offer in own_task(path).remarks()
    assert offer not in task.remarks()
    (path / "testing_list.txt").write_text("low/b_1.wav\nlow/a_0.wav\n")
    with pytest.raises(PersistorError, match=r"changed testing_list\.txt"):
        task.split("train")
    with pytest.raises(PersistorError, match=r"low/a_0\.wav is in both lists"):
        own_task(path, Reading(split="lists"))


def test_copies_stay_together_and_are_named(folder):
    path = sounds(folder)
    for i in range(3):
        shutil.copy(path / "low" / "a_0.wav", path / "low" / f"copy{i}.wav")
    task = own_task(path)
    assert "equal files, kept in one split: low/a_0.wav = low/copy0.wav" in task.remarks()[1]
    places = [s for s, names in divided(task).items() for n in names if "copy" in n or "a_0" in n]
    assert len({s for s in places if s}) <= 2  # high/a_0.wav may be elsewhere


@given(st.data())
def test_division_keeps_groups_and_shares(data):
    labels = np.array(data.draw(st.lists(st.integers(0, 2), min_size=20, max_size=80)))
    labels = np.concatenate([labels, np.repeat([0, 1, 2], 5)])
    groups = [str(data.draw(st.integers(0, 12))) for _ in labels]
    if len(set(groups)) < 3:
        return
    division = at_random(labels, ("a", "b", "c"), groups=groups)
    parts = [{groups[i] for i in division.of(name)} for name in SPLITS]
    assert all(parts)
    assert sum(map(len, parts)) == len(set(groups))
    plain = at_random(labels, ("a", "b", "c"))
    for label in range(3):
        count = int((labels == label).sum())
        tenth = max(1, round(count / 10))
        found = [int((labels[plain.of(name)] == label).sum()) for name in SPLITS]
        assert found == [count - 2 * tenth, tenth, tenth]


def test_classes_that_are_too_few(folder):
    path = sounds(folder)
    write_wav(path / "rare" / "0.wav", tone(500, 9_000))
    with pytest.raises(PersistorError, match="class rare has 1 examples; at least 5 are needed"):
        own_task(path)
    shutil.rmtree(path / "rare")
    shutil.rmtree(path / "low")
    with pytest.raises(PersistorError, match="10 sounds of 1 class"):
        own_task(path)


# Arrays


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


def pieces(**changed):
    arrays = {}
    for name, part in zip(SPLITS, (slice(0, 30), slice(30, 40), slice(40, 50)), strict=True):
        arrays |= {f"x_{name}": X[part], f"y_{name}": CLASSES[part]}
    return {k: v for k, v in (arrays | changed).items() if v is not None}


STEPS = RNG.integers(0, 3, (50, 7))
LENGTHS = RNG.integers(1, 8, 50)
SPLIT = np.array(["train"] * 30 + ["valid"] * 10 + ["test"] * 10)


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"x": X}, "should hold x and y"),
        ({"x": X[0], "y": CLASSES}, r"\(N, T, F\)"),
        ({"x": X, "y": CLASSES[:-1]}, "for each of 50 sequences"),
        ({"x": X, "y": CLASSES - 1}, "one class"),
        ({"x": X, "y": np.zeros(50, int)}, "one class"),
        ({"x": X[:5], "y": CLASSES[:5]}, "at least 10"),
        ({"x": np.where(X > 9, np.nan, X), "y": CLASSES}, "finite number in sequence .*, step "),
        ({"x": X * 1e300, "y": CLASSES}, "finite number in sequence 0, step 0, feature 0"),
        ({"x": X, "y": np.where(CLASSES, 1.5, np.inf)}, "y is not a finite number for sequence"),
        ({"x": X.astype(str), "y": CLASSES}, r"\(N, T, F\)"),
        ({"x": X, "y": CLASSES, "z": X, "w": X}, "holds w, z, which is not understood"),
        ({"x": X, "y": CLASSES, "lengths": LENGTHS[:9]}, r"whole numbers \(50,\)"),
        ({"x": X, "y": CLASSES, "lengths": LENGTHS + 1}, "lengths is 8 for sequence"),
        ({"x": X, "y": STEPS[:, :5]}, r"every step would be \(50, 7\)"),
        ({"x": X, "y": X}, "a class for every step"),
        ({"x": X, "y": CLASSES, "split": SPLIT[:9]}, "'train', 'valid' or 'test' for each of 50"),
        ({"x": X, "y": CLASSES, "split": CLASSES}, "'train', 'valid' or 'test' for each of 50"),
        (
            {"x": X, "y": CLASSES, "split": np.array(["train"] * 50)},
            "no example is in the split valid",
        ),
        ({"x": X, "y": CLASSES, "group": CLASSES[:4]}, "group is"),
        (pieces(x_valid=None), "holds no x_valid"),
        (pieces(x_valid=X[:10, :, :1]), "do not fit together"),
        (pieces(x=X), "holds x beside x_train"),
    ],
)
def test_arrays_that_are_none(arrays, says, folder):
    (folder / "a.npz").write_bytes(npz(**arrays))
    with pytest.raises(PersistorError, match=says) as error:
        own_task(folder / "a.npz")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("form", ["npz", "npy"])
@pytest.mark.parametrize("own", ["array", "pieces"])
def test_own_splits_of_arrays(form, own, folder):
    arrays = pieces() if own == "pieces" else {"x": X, "y": CLASSES, "split": SPLIT}
    path = folder / "a.npz"
    path.write_bytes(npz(**arrays))
    if form == "npy":
        path = folder / "arrays"
        path.mkdir()
        for name, array in arrays.items():
            np.save(path / f"{name}.npy", array)
    task = own_task(path)
    for name, part in zip(SPLITS, (slice(0, 30), slice(30, 40), slice(40, 50)), strict=True):
        np.testing.assert_allclose(task.split(name).features, X[part], rtol=1e-6)
        np.testing.assert_array_equal(task.split(name).targets, CLASSES[part])
    np.testing.assert_allclose(task.mean, X[:30].mean((0, 1)), rtol=1e-5)
    np.testing.assert_allclose(task.deviation, X[:30].std((0, 1)), rtol=1e-5)


def test_groups_of_arrays_stay_together(folder):
    (folder / "a.npz").write_bytes(npz(x=X, y=np.arange(50) % 2, group=np.arange(50) // 10))
    task = own_task(folder / "a.npz")
    sizes = [task.split(name).size for name in SPLITS]
    assert sorted(sizes) == [10, 10, 30]


def test_equal_sequences_across_splits_are_named(folder):
    x = np.concatenate([X[:40], X[:10]])
    (folder / "a.npz").write_bytes(npz(x=x, y=CLASSES, split=SPLIT))
    (warning,) = own_task(folder / "a.npz").remarks()[1:]
    assert warning.startswith("equal sequences are in two splits: sequence 0 = sequence 40")


def test_words_are_classes(folder):
    (folder / "a.npz").write_bytes(npz(x=X, y=np.array(["no", "yes"])[np.arange(50) % 2]))
    task = own_task(folder / "a.npz")
    assert (task.classes, task.outputs) == (("no", "yes"), 2)
    assert task.remarks()[0].endswith("rarest class 25 (no)")


def test_a_class_at_every_step_counts_only_inside(folder):
    x = np.where(np.arange(7)[None, :, None] < LENGTHS[:, None, None], X, np.nan)
    (folder / "a.npz").write_bytes(npz(x=x, y=STEPS, lengths=LENGTHS))
    task = own_task(folder / "a.npz")
    assert isinstance(task.objective, StepClassification)
    split = task.split("train")
    batch = split.at(jnp.arange(split.size, dtype=jnp.int32))
    assert np.isfinite(batch.inputs.dense()).all()
    inside = np.arange(7) < np.asarray(batch.lengths)[:, None]
    np.testing.assert_array_equal(np.asarray(batch.targets) >= 0, inside)
    right = jax.nn.one_hot(batch.targets, 3)
    assert float(task.objective.score(right, batch.targets).min()) == 1
    wrong = jnp.where(batch.targets[..., None] >= 0, right, 9.0)
    np.testing.assert_allclose(
        task.objective.loss(wrong, batch.targets), task.objective.loss(right, batch.targets)
    )
    kept = X[inside_of(task)]
    np.testing.assert_allclose(task.mean, kept.mean(0), rtol=1e-5)


def inside_of(task):
    """The steps of the training sequences, by where they are in X."""
    train = np.zeros((50, 7), bool)
    for row in np.asarray(task.split("train").features):
        (i,) = np.flatnonzero(np.isclose(X[:, 0], row[0], rtol=1e-5).all(1))
        train[i, : LENGTHS[i]] = True
    return train


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
    write_wav(folder / "one.WAV", tone(300, 900))
    for name, says in (
        ("binary.txt", "UTF-8"),
        ("dull.txt", "1 different characters"),
        ("empty", "holds no sounds"),
        ("nowhere", "does not exist"),
        ("one.WAV", "is a single file; give the folder that it is in"),
    ):
        with pytest.raises(PersistorError, match=says):
            own_task(folder / name)


@pytest.mark.slow
def test_arrays_on_the_disk_equal_those_in_memory(folder):
    """The batches, and a run of the compiled training loop on them."""
    np.save(folder / "x.npy", X)
    chosen, y = np.arange(5, 45), jnp.asarray(CLASSES[5:45], jnp.int32)
    scales = (jnp.ones(2), jnp.full(2, 2.0))
    lengths = jnp.asarray(LENGTHS[5:45], jnp.int32)
    inside = np.arange(7)[None, :, None] < LENGTHS[5:45, None, None]
    memory = Features(jnp.asarray(np.where(inside, X[5:45], 0), jnp.float32), y, *scales, lengths)
    disk = Stored(Rows(np.load(folder / "x.npy", "r"), LENGTHS, chosen), y, *scales, lengths)
    for indices in ([0], [3, 39, 3, 7]):
        ours, theirs = (s.at(jnp.asarray(indices, jnp.int32)) for s in (disk, memory))
        assert jax.tree.all(jax.tree.map(np.array_equal, ours, theirs))
    results = []
    for split in (memory, disk):
        experiment = Experiment(Given(split), ModelSpec(width=8), TrainingSpec(steps=20, batch=4))
        with jax.numpy_dtype_promotion("standard"):
            results.append(train(experiment, runs=folder / type(split).__name__))
    assert results[0]["test"] == results[1]["test"]


@dataclass(frozen=True)
class Given(Task):
    """A split for everything."""

    part: Any
    name = "given"
    summary = "a split for everything"
    inputs = 2
    outputs = 3
    objective = Classification()
    pooling = Pooling.MEAN
    chance = 1 / 3

    def split(self, name):
        return self.part

    def to_json(self):
        return {}


# Tables

TARGET = Reading(target="label", sequence="id")


def test_one_table_and_one_for_each_sequence(folder):
    (folder / "all.csv").write_text(table(rows()))
    task = own_task(folder / "all.csv", Reading(target="label", sequence="id"))
    assert (task.columns, task.classes, task.outputs) == (("a", "b"), ("down", "up"), 2)
    assert task.remarks() == (
        "20 sequences, 2 classes, 16 / 2 / 2, 2 features, 3 to 6 steps, rarest class 10 (down)",
    )
    split = task.split("train")
    batch = split.at(jnp.arange(split.size, dtype=jnp.int32))
    x = np.asarray(batch.inputs.dense()) * task.deviation + task.mean
    for row, length, target in zip(x, batch.lengths, batch.targets, strict=True):
        i = round(float(row[0, 0]) * 2)
        assert (int(length), int(target)) == (3 + i % 4, 1 - i % 2)
        expected = [(0.5 * i + t, i % 3 - t) for t in range(3 + i % 4)]
        np.testing.assert_allclose(row[: int(length)], expected, atol=1e-4)
    only = own_task(folder / "all.csv", Reading(columns=("b",), target="label", sequence="id"))
    assert only.inputs == 1
    path = tables(folder)
    np.testing.assert_array_equal(
        new_sequences(path / "up" / "2.csv", ["b"])[""], [[0], [2], [4], [6], [8]]
    )
    many = own_task(path)
    assert (many.columns, many.classes) == (("a", "b"), ("down", "up"))


@pytest.mark.parametrize(
    ("label", "metric", "outputs", "per_step"),
    [
        (lambda i, t: i % 3, "accuracy", 3, False),
        (lambda i, t: i / 7, "mae", 1, False),
        (lambda i, t: "ab"[t % 2], "accuracy", 2, True),
    ],
)
def test_what_a_table_asks_for(label, metric, outputs, per_step, folder):
    (folder / "all.csv").write_text(table(rows(label)))
    task = own_task(folder / "all.csv", Reading(target="label", sequence="id"))
    assert (task.objective.metric, task.outputs) == (metric, outputs)
    assert task.per_step is per_step
    said = "1 number to predict" if metric == "mae" else f"{outputs} classes"
    assert said in task.remarks()[0]


def test_parquet_equals_csv(folder):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = dict(
        zip(("id", "a", "b", "label"), map(list, zip(*rows(), strict=True)), strict=True)
    )
    parquet.write_table(pyarrow.table(columns), folder / "all.parquet")
    (folder / "all.csv").write_text(table(rows()))
    reading = Reading(target="label", sequence="id")
    ours, theirs = (own_task(folder / f"all.{form}", reading) for form in ("parquet", "csv"))
    np.testing.assert_array_equal(ours.split("test").features, theirs.split("test").features)
    (folder / "all.parquet").write_bytes((folder / "all.parquet").read_bytes()[:-9])
    with pytest.raises(PersistorError, match="not a complete Parquet file"):
        own_task(folder / "all.parquet", reading)


def test_without_pyarrow_the_extra_is_named(folder, monkeypatch):
    (folder / "all.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(PersistorError, match=r"pip install 'persistor\[tables\]'"):
        own_task(folder / "all.parquet", TARGET)


@pytest.mark.parametrize(
    ("text", "reading", "says"),
    [
        (table(rows()), Reading(), "--sequence COLUMN, and the column to predict, --target"),
        (table(rows()), Reading(target="x", sequence="id"), "no column 'x'; it has id, a, b"),
        (table(rows()), Reading(columns=("c",), target="label", sequence="id"), "no column 'c'"),
        (table([*rows(), ("s0", "nan", 1, "up")]), TARGET, r"row 92: a is 'nan', not a finite"),
        (table([("s0", 1, "", "up"), *rows()]), TARGET, r"row 2: b is '', not a finite"),
        (table([("s0", 1, 2, ""), *rows()]), TARGET, "a label of sequence s0 is empty"),
        (table([("s0", 1), *rows()]), TARGET, r"row 2: 2 values for 4 columns"),
        (table(rows(), "id,a,a,label"), TARGET, "two columns are called 'a'"),
        ("id,a,b,label\n", TARGET, "holds no rows"),
        (table(rows(lambda i, t: t / 7)), TARGET, "changes within sequence s0"),
        (table(rows(count=8)), TARGET, "8 sequences; at least 10"),
        (table(rows()), Reading(clip=1.0, target="label", sequence="id"), "--clip does not apply"),
    ],
)
def test_tables_that_are_none(text, reading, says, folder):
    (folder / "all.csv").write_text(text)
    with pytest.raises(PersistorError, match=says):
        own_task(folder / "all.csv", reading)


@pytest.mark.slow
def test_train_and_sample_from_the_command_line(folder, capsys):
    make("own-text", folder)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        assert call("train", "--data", "novel.txt", "--length", 16, *SMALL, "--json") == 0
        run = json.loads(capsys.readouterr().out)["run"]
        assert call("sample", run, "--prompt", "dög", "--count", 5, "--json") == 0
        assert json.loads(capsys.readouterr().out)["text"].startswith("dög")
        assert call("train", "parity", "--data", "novel.txt") == 2
        assert "not both" in capsys.readouterr().err
        assert call("train") == 2
        assert "unknown task" in capsys.readouterr().err


def test_train_move_and_continue_from_the_command_line(folder, capsys):
    path = make("own-sounds", folder)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        assert call("train", "--data", path, *SMALL, "--json") == 0
        printed = capsys.readouterr()
        assert " / " in printed.err.splitlines()[0]
        moved = shutil.move(path, folder / "moved")
        assert call("train", "--data", moved, *SMALL, "--json") == 0
        assert json.loads(capsys.readouterr().out) == json.loads(printed.out)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["own-sounds", "own-arrays", "own-table"])
def test_a_run_is_evaluated_where_its_data_are(kind, folder, capsys):
    path = make(kind, folder)
    if kind == "own-arrays":
        path.write_bytes(npz(x=X, y=STEPS, lengths=LENGTHS))
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        options = {"tiny": True, "state_size": 3}
        run = started(Experiment.of(own_task(path), **options), folder / "runs").path
        moved = shutil.move(path, folder / f"moved{path.suffix}")
        assert call("evaluate", run) == 2
        assert "say where it is now with --data" in capsys.readouterr().err
        assert call("evaluate", run, "--data", moved, "--json") == 0
        (result,) = json.loads(capsys.readouterr().out)["results"]
        assert math.isfinite(result["accuracy"])
        assert call("evaluate", run) == 0  # it remembers
        assert Run.open(run).experiment.hash == Experiment.of(own_task(moved), **options).hash


def test_options_of_own_data_need_own_data(capsys):
    assert call("train", "parity", "--clip", 1) == 2
    assert "--clip needs your own data: --data PATH" in capsys.readouterr().err


# Twenty kinds of damaged or odd input, each with its one line or its count in the summary


def _append(path, name, content):
    (path / name).parent.mkdir(parents=True, exist_ok=True)
    (path / name).write_bytes(content)


def _link(path, name, target):
    (path / name).symlink_to(target)


ODD_SOUNDS = {
    "hidden file": (lambda p: _append(p, "low/.x.wav", b"x"), "1 hidden"),
    "resource fork of a Mac": (lambda p: _append(p, "low/._a_0.wav", b"x"), "1 hidden"),
    "hidden folder": (lambda p: _append(p, ".git/x.wav", b"x"), "1 hidden"),
    "empty file": (lambda p: _append(p, "low/x.wav", b""), "1 empty"),
    "sound without samples": (lambda p: write_wav(p / "low" / "x.wav", []), "1 empty"),
    "file that is no sound": (lambda p: _append(p, "low/x.md", b"x"), "1 other files"),
    "broken link": (lambda p: _link(p, "low/x.wav", "gone.wav"), "1 broken links"),
    "link in a circle": (lambda p: _link(p, "low/x", p), "1 links in a circle"),
    "sound in no class": (lambda p: write_wav(p / "x.wav", tone(9, 900)), "1 outside a folder"),
    "folder of noise": (
        lambda p: write_wav(p / "_noise_" / "x.wav", tone(9, 900)),
        "1 in folders that begin with _",
    ),
    "other sample rate": (
        lambda p: write_wav(p / "low" / "x.wav", tone(300, 5_000, 8_000), 8_000),
        "resampled from 8,000 Hz",
    ),
    "stereo": (lambda p: write_wav(p / "low" / "x.wav", tone(300, 9_000), channels=2), "21 sounds"),
    "capital ending": (lambda p: write_wav(p / "low" / "X.WAV", tone(300, 9_000)), "21 sounds"),
    "name with spaces and accents": (
        lambda p: write_wav(p / "low" / "é ü 'x'.wav", tone(300, 9_000)),
        "21 sounds",
    ),
    "too long": (lambda p: write_wav(p / "low" / "x.wav", tone(300, 90_000)), "1 cut to 0.8 s"),
    "too short": (lambda p: write_wav(p / "low" / "x.wav", tone(300, 90)), "padded"),
    "silence": (lambda p: write_wav(p / "low" / "x.wav", np.zeros(9_000)), "silent: low/x.wav"),
    "copy": (
        lambda p: shutil.copy(p / "low" / "a_0.wav", p / "low" / "x.wav"),
        "equal files, kept in one split: low/a_0.wav = low/x.wav",
    ),
    "header without a size": (
        lambda p: _append(p, "low/x.wav", riff(b"ab" * 9_000, size=0xFFFFFFFF)),
        "21 sounds",
    ),
}
REFUSED_SOUNDS = {
    "truncated sound": (riff(b"ab" * 100, size=900), "is truncated: 200 of 900 bytes"),
    "truncated header": (riff(b"ab" * 100)[:30], "it ends before the sound begins"),
    "text with the ending of a sound": (b"hello", "is not a complete sound file"),
    "rate of 0": (riff(b"ab" * 100, rate=0), "sample rate of 0 Hz"),
    "no channels": (riff(b"ab" * 100, channels=0), "has no channels"),
    "NaN samples": (
        riff(np.full(90, np.nan, "<f4").tobytes(), form=3, bits=32),
        "not a finite number, at sample 0",
    ),
}


def test_there_are_twenty_kinds_of_odd_input():
    assert len(ODD_SOUNDS) + len(REFUSED_SOUNDS) >= 20


@pytest.mark.parametrize("kind", ODD_SOUNDS)
def test_an_odd_sound_is_used_or_left_out_and_said(kind, folder, capsys):
    spoil, says = ODD_SOUNDS[kind]
    spoil(sounds(folder))
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        told = "\n".join(own_task(folder / "clips").remarks())
    assert says in told


@pytest.mark.parametrize("kind", REFUSED_SOUNDS)
def test_a_damaged_sound_is_one_line(kind, folder, capsys):
    pytest.importorskip("soundfile")
    content, says = REFUSED_SOUNDS[kind]
    _append(sounds(folder), "low/x.wav", content)
    assert call("train", "--data", "clips", *SMALL) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "low/x.wav" in line
    assert says in line
