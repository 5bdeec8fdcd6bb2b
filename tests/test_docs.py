"""Code in the README, in the docs and in research/ runs as it is written."""

import glob
import importlib.util
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import jax
import pytest
from publishers import publish
from test_cli import call

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


WORKED = [page for page in PAGES if blocks(page, "sh")]  # read from top to bottom, in one folder
PYTHON = [(page, code) for page in PAGES if page not in WORKED for code in blocks(page, "python")]
BASH = [(page, code) for page in PAGES for code in blocks(page, "bash")]


ANSWERS = {  # what the model of a page must have learned to say
    "own-sounds": "tones/high/b_1.wav  high ",
    "own-sensors": "new.csv[1]  worn ",
    "own-text": "begun.txt  o ",
    "trained-model": '"input": "new.npz", "class": "rises"',
}


def test_there_is_code_to_run():
    assert PYTHON
    assert BASH


@pytest.mark.parametrize(("page", "code"), PYTHON, ids=[p.stem for p, _ in PYTHON])
def test_python_blocks_run(page, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        exec(compile(code, str(page), "exec"), {"__name__": "docs"})


def test_there_are_worked_examples():
    assert {page.stem for page in WORKED} >= {"own-sounds", "own-sensors", "own-text"}


@pytest.mark.slow
@pytest.mark.parametrize("page", WORKED, ids=[page.stem for page in WORKED])
def test_worked_examples_run_from_top_to_bottom(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERSISTOR_DATA", str(tmp_path / "data"))
    in_order = re.findall(r"^```(python|sh)\n(.*?)^```", page.read_text(), re.M | re.S)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        for language, code in in_order:
            if language == "python":
                exec(compile(code, str(page), "exec"), {"__name__": "docs"})
                continue
            for line in code.splitlines():
                program, *words = shlex.split(line)
                assert program == "persistor"
                expanded = [path for word in words for path in sorted(glob.glob(word)) or [word]]
                assert call(*expanded) == 0, capsys.readouterr().err
    told = capsys.readouterr().out
    assert ANSWERS[page.stem] in told
    assert "picture: " in told


@pytest.mark.slow
@pytest.mark.parametrize(("page", "code"), BASH, ids=[p.stem for p, _ in BASH])
def test_shell_blocks_run(page, code, tmp_path):
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        cwd=tmp_path,
        env={"PATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "accuracy 1.0000" in done.stdout


@pytest.mark.parametrize("page", PAGES, ids=[p.stem for p in PAGES])
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target


def test_the_walk_in_the_design_names_what_is_there():
    page = (ROOT / "docs" / "explanation" / "design.md").read_text()
    hops = re.findall(r"^\| \d+ \| (.+?) \|", page, re.M)
    assert len(hops) >= 15
    for hop in hops:
        for place in re.findall(r"`([\w/.*]+)(?:: [\w.]+)?`", hop):
            if "/" in place:
                assert list((ROOT / "src" / "persistor").glob(place)), place
        for place, name in re.findall(r"`([\w/.]+\.py): ([\w.]+)`", hop):
            text = (ROOT / "src" / "persistor" / place).read_text()
            for word in name.split("."):
                assert re.search(rf"\b(class|def) {word}\b", text), f"{place} has no {word}"


def test_results_do_not_bury_the_code():
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    rooms = [name.split("/")[0] for name in listed.stdout.splitlines()]
    assert len(rooms) > 100
    assert 0 < rooms.count("results") < len(rooms) / 10


SCRIPTS = sorted((ROOT / "research").glob("*.py"))
SHORT = {
    "screening": [
        "--share",
        "0.005",
        "--settings",
        "events",
        "--probes",
        "parity-cmru",
        "--seeds",
        "11",
    ],
    "grid": [
        *("--cells", "cmru", "--tasks", "copy-first-grid", "--seeds", "11"),
        *("--length", "4", "--steps", "2"),
    ],
    "spotting": ["--trials", "varied", "--seeds", "11", "--steps", "2"],
}


def test_every_script_has_a_short_call():
    assert {path.stem for path in SCRIPTS} == set(SHORT)


@pytest.mark.slow
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_runs_and_records(path, tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    script = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, script)  # where its dataclasses look
    spec.loader.exec_module(script)
    monkeypatch.setenv("PERSISTOR_DATA", str(tmp_path))
    publish(tmp_path, "speech-commands")
    out = tmp_path / "out.jsonl"
    call = [*SHORT[path.stem], "--out", str(out)]
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        script.main(call)
    (record,) = map(json.loads, out.read_text().splitlines())
    assert 0 <= record["score"] <= 1
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        script.main(call)  # what has a line is not trained again
    assert len(out.read_text().splitlines()) == 1
