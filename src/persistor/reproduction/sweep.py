"""Many runs in several processes of one machine. If one fails or all are stopped, none is lost.

Every worker is a separate process (`persistor.reproduction.worker`) with its share of the
processors. When its input ends, because this process stopped or was killed, it saves its run and
exits.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import queue
import signal
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

PATIENCE = 0.2  # seconds between two checks of whether to stop


@dataclass(frozen=True)
class News:
    """What a worker reports of a run: the step it has reached, or how it ended."""

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
    """Train experiments in a folder. Returns the reasons of those that failed, by run.

    If asked to stop, it returns once the current runs are saved.
    """
    if workers < 1:
        raise PersistorError(f"workers is {workers}; it must be at least 1")
    pending = collections.deque(experiments)
    reports: queue.SimpleQueue[News | None] = queue.SimpleQueue()
    count = min(workers, len(pending))
    crew = [Worker(folder, max(1, processors() // count), pending, reports) for _ in range(count)]
    failures, stopped, working, stopping = {}, {}, count, False
    try:
        while working:
            if not stopping and should_stop():
                stopping = True
                pending.clear()
                for worker in crew:
                    worker.dismiss()
            try:
                news = reports.get(timeout=PATIENCE)
            except queue.Empty:
                continue
            if news is None:
                working -= 1
                continue
            if news.outcome == "failed":
                failures[news.experiment.name] = news.reason
            elif news.outcome == "stopped":
                stopped[news.experiment.name] = "its process was told to stop"
            watch(news)
    finally:
        pending.clear()
        for worker in crew:
            worker.kill()
    return failures if stopping or should_stop() else failures | stopped


class Worker:
    """A process that trains, and a thread that sends it runs and reads its reports."""

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
        """Ask the process to save its run and exit."""
        self.dismissed = True
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()

    def kill(self) -> None:
        """End the process at once; its run can be resumed from its last checkpoint."""
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
            self._release()
            self.log.close()
            self.news.put(None)

    def _release(self) -> None:
        """Close the input of the process, and wait until it exits."""
        if self.process is not None and self.process.stdin and self.process.stdout:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
            self.process.wait()
            self.process.stdout.close()

    def _follow(self, experiment: Experiment) -> News:
        """Send a run to the process, and return how it ended."""
        process = self._ready()
        assert process.stdin is not None
        assert process.stdout is not None
        # If the process has died or been dismissed in the meantime, its output ends at once.
        with contextlib.suppress(BrokenPipeError, ValueError):
            if not self.dismissed:
                process.stdin.write(json.dumps(experiment.to_json()) + "\n")
                process.stdin.flush()
        if self.dismissed:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        for line in process.stdout:
            report: dict[str, Any] = json.loads(line)
            if "outcome" in report:
                if report["outcome"] == "stopped":
                    process.wait()  # it exits, so that the next run needs a new one
                return News(experiment, **report)
            self.news.put(News(experiment, step=report["step"]))
        process.wait()
        dismissed = self.dismissed and process.returncode == 0
        if dismissed or process.returncode == -signal.SIGTERM:  # it may come before it can be heard
            return News(experiment, outcome="stopped")
        return News(experiment, outcome="failed", reason=self._death(process.returncode))

    def _ready(self) -> subprocess.Popen[str]:
        """The process, or a new one if the last run killed it."""
        if self.process is None or self.process.poll() is not None:
            self._release()
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.log,
                text=True,
                env=self.environment,
                start_new_session=True,  # so that Ctrl-C reaches only this process
            )
        return self.process

    def _death(self, status: int) -> str:
        """Why the process died, as far as we can tell."""
        self.log.seek(0)
        logged = self.log.read().strip().splitlines()
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        memory = " (out of memory?)" if status == -9 else ""
        return f"its process {how}{memory}" + (f": {logged[-1]}" if logged else "")
