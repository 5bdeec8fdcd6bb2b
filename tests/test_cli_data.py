"""`persistor data` and `persistor sample` as their users meet them."""

import json

import jax
import pytest
from publishers import publish
from test_cli import call

from persistor.data import DATASETS

VERSE = "To be, or not to be: that is the question.\n" * 30


@pytest.fixture(autouse=True)
def as_users_have_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERSISTOR_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def test_list_fetch_check(capsys, tmp_path):
    publish(tmp_path / "data", "speech-commands")
    assert call("data", "list", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["folder"] == str(tmp_path / "data")
    assert set(listed["data"]) == set(DATASETS)
    assert listed["data"]["speech-commands"]["found"] == [str(tmp_path / "data")]
    assert listed["data"]["mnist"]["found"] == []
    assert call("data", "list") == 0
    assert "not here" in capsys.readouterr().out
    file = tmp_path / "data" / "speech_commands_v0.02_mfcc13.npz"
    for command in ("fetch", "check"):
        assert call("data", command, "speech-commands", "--json") == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer == {"data": "speech-commands", "files": [str(file)]}
    assert call("data", "check", "speech-commands") == 0
    assert "is complete" in capsys.readouterr().out


def test_another_folder(capsys, tmp_path):
    (tmp_path / "other").mkdir()
    assert call("data", "check", "tinyshakespeare", "--data-dir", "other") == 2
    assert "is not in other" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["check", "mnist"], "train-images-idx3-ubyte.gz is not in"),
        (["check", "smnist"], "train-images-idx3-ubyte.gz is not in"),
        (["check", "minst"], "did you mean mnist"),
        (["check", "parity"], "unknown data set"),
        (["fetch", "shakespeare"], "download it from http"),
        (["show", "nothing"], "unknown task"),
        (["show", "parity", "--split", "all"], "unknown split"),
        (["show", "parity", "--examples", "0"], "at least 1"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(arguments, says, capsys, tmp_path):
    assert call("data", *arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert says in captured.err
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_damaged_file_stops_a_run_before_it_begins(capsys, tmp_path):
    (tmp_path / "data" / "tinyshakespeare.txt").write_text("something else")
    assert call("train", "tinyshakespeare") == 2
    assert DATASETS["tinyshakespeare"].files[0].checksum[7:] in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("task", ["parity", "copy-first-clean", "copy-first-discrete"])
def test_show_draws(task, capsys, tmp_path):
    assert call("data", "show", task, "--examples", 3, "--json") == 0
    picture = json.loads(capsys.readouterr().out)["picture"]
    assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")


def test_show_prints_text(capsys, tmp_path):
    publish(tmp_path / "data", "listops")
    assert call("data", "show", "listops", "--examples", 2, "--json") == 0
    examples = json.loads(capsys.readouterr().out)["examples"]
    assert [example["text"].split()[0] for example in examples] == ["[MAX", "[MAX"]
    assert call("data", "show", "listops", "--examples", 2) == 0
    assert examples[0]["text"] in capsys.readouterr().out


@pytest.mark.slow
def test_sample_writes_text(capsys, tmp_path):
    (tmp_path / "data" / "verse.txt").write_text(VERSE)
    small = ["--blocks", 2, "--state", 3, "--width", 16, "--length", 12, "--batch", 4]
    assert call("train", "--data", "data/verse.txt", *small, "--steps", 3, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["test"]["cross_entropy"] > 1

    sample = ["sample", result["run"], "--count", 30, "--prompt", "To be, or not to be"]
    assert call(*sample, "--json") == 0
    text = json.loads(capsys.readouterr().out)["text"]
    assert text.startswith("To be, or not to be")
    assert len(text) == 30 + 19
    assert call(*sample) == 0
    assert capsys.readouterr().out == text + "\n"
    assert call(*sample, "--seed", 1, "--json") == 0
    assert json.loads(capsys.readouterr().out)["text"] != text

    for wrong, says in (
        (["--prompt", "é"], "does not know"),
        (["--prompt", ""], "empty"),
        (["--temperature", -1], "must not be negative"),
    ):
        assert call("sample", result["run"], *wrong) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert says in captured.err


@pytest.mark.slow
def test_only_text_is_sampled(capsys):
    assert (
        call("train", "copy-first-clean", "--length", 5, "--steps", 1, "--width", 8, "--json") == 0
    )
    run = json.loads(capsys.readouterr().out)["run"]
    assert call("sample", run) == 2
    assert "not trained to predict text" in capsys.readouterr().err
