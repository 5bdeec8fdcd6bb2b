"""What a person sees while something runs: a bar on a terminal, now and then a line elsewhere.

Everything goes to standard error, so that standard output holds results alone.
"""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from persistor.experiment import Experiment
from persistor.training.loop import Progress as Leg

QUIET_SECONDS = 30.0  # between lines when nobody watches a terminal


class Watcher:
    """Follows a training run."""

    def __init__(self, experiment: Experiment):
        self.metric = experiment.task.objective.metric
        self.total = experiment.training.steps
        self.name = experiment.name.rsplit("-", 1)[0]
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
        self.before: Leg | None = None

    def __enter__(self) -> Watcher:
        self.bar.start()
        self.task = self.bar.add_task(self.name, total=self.total, text="compiling")
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def update(self, leg: Leg) -> None:
        """Show how far the run has come."""
        before = self.before
        steps = leg.step - (before.step if before else 0)
        seconds = leg.seconds - (before.seconds if before else 0.0)
        speed = f"{steps / seconds:.0f}/s" if seconds > 0 else ""
        self.before = leg
        best = f" best {leg.best:.4f}" if leg.best is not None else ""
        text = f"loss {leg.loss:.4f} {self.metric} {leg.metric:.4f}{best} {speed}"
        if self.task is not None and self.console.is_terminal:
            self.bar.update(self.task, completed=leg.step, text=text)
        elif time.monotonic() - self.said > QUIET_SECONDS:
            self.said = time.monotonic()
            print(
                f"{self.name} step {leg.step:,}/{leg.steps:,} {text}", file=sys.stderr, flush=True
            )


class Counter:
    """Follows something that counts up to a total; called with (done, total)."""

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
