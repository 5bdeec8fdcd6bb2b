"""Sweeps: one failure does not stop the others, and nothing is lost when all are stopped."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from persistor import Experiment, ModelSpec, PersistorError, Run, TrainingSpec
from persistor._tools import progress as progress_
from persistor._tools.progress import SweepWatcher, duration
from persistor.reproduction.outcomes import find_outcomes
from persistor.reproduction.sweep import sweep
from persistor.tasks import CopyFirstDiscrete

SHORT = Experiment(
    CopyFirstDiscrete(length=5),
    ModelSpec(("cmru",), state_size=2, width=8, encoding=8),
    TrainingSpec(steps=8, batch=4, evaluate_every=4, valid_batches=1),
)
ENDLESS = dataclasses.replace(SHORT, training=dataclasses.replace(SHORT.training, steps=10**7))


def seed(number, experiment=SHORT):
    return dataclasses.replace(experiment, seed=number)


def children():
    """The workers of this process."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            parent = int((path.parent / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"persistor.reproduction.worker" in path.read_bytes():
                yield int(path.parent.name)
        except OSError:
            continue


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds its children in /proc")
def test_failures_are_told_and_stop_nothing_else(tmp_path):
    locked, killed, good = seed(1), seed(2, ENDLESS), seed(3)
    victims = []

    def kill_one(news):
        if news.experiment == killed and news.outcome is None and not victims:
            victims.extend(children())
            os.kill(victims[0], signal.SIGKILL)

    with Run.create(locked, tmp_path).locked():
        failures = sweep([locked, killed, good], tmp_path, watch=kill_one)
    assert len(victims) == 1
    assert set(failures) == {locked.name, killed.name}
    assert "another process" in failures[locked.name]
    assert "signal 9" in failures[killed.name]
    outcomes, problems = find_outcomes(tmp_path)
    assert [o.experiment for o in outcomes] == [good]
    assert problems == []
    assert not list(children())


def test_a_sweep_can_be_stopped(tmp_path):
    heard = []
    failures = sweep(
        [seed(0, ENDLESS), seed(1), seed(2)],
        tmp_path,
        watch=heard.append,
        should_stop=lambda: bool(heard),
    )
    assert failures == {}
    assert heard[-1].outcome == "stopped"
    assert {news.experiment for news in heard} == {seed(0, ENDLESS)}
    assert Run.create(seed(0, ENDLESS), tmp_path).latest.exists()


def test_workers_do_not_outlive_a_sweep_that_is_killed(tmp_path):
    code = (
        "import json, sys; from pathlib import Path; from persistor import Experiment; "
        "from persistor.reproduction.sweep import sweep; "
        "sweep([Experiment.from_json(json.loads(sys.argv[1]))], Path(sys.argv[2]))"
    )
    run = Run.create(ENDLESS, tmp_path)
    sweeping = subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(ENDLESS.to_json()), str(tmp_path)]
    )
    while not run.progress():
        assert sweeping.poll() is None
        time.sleep(0.1)
    sweeping.kill()
    sweeping.wait()
    until = time.monotonic() + 120
    while True:
        try:
            with run.locked():  # the worker has gone
                break
        except PersistorError:
            assert time.monotonic() < until
            time.sleep(0.1)
    assert run.latest.exists()  # and has saved its run


def test_at_least_one_worker(tmp_path):
    with pytest.raises(PersistorError, match="at least 1"):
        sweep([SHORT], tmp_path, workers=0)


def test_the_time_left_is_what_the_pace_says(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress_.time, "monotonic", lambda: now[0])
    one, two = seed(1), seed(2)
    watcher = SweepWatcher({one.name: 1.0, two.name: 3.0})
    assert watcher.seconds_left() is None
    now[0] = 10.0
    watcher.step(
        one.name, 4, one.training.steps, one.training.evaluate_every
    )  # half of a quarter of the work
    assert watcher.seconds_left() == pytest.approx(70)
    watcher.end(one.name, "done")
    assert watcher.seconds_left() == pytest.approx(30)
    now[0] = 20.0
    watcher.step(
        two.name, 8, two.training.steps, two.training.evaluate_every
    )  # goes on from step 4: half of it was done another time
    assert watcher.share() == 1
    assert watcher.seconds_left() == 0


def test_durations_as_people_say_them():
    assert duration(70.0) == "70 s"
    assert duration(600.0) == "10 min"
    assert duration(7200.0) == "2 h"
    assert duration(3 * 86_400.0) == "3 days"
