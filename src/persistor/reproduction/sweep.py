"""Many runs on the processes of one machine: none is lost when one fails, or when all are stopped.

Every worker is a process of its own (`persistor.reproduction.worker`) with its share of the
processors. It lives on its input: if this process stops, or is killed, the workers save their runs
and go.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from persistor._tools.errors import PersistorError
from persistor._tools.machine import processors
from persistor.experiment import Experiment

PATIENCE = 0.2  # seconds between two looks at whether to stop


@dataclass(frozen=True)
class News:
    """What a worker says of a run: a step that it has reached, or how it ended."""

    experiment: Experiment
    step: int = 0
    outcome: str | None = None  # done, stopped or failed
    reason: str = ""


def sweep(
    experiments: Sequence[Experiment],
    folder: Path,
    *,
    workers: int = 1,
    watch: Callable[[News], None] = lambda news: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[str, str]:
    """Train the experiments below a folder; the reasons of those that failed, by run.

    Asked to stop, it returns once the runs under way are saved.
    """
    if workers < 1:
        raise PersistorError(f"workers is {workers}; it must be at least 1")
    pending = collections.deque(experiments)
    news: queue.SimpleQueue[News | None] = queue.SimpleQueue()
    count = min(workers, len(pending))
    crew = [Worker(folder, max(1, processors() // count), pending, news) for _ in range(count)]
    failures, working, stopping = {}, count, False
    try:
        while working:
            if not stopping and should_stop():
                stopping = True
                pending.clear()
                for worker in crew:
                    worker.dismiss()
            try:
                heard = news.get(timeout=PATIENCE)
            except queue.Empty:
                continue
            if heard is None:
                working -= 1
                continue
            if heard.outcome == "failed":
                failures[heard.experiment.name] = heard.reason
            watch(heard)
    finally:
        pending.clear()
        for worker in crew:
            worker.kill()
    return failures


class Worker:
    """A process that trains, and a thread that hands it runs and hears its news."""

    def __init__(
        self,
        folder: Path,
        threads: int,
        pending: collections.deque[Experiment],
        news: queue.SimpleQueue[News | None],
    ):
        self.command = [sys.executable, "-m", "persistor.reproduction.worker", str(folder)]
        share = str(threads)  # of XLA's pool, and of the native kernels
        self.environment = {**os.environ, "NPROC": share, "PERSISTOR_THREADS": share}
        self.pending, self.news = pending, news
        self.process: subprocess.Popen[str] | None = None
        self.log: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by the thread)
        self.dismissed = False
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def dismiss(self) -> None:
        """Ask it to save its run and go."""
        self.dismissed = True
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()

    def kill(self) -> None:
        """End it at once; the run goes on from its last checkpoint another time."""
        self.dismissed = True
        if self.process is not None:
            self.process.kill()
        self.thread.join()

    def _work(self) -> None:
        try:
            while self.pending and not self.dismissed:
                try:
                    experiment = self.pending.popleft()
                except IndexError:  # another worker was quicker
                    break
                self.news.put(self._follow(experiment))
        finally:
            self._part()
            self.log.close()
            self.news.put(None)

    def _part(self) -> None:
        """Let the process go, and wait until it has gone."""
        if self.process is not None and self.process.stdin and self.process.stdout:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
            self.process.wait()
            self.process.stdout.close()

    def _follow(self, experiment: Experiment) -> News:
        """Have a run trained; how it ended."""
        process = self._ready()
        assert process.stdin is not None
        assert process.stdout is not None
        # Where it has died or been dismissed meanwhile, its output ends at once.
        with contextlib.suppress(BrokenPipeError, ValueError):
            if not self.dismissed:
                process.stdin.write(json.dumps(experiment.to_json()) + "\n")
                process.stdin.flush()
        if self.dismissed:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        for line in process.stdout:
            said: dict[str, Any] = json.loads(line)
            if "outcome" in said:
                return News(experiment, **said)
            self.news.put(News(experiment, step=said["step"]))
        process.wait()
        if self.dismissed and process.returncode == 0:
            return News(experiment, outcome="stopped")
        return News(experiment, outcome="failed", reason=self._death(process.returncode))

    def _ready(self) -> subprocess.Popen[str]:
        """The process, or a new one where it died over its last run."""
        if self.process is None or self.process.poll() is not None:
            self._part()
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.log,
                text=True,
                env=self.environment,
                start_new_session=True,  # so that Ctrl-C reaches us alone
            )
        return self.process

    def _death(self, status: int) -> str:
        """Why the process died, as far as can be told."""
        self.log.seek(0)
        said = self.log.read().strip().splitlines()
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        memory = " (out of memory?)" if status == -9 else ""
        return f"its process {how}{memory}" + (f": {said[-1]}" if said else "")
