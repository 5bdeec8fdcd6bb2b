"""Large files made in numbered parts by several processes, which can resume after an interruption.

Part i depends only on i, so neither the number of processes nor an interruption changes a byte.
"""

from __future__ import annotations

import hashlib
import itertools
import multiprocessing
import shutil
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TypeVar

from persistor._tools.errors import PersistorError
from persistor._tools.files import write_atomically, writing
from persistor._tools.machine import processors

Report = Callable[[int, int], None]  # called with (done, total)
A = TypeVar("A")
B = TypeVar("B")


def silent(done: int, total: int) -> None:
    """A report that does nothing."""


def in_order(
    work: Callable[[A], B], items: Iterable[A], processes: int | None = None
) -> Generator[B]:
    """`map(work, items)` in several processes (default: all cores), a few items ahead."""
    processes = processes or processors()
    if processes == 1:
        yield from map(work, items)
        return
    # Spawn, do not fork: JAX may be running threads in this process.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, initializer=_leave_interrupts_to_the_parent)
    items = iter(items)
    waiting: deque[Future[B]] = deque()
    try:
        for item in itertools.islice(items, 2 * processes):
            waiting.append(pool.submit(work, item))
        while waiting:
            yield waiting.popleft().result()
            for item in itertools.islice(items, 1):
                waiting.append(pool.submit(work, item))
    except BrokenProcessPool:
        raise PersistorError(
            "a process was killed, perhaps for lack of memory; run the same command again to "
            "continue"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


class Parts:
    """The parts of a file, in their own folder until the file is complete.

    `make(i)` returns part i and must be picklable. `key` names everything that decides the bytes.
    """

    def __init__(self, make: Callable[[int], bytes], folder: Path, key: str):
        self.make = make
        self.folder = folder / f".parts-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
        with writing(folder):
            self.folder.mkdir(parents=True, exist_ok=True)

    def __call__(self, index: int) -> Path:
        """The file of a part, made if it is missing."""
        path = self.folder / f"{index:06}"
        if not path.exists():
            write_atomically(path, self.make(index))
        return path

    def stream(self, processes: int | None = None) -> Generator[bytes]:
        """All parts in order, without end."""
        for path in in_order(self, itertools.count(), processes):
            yield path.read_bytes()

    def remove(self) -> None:
        """Delete the parts."""

        shutil.rmtree(self.folder, ignore_errors=True)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
