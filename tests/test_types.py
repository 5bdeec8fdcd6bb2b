"""The public names are typed: a checker finds the mistakes in a user's program, and no others."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "consumer" / "program.py"
WRONG = {n for n, line in enumerate(PROGRAM.read_text().splitlines(), 1) if "# wrong" in line}


def pyright():
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    said = subprocess.run([*command, str(PROGRAM)], capture_output=True, text=True).stdout
    found = json.loads(said)["generalDiagnostics"]
    return {d["range"]["start"]["line"] + 1 for d in found if d["severity"] == "error"}


def mypy(cache):
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "--no-error-summary"]
    said = subprocess.run(
        [*command, "--cache-dir", str(cache), str(PROGRAM)], capture_output=True, text=True
    ).stdout
    return {int(line) for line in re.findall(rf"{PROGRAM.name}:(\d+): error", said)}


def test_there_are_mistakes_to_find():
    assert len(WRONG) > 10


@pytest.mark.slow
def test_pyright_finds_every_mistake_and_no_other():
    assert pyright() == WRONG


@pytest.mark.slow
def test_mypy_finds_every_mistake_and_no_other(tmp_path):
    assert mypy(tmp_path) == WRONG
