"""TensorBoard itself reads what a run writes for it."""

import json

import jax
import pytest

from persistor import Experiment, ModelSpec, Run, TrainingSpec
from persistor.cli import main
from persistor.tasks import CopyFirstDiscrete
from persistor.training.events import NAME, EventFile

pytestmark = pytest.mark.filterwarnings("ignore")  # of TensorBoard's own making

LINES = [
    {"step": 64, "loss": 2.5, "accuracy": 0.25, "learning_rate": 1e-3, "seconds": 1.5},
    {"step": 300, "loss": 1.5, "accuracy": 1.0, "learning_rate": 5e-4, "seconds": 2.25},
]


def read(folder):
    """The curves by name: (step, value), and the time between the first two points."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    found.Reload()
    return {name: found.Scalars(name) for name in found.Tags()["scalars"]}


def points(curve):
    return [(event.step, pytest.approx(event.value)) for event in curve]


@pytest.fixture
def run(tmp_path):
    task = CopyFirstDiscrete(length=5)
    return Run.create(Experiment(task, ModelSpec(), TrainingSpec(steps=8)), tmp_path)


def test_curves_arrive(run):
    with EventFile(run) as events:
        for line in LINES:
            run.note(line)
            events.update()
    curves = read(run.path)
    assert set(curves) == {"loss", "accuracy", "learning_rate"}
    for name, curve in curves.items():
        assert points(curve) == [(line["step"], line[name]) for line in LINES]
    first, second = curves["loss"]
    assert second.wall_time - first.wall_time == pytest.approx(0.75, abs=1e-3)


def test_a_resumed_run_begins_with_what_was_noted_before(run):
    run.note(LINES[0])
    with EventFile(run) as events:
        run.note(LINES[1])
        events.update()
    assert [step for step, _ in points(read(run.path)["accuracy"])] == [64, 300]


def test_nothing_is_touched_before_the_first_update(run):
    (run.path / NAME).write_bytes(b"curves")
    with EventFile(run):
        pass
    assert (run.path / NAME).read_bytes() == b"curves"


@pytest.mark.slow
def test_the_command(tmp_path, capsys):
    options = ["--length", "5", "--width", "8", "--steps", "65", "--batch", "4", "--tensorboard"]
    command = ["train", "copy-first-discrete", *options, "--json", "--runs", str(tmp_path)]
    with jax.numpy_dtype_promotion("standard"), pytest.raises(SystemExit) as exit_:  # for optax
        main(command)
    assert not exit_.value.code
    assert json.loads(capsys.readouterr().out)["steps"] == 65
    (found,) = tmp_path.glob(f"*/{NAME}")
    lines = (found.parent / "progress.jsonl").read_text().splitlines()
    noted = [(json.loads(line)["step"], json.loads(line)["loss"]) for line in lines]
    assert points(read(found.parent)["loss"]) == noted
    written = found.read_bytes()
    with pytest.raises(SystemExit):
        main(command)
    assert found.read_bytes() == written
