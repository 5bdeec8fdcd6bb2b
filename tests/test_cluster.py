"""A sweep on a real Dask cluster ends with the bits of a local one, though a worker is killed."""

import dataclasses
import re
import subprocess
import sys
import time
from concurrent.futures import Future

import pytest

from persistor import Experiment, ModelSpec, Run, TrainingSpec
from persistor.cli import main
from persistor.reproduction.cluster import FILES, bring_home, pack, sweep_cluster, unpack
from persistor.reproduction.sweep import sweep
from persistor.tasks import CopyFirstDiscrete

distributed = pytest.importorskip("distributed")

SHORT = Experiment(
    CopyFirstDiscrete(length=5),
    ModelSpec(("cmru",), state_size=2, width=8, encoding=8),
    TrainingSpec(steps=8, batch=4, evaluate_every=4, valid_batches=1),
)
SEEDS = [dataclasses.replace(SHORT, seed=seed) for seed in range(2)]


@pytest.fixture
def cluster(tmp_path):
    """A scheduler and two workers, as processes: the address, and the workers."""
    started = []

    def start(pattern, *arguments):
        """A process, and what it says of itself once it is there."""
        log = tmp_path / f"{len(started)}.log"
        with log.open("w") as file:
            command = [sys.executable, "-m", "dask", *arguments]
            started.append(subprocess.Popen(command, stdout=file, stderr=file, cwd=tmp_path))
        for _ in range(1800):
            if found := re.search(pattern, log.read_text()):
                return found[1]
            time.sleep(0.1)
        pytest.fail(f"no {pattern!r} in: {log.read_text()}")

    try:
        options = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        address = start(r"Scheduler at:\s+(tcp://\S+)", "scheduler", *options)
        options = ("--nthreads", "1", "--no-nanny", "--no-dashboard")
        for _ in range(2):
            start("(Registered to)", "worker", address, *options)
        yield address, started[1:]
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_a_worker_that_dies_changes_nothing(cluster, tmp_path):
    address, workers = cluster
    heard = []

    def watch(news):
        heard.append(news)
        if len(heard) == 2:
            workers[0].kill()

    away, here = tmp_path / "away", tmp_path / "here"
    assert sweep_cluster(SEEDS, away, address, seconds=0.0, watch=watch) == {}
    assert workers[0].poll() is not None
    assert [news.outcome for news in heard].count("done") == len(SEEDS)
    assert len(heard) == len(SEEDS) * 3  # slices without time: two intervals and the test
    assert sweep(SEEDS, here, workers=2) == {}
    for experiment in SEEDS:
        one, two = Run.create(experiment, away), Run.create(experiment, here)
        assert one.result is not None
        assert two.result is not None
        assert one.result["test"] == two.result["test"]
        assert one.best.read_bytes() == two.best.read_bytes()
        assert [line["step"] for line in one.progress()] == [4, 8]


def test_a_run_travels_as_its_files(tmp_path):
    run = Run.create(SHORT, tmp_path)
    (run.path / "latest.safetensors").write_bytes(b"weights")
    (run.path / "notes.txt").write_text("mine")
    files = pack(run.path)
    assert list(files) == [name for name in FILES if name in files]
    assert set(files) == {"experiment.json", "latest.safetensors"}
    (tmp_path / "there").mkdir()
    unpack(files, tmp_path / "there")
    assert pack(tmp_path / "there") == files


def test_a_late_slice_does_not_undo_a_finished_run(tmp_path):
    run = Run.create(SHORT, tmp_path)
    run.note({"step": 8})
    run.finish({"steps": 8})
    done = pack(run.path)
    late = Future()
    late.set_result({**done, "progress.jsonl": b""})
    assert bring_home(late, run).outcome == "done"
    assert pack(run.path) == done


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nowhere"])
def test_a_cluster_that_is_not_there_fails_in_seconds(address, tmp_path):
    """In a process of its own: what Dask leaves behind is not ours to clean up."""
    command = ["reproduce", "parity", "--cluster", address, "--runs", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-c", "from persistor.cli import main; main()", *command],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2, done.stderr
    assert f"no Dask scheduler answers at '{address}'" in done.stderr
    assert "Traceback" not in done.stderr


def test_workers_and_a_cluster_do_not_go_together(tmp_path, capsys):
    both = ["--cluster", "tcp://127.0.0.1:1", "--workers", "2"]
    with pytest.raises(SystemExit) as exit_:
        main(["reproduce", "parity", *both, "--runs", str(tmp_path)])
    assert exit_.value.code == 2
    assert "--workers is for this machine" in capsys.readouterr().err
