"""CONTRIBUTING.md is true: what it says how to add is added that way, and the laws run on it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
BLOCK = re.compile(
    r"^```\w*\n# (\S+?)(?:, (after .+?|in place of .+?|at the end))?\n(.*?)^```", re.M | re.S
)


def add(tree: Path, section: str) -> None:
    """Do to a copy of the package what a section of the page says."""
    text = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    assert text is not None, section
    blocks = BLOCK.findall(text.group(1))
    assert blocks, section
    for name, place, lines in blocks:
        path = tree / name
        if not place:
            assert not path.exists()
            path.write_text(lines)
        elif place == "at the end":
            path.write_text(path.read_text() + lines)
        elif place.startswith("in place of "):
            old = place.removeprefix("in place of ")
            assert path.read_text().count(old) == 1, f"{name} has not one {old!r}"
            path.write_text(path.read_text().replace(old, lines.rstrip("\n")))
        else:
            line = place.removeprefix("after ") + "\n"
            before, found, after = path.read_text().partition(line)
            assert found, f"{name} has no line {line!r}"
            path.write_text(before + found + lines + after)


@pytest.fixture
def tree(tmp_path):
    """A copy of the package and its tests."""
    for folder in ("src", "tests"):
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("*.egg-info")
        )
    for name in ("pyproject.toml", "docs", "results"):
        os.symlink(ROOT / name, tmp_path / name)
    return tmp_path


def run(tree: Path, *command: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    done = subprocess.run(
        [sys.executable, *command], cwd=tree, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def laws(tree: Path, path: str, *select: str) -> None:
    said = run(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", path, *select)
    assert re.search(r"[1-9]\d* passed", said), said


@pytest.mark.slow
def test_a_cell_is_one_file_and_one_line(tree):
    add(tree, "Add a cell")
    laws(tree, "tests/test_cells.py", "-k", "leaky")
    asked = "train parity --cell leaky --tiny --steps 2 --batch 2 --runs runs"
    assert "parity-leaky-robust-d1-r1-seed0-" in run(tree, "-m", "persistor.cli", *asked.split())


@pytest.mark.slow
def test_an_option_of_a_cell_is_declared_once(tree):
    add(tree, "Add a cell")
    add(tree, "Add an option of a cell")
    laws(tree, "tests/test_front_door.py", "-k", "leaky or declare")
    assert "--rate" in run(tree, "-m", "persistor.cli", "train", "--help")
    code = (
        "from persistor import Experiment\n"
        "usual = Experiment.of('smnist', cell='leaky')\n"
        "quick = Experiment.of('smnist', cell='leaky', rate=0.9)\n"
        "assert 'rate' not in usual.to_json()['model']\n"
        "assert quick.to_json()['model']['rate'] == 0.9\n"
        "assert '-leaky-rate0.9-' in quick.name\n"
        "try:\n"
        "    Experiment.of('smnist', cell='leaky', rate=2)\n"
        "except Exception as error:\n"
        "    print(error)\n"
    )
    said = run(tree, "-c", code)
    assert "rate is 2; it must be a finite number, in [0.01, 0.99]" in said


@pytest.mark.slow
def test_a_task_is_one_file_and_one_line(tree):
    add(tree, "Add a task")
    laws(tree, "tests/test_tasks.py", "-k", "majority")
    asked = "train majority --length 9 --tiny --steps 2 --batch 2 --runs runs"
    assert "majority-L9-cmru-eps1-robust-d32-r1-seed0-" in run(
        tree, "-m", "persistor.cli", *asked.split()
    )


@pytest.mark.slow
def test_a_reading_is_one_line(tree):
    add(tree, "Add a reading of the paper")
    laws(tree, "tests/test_architecture.py", "-k", "fast-positions or shows_in")
    assert "fast-positions       base=100.0" in run(tree, "-m", "persistor.cli", "list")


@pytest.mark.slow
def test_a_table_is_a_line_and_its_entries(tree):
    add(tree, "Add a table of the paper")
    laws(tree, "tests/test_paper.py", "-k", "parity-wide")
    said = run(tree, "-m", "persistor.cli", "compare", "parity-wide", "--runs", "results")
    assert "100.00 [100.00; 100.00]" in said
    assert "parity-wide" in run(tree, "-m", "persistor.cli", "reproduce", "--list")
