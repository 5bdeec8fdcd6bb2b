"""The public names are typed: a checker finds the mistakes in a user's program, and no others."""

import json
import re
import subprocess
import sys

import pytest

PROGRAM = """
import jax
import numpy as np

import persistor
from persistor import CMRU, Architecture, Backbone, Experiment, MinGRU, Pooling, load, save, train

key = jax.random.key(0)
cell = CMRU(16, 4, epsilon=0.5, hold=2.0, key=key)
outputs, state = cell(np.zeros((10, 16), np.float32))
size: int = cell.state_size + cell.input_size
first = cell.initial_state((3,))
model = Backbone(2, 3, (cell,), width=16, pooling=Pooling.MEAN, key=key)
save(model, "model.safetensors")
back: Backbone = load("model.safetensors")
alone: CMRU = load("cell.safetensors", CMRU)
experiment = Experiment.of("parity", cell="cmru", epsilon=-1.0, steps=128)
result = train(experiment, runs="runs")
hybrid = Experiment.of("smnist", cell=(MinGRU, CMRU), blocks=2)
reading = Architecture(norm="first", gate="before")

CMRU("nonsense")  # wrong
CMRU(16, "4", key=key)  # wrong
CMRU(16, 4, hold="high", key=key)  # wrong
CMRU(16, 4, thresholds="wild", key=key)  # wrong
CMRU(16, 4, epsilom=1.0, key=key)  # wrong
MinGRU(16, 4, epsilon=1.0, key=key)  # wrong
Backbone(2, 3, cell, key=key)  # wrong
Backbone(2, 3, (cell,), pooling="mean", key=key)  # wrong
Architecture(norm="last")  # wrong
Experiment.of(3)  # wrong
Experiment.of("parity", steps="many")  # wrong
train("parity")  # wrong
save(3, "model.safetensors")  # wrong
cell.nonsense  # wrong
persistor.Nonsense  # wrong
wrong_kind: MinGRU = load("cell.safetensors", CMRU)  # wrong
cell.step(np.zeros(16))  # wrong
"""
WRONG = {n for n, line in enumerate(PROGRAM.splitlines(), 1) if "# wrong" in line}


@pytest.fixture
def program(tmp_path):
    """A user's program, whose marked lines a checker must find."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def test_there_are_mistakes_to_find():
    assert len(WRONG) > 10


@pytest.mark.slow
def test_pyright_finds_every_mistake_and_no_other(program):
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    said = subprocess.run([*command, str(program)], capture_output=True, text=True).stdout
    errors = [d for d in json.loads(said)["generalDiagnostics"] if d["severity"] == "error"]
    assert {d["range"]["start"]["line"] + 1 for d in errors} == WRONG


@pytest.mark.slow
def test_mypy_finds_every_mistake_and_no_other(program, tmp_path):
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "--no-error-summary"]
    command += ["--cache-dir", str(tmp_path / "cache"), str(program)]
    said = subprocess.run(command, capture_output=True, text=True).stdout
    assert {int(line) for line in re.findall(r"program.py:(\d+): error", said)} == WRONG
