"""Many runs on the machines of a Dask cluster, which share nothing but the network.

A worker receives the files of a run, trains it for a few minutes, and sends the files back. Then
the next slice of the run goes to any free worker. If a worker dies, only its current slice is lost:
the run continues on another worker and ends with the same bits.
"""

from __future__ import annotations

import collections
import socket
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from persistor._tools.errors import PersistorError
from persistor._tools.files import write_atomically
from persistor.experiment import Experiment
from persistor.reproduction.sweep import PATIENCE, News
from persistor.training import Run, train

SLICE = 240.0  # seconds of training before a worker sends the files back
ANSWER = 10.0  # seconds in which a scheduler must answer
PORT = 8786  # of a scheduler, if its address names none
# The files of a run in the order in which they are written back. If writing is interrupted, the
# files so far are a run that can be resumed.
FILES = (
    "experiment.json",
    "progress.jsonl",
    "best.safetensors",
    "latest.safetensors",
    "result.json",
)

Files = dict[str, bytes]


def advance(files: Files, seconds: float) -> Files:
    """On a worker: train a run for some time, and return its files."""
    with tempfile.TemporaryDirectory(prefix="persistor-") as folder:
        path = Path(folder)
        unpack(files, path)
        end = time.monotonic() + seconds
        train(Run.open(path), should_stop=lambda: time.monotonic() > end)
        return pack(path)


def pack(path: Path) -> Files:
    """The files of a run."""
    return {name: (path / name).read_bytes() for name in FILES if (path / name).exists()}


def unpack(files: Files, path: Path) -> None:
    """Write the files of a run, each completely or not at all."""
    for name in FILES:
        if name in files:
            write_atomically(path / name, files[name])


def sweep_cluster(
    experiments: Sequence[Experiment],
    folder: Path,
    address: str,
    *,
    seconds: float = SLICE,
    watch: Callable[[News], None] = lambda news: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[str, str]:
    """Like `sweep`, but on the workers of the Dask scheduler at an address.

    If asked to stop, it returns at once; the slices that workers are training are lost.
    """
    client = _connect(address)
    failures: dict[str, str] = {}
    pending = collections.deque(Run.create(experiment, folder) for experiment in experiments)
    running: dict[Any, Run] = {}
    try:
        while pending or running:
            if should_stop():
                break
            while pending and len(running) < max(1, 2 * len(client.nthreads())):
                run = pending.popleft()
                future = client.submit(advance, pack(run.path), seconds, pure=False)
                running[future] = run
            for future in [future for future in running if future.done()]:
                run = running.pop(future)
                news = bring_home(future, run)
                watch(news)
                if news.outcome == "failed":
                    failures[run.experiment.name] = news.reason
                elif news.outcome is None:
                    pending.appendleft(run)  # continue it before starting new runs
            time.sleep(PATIENCE)
    finally:
        client.cancel(list(running))
        client.close()
    return failures


def bring_home(future: Any, run: Run) -> News:
    """Write the files of a finished slice, and report what became of it."""
    try:
        with run.locked():
            if run.result is None:  # otherwise another process finished it in the meantime
                unpack(future.result(), run.path)
    except PersistorError as error:
        return News(run.experiment, outcome="failed", reason=str(error))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        return News(run.experiment, outcome="failed", reason=reason)
    progress = run.progress()
    step = progress[-1]["step"] if progress else 0
    return News(run.experiment, step, "done" if run.result is not None else None)


def _connect(address: str) -> Any:
    """A client of the scheduler at an address."""
    try:
        import dask
        from distributed import Client
    except ImportError:
        raise PersistorError(
            'Dask is not installed: pip install "persistor[cluster]", here and on the workers'
        ) from None
    # The files of a run are a few megabytes; Dask need not warn about them.
    dask.config.set({"distributed.admin.large-graph-warning-threshold": "4GB"})
    try:
        # A client that cannot connect prints another error at exit, so try the address first.
        url = urllib.parse.urlsplit(address if "://" in address else f"tcp://{address}")
        socket.create_connection((url.hostname, url.port or PORT), ANSWER).close()
        return Client(address, timeout=ANSWER, set_as_default=False)
    except (OSError, ValueError) as error:
        raise PersistorError(
            f"no Dask scheduler answers at {address!r} ({error}); start one with `dask scheduler` "
            "and give its address, such as tcp://10.0.0.1:8786"
        ) from None
