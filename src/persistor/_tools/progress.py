"""Progress for the user: a bar on a terminal, and a line from time to time elsewhere.

Everything goes to standard error, so that standard output holds only results.
"""

from __future__ import annotations

import sys
import time
from typing import Protocol, runtime_checkable

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


@runtime_checkable
class RunProgress(Protocol):
    """What a training run reports after every evaluation."""

    @property
    def step(self) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def loss(self) -> float: ...
    @property
    def metric(self) -> float: ...
    @property
    def best(self) -> float | None: ...
    @property
    def seconds(self) -> float: ...


QUIET_SECONDS = 30.0  # between lines when the output is not a terminal


class Watcher:
    """Shows the progress of one training run."""

    def __init__(self, run: str, metric: str, steps: int):
        self.metric, self.total, self.name = metric, steps, without_hash(run)
        self.console = Console(stderr=True)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
            TextColumn("{task.fields[text]}"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self.said = time.monotonic()
        self.task = None
        self.before: RunProgress | None = None

    def __enter__(self) -> Watcher:
        self.bar.start()
        self.task = self.bar.add_task(self.name, total=self.total, text="compiling")
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def update(self, report: RunProgress) -> None:
        """Show how far the run has come."""
        before = self.before
        steps = report.step - (before.step if before else 0)
        seconds = report.seconds - (before.seconds if before else 0.0)
        speed = f"{steps / seconds:.0f}/s" if seconds > 0 else ""
        self.before = report
        best = f" best {report.best:.4f}" if report.best is not None else ""
        text = f"loss {report.loss:.4f} {self.metric} {report.metric:.4f}{best} {speed}"
        if self.task is not None and self.console.is_terminal:
            self.bar.update(self.task, completed=report.step, text=text)
        elif time.monotonic() - self.said > QUIET_SECONDS:
            self.said = time.monotonic()
            print(
                f"{self.name} step {report.step:,}/{report.steps:,} {text}",
                file=sys.stderr,
                flush=True,
            )


class SweepWatcher:
    """Shows the progress of many runs: how many are done, which one reported, and the time left.

    `weights` says how long each run takes, by name, in any unit. A run that was started earlier
    counts only from the step where it resumed.
    """

    def __init__(self, weights: dict[str, float]):
        self.weights = weights
        self.console = Console(stderr=True)
        self.bar = Progress(
            TextColumn("{task.fields[count]}"),
            BarColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.fields[text]}"),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self.task = self.bar.add_task("", total=1.0, count="", left="", text="compiling")
        self.began = self.said = time.monotonic()
        self.reached: dict[str, float] = {}  # share of each run under way
        self.skipped = 0.0  # weight of the steps that were done earlier
        self.ended: dict[str, str] = {}

    def __enter__(self) -> SweepWatcher:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def step(self, run: str, step: int, steps: int, interval: int) -> None:
        """Note that a run has reached a step; runs report after every interval."""
        if run not in self.reached:
            self.skipped += self.weights[run] * max(0, step - interval) / steps
        self.reached[run] = step / steps
        self._show(f"{without_hash(run)} {step:,}/{steps:,}")

    def end(self, run: str, outcome: str) -> None:
        """Note that a run has ended."""
        self.ended[run] = outcome
        self._show(f"{without_hash(run)} {outcome}")

    def share(self) -> float:
        """The fraction of all the work that is done."""
        done = sum(
            weight * (1.0 if name in self.ended else self.reached.get(name, 0.0))
            for name, weight in self.weights.items()
        )
        return done / sum(self.weights.values())

    def seconds_left(self) -> float | None:
        """The time left at the pace so far."""
        share, skipped = self.share(), self.skipped / sum(self.weights.values())
        if share <= skipped:
            return None
        return (time.monotonic() - self.began) * (1 - share) / (share - skipped)

    def _show(self, text: str) -> None:
        left = self.seconds_left()
        remaining = "" if left is None else f"{duration(left)} left"
        count = f"{len(self.ended)}/{len(self.weights)} runs"
        self.bar.update(self.task, completed=self.share(), count=count, left=remaining, text=text)
        if not self.console.is_terminal and time.monotonic() - self.said > QUIET_SECONDS:
            self.said = time.monotonic()
            print(f"{count}, {remaining}; {text}", file=sys.stderr, flush=True)


def without_hash(run: str) -> str:
    """The readable part of a run's name."""
    return run.rsplit("-", 1)[0]


def duration(seconds: float) -> str:
    """A time in the largest unit that fits."""
    for size, name in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"


class Counter:
    """Shows the progress of a count; it is called with (done, total)."""

    def __init__(self, name: str):
        self.console = Console(stderr=True)
        self.bar = Progress(
            console=self.console, transient=True, disable=not self.console.is_terminal
        )
        self.task = self.bar.add_task(name, total=None)

    def __enter__(self) -> Counter:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def __call__(self, done: int, total: int) -> None:
        """Show how far it has come."""
        self.bar.update(self.task, completed=done, total=total)
