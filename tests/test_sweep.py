"""Sweeps: one failure does not stop the others, and nothing is lost when all are stopped."""

import contextlib
import dataclasses
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from persistor import Experiment, ModelSpec, PersistorError, Run, TrainingSpec
from persistor._tools import progress as progress_
from persistor._tools.progress import Counter, SweepWatcher, Watcher, duration
from persistor.reproduction.outcomes import find_outcomes
from persistor.reproduction.sweep import sweep
from persistor.tasks import CopyFirstDiscrete
from persistor.training.loop import Progress

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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds its children in /proc")
def test_a_worker_that_is_told_to_stop_saves_its_run(tmp_path):
    told, good = seed(0, ENDLESS), seed(1)

    def tell(news):
        if news.experiment == told and news.outcome is None:
            for worker in children():
                os.kill(worker, signal.SIGTERM)

    failures = sweep([told, good], tmp_path, watch=tell)
    assert failures == {told.name: "its process was told to stop"}
    assert Run.create(told, tmp_path).latest.exists()
    assert Run.create(good, tmp_path).result is not None


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


@pytest.mark.slow
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


class Terminal(io.StringIO):
    """A terminal of 80 columns."""

    def isatty(self):
        return True


LONG = "copy-first-discrete-L100000-alpha-cmru-eps0.001-d1024-r6-seed0-0123456789abcdef"
REPORTS = [  # pace and time left are those since the first, which includes compiling
    Progress(64, 1_000_000, 2.5, 0.25, 2.5, 60.0),
    Progress(640_064, 1_000_000, 1.25, 2.0625, 2.0625, 660.0),
]


@pytest.fixture
def terminal(monkeypatch):
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    return Terminal()


def lines(screen):
    """What was written to a terminal, line by line, without its control sequences."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue()).splitlines()


def test_the_line_of_a_run_fits_80_columns(terminal):
    with contextlib.redirect_stderr(terminal), Watcher(LONG, "cross_entropy") as watcher:
        for report in REPORTS:
            watcher.update(report)
    assert max(map(len, lines(terminal))) == 80
    shown = next(line for line in lines(terminal) if "640,064" in line)
    bar, text = shown.split(" ", 1)
    assert set(bar) <= set("━╸╺")
    assert len(bar) >= 5
    text = text.strip()
    assert text == "640,064/1,000,000 cross_entropy 2.0625 best 2.0625 1,067/s 6 min left"


def test_the_line_of_a_sweep_fits_80_columns(terminal):
    weights = {LONG: 1.0, "other-0": 1.0}
    with contextlib.redirect_stderr(terminal), SweepWatcher(weights) as watcher:
        watcher.step(LONG, 64, 1000, 64)
    assert max(map(len, lines(terminal))) == 80
    assert any("0/2 runs, 0 s left" in line for line in lines(terminal))


@pytest.mark.parametrize("no_color", [False, True])
def test_bars_have_colours_only_if_they_may(no_color, terminal, monkeypatch):
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    with contextlib.redirect_stderr(terminal):
        with Watcher(LONG, "accuracy") as watcher:
            watcher.update(REPORTS[0])
        with Counter("reading") as count:
            count(1, 2)
    assert bool(re.search(r"\x1b\[[0-9;]*m", terminal.getvalue())) is not no_color


@pytest.mark.parametrize("bar", [lambda: Counter("predicting"), lambda: Watcher(LONG, "accuracy")])
def test_a_bar_takes_nothing_from_a_file(bar, terminal):
    """Answers go where they are sent, even if the bar is on a terminal."""
    file = io.StringIO()
    with contextlib.redirect_stdout(file), contextlib.redirect_stderr(terminal), bar():
        print("an answer")
    assert file.getvalue() == "an answer\n"
    assert "an answer" not in terminal.getvalue()


def test_in_a_log_a_count_tells_the_time_left(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(progress_.time, "monotonic", lambda: now[0])
    with Counter("reading sounds") as count:
        for done in (10, 100, 1_000):
            now[0] += 20.0
            count(done, 4_000)
        now[0] += 40.0
        count(1_100, 0)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "reading sounds 100/4,000 26 min left"
    assert second == "reading sounds 1,100"


def test_in_a_log_the_time_left_is_told_too(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(progress_.time, "monotonic", lambda: now[0])
    with Watcher(LONG, "accuracy") as watcher:
        for report in REPORTS:
            now[0] = report.seconds
            watcher.update(report)
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith(" loss 2.5000 accuracy 0.2500 best 2.5000 1.1/s 11 days left")
    assert second.endswith(" loss 1.2500 accuracy 2.0625 best 2.0625 1,067/s 6 min left")
    assert "\x1b" not in first + second


def test_durations_as_people_say_them():
    assert duration(70.0) == "70 s"
    assert duration(600.0) == "10 min"
    assert duration(7200.0) == "2 h"
    assert duration(3 * 86_400.0) == "3 days"
