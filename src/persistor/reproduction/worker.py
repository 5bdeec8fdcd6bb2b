"""A process that trains the runs it is sent, one after the other, until its input ends.

A line on standard input is an experiment; lines on standard output report its progress. When the
input ends, because the parent process stopped or died, or SIGTERM comes, the worker saves its run
and exits.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from persistor._tools.errors import PersistorError
from persistor._tools.machine import keep_freed_memory


def main() -> None:
    """Train until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent process
    keep_freed_memory()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # other prints go to standard error, so that they do not mix with the answers
    orders: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    ended = threading.Event()

    def stop(*_: Any) -> None:
        ended.set()
        orders.put(None)

    signal.signal(signal.SIGTERM, stop)  # a scheduler may send it to every process of a job

    def listen() -> None:
        for line in sys.stdin:
            orders.put(line)
        stop()

    def answer(**news: Any) -> None:
        try:
            print(json.dumps(news), file=answers)
        except BrokenPipeError:
            ended.set()

    threading.Thread(target=listen, daemon=True).start()
    while (order := orders.get()) is not None:
        try:
            result = _train(json.loads(order), Path(sys.argv[1]), answer, ended.is_set)
            answer(outcome="stopped" if result is None else "done")
        except PersistorError as error:
            answer(outcome="failed", reason=str(error))
        except Exception as error:
            traceback.print_exc()
            answer(outcome="failed", reason=_missing() or f"{type(error).__name__}: {error}")


def _missing() -> str | None:
    from persistor.kernels.doctor import missing_backend

    return missing_backend()


def _train(description: dict[str, Any], folder: Path, answer: Any, should_stop: Any) -> Any:
    from persistor.experiment import Experiment
    from persistor.training import Run, train

    run = Run.create(Experiment.from_json(description), folder)
    return train(run, watch=lambda progress: answer(step=progress.step), should_stop=should_stop)


if __name__ == "__main__":
    main()
