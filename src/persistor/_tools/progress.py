"""Progress for the user: a bar on a terminal, and a line from time to time elsewhere.

Everything goes to standard error, so that standard output holds only results.
"""

from __future__ import annotations

import sys
import time
from typing import Protocol, runtime_checkable

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text


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


class Log:
    """Lines on standard error that is no terminal, each some time after the one before."""

    def __init__(self):
        self.said = time.monotonic()

    def say(self, line: str) -> None:
        """Print a line, unless one was printed a moment ago."""
        if time.monotonic() - self.said > QUIET_SECONDS:
            self.said = time.monotonic()
            print(line, file=sys.stderr, flush=True)


def _prints_above() -> bool:
    """Whether rich may show what is printed above its bar: not if a file or a pipe waits for it."""
    return sys.stdout.isatty()


class Display:
    """On a terminal: a line with a bar and a text, and a line below. Elsewhere: nothing.

    The text keeps its width and the bar takes what is left of the line.
    """

    def __init__(self, below: str = ""):
        self.console = Console(stderr=True)
        self.bar = Progress(
            BarColumn(bar_width=None), TextColumn("{task.fields[text]}"), expand=True
        )
        self.task = self.bar.add_task("", total=1.0, text="compiling")
        self.below = Text(below, no_wrap=True, overflow="ellipsis")
        self.live = Live(
            Group(self.bar, self.below),
            console=self.console,
            transient=True,
            redirect_stdout=_prints_above(),
        )
        self.log = Log()

    def __enter__(self) -> Display:
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def show(self, share: float, text: str, below: str) -> None:
        """Show which share is done, and two texts."""
        self.below.plain = below
        self.bar.update(self.task, completed=share, text=text)

    def announce(self, line: str) -> None:
        """Print a line now, above the bar if there is one."""
        self.console.print(line, highlight=False, soft_wrap=True)

    def say(self, line: str) -> None:
        """Elsewhere than on a terminal: print a line, unless one was printed a moment ago."""
        if not self.console.is_terminal:
            self.log.say(line)


class Watcher:
    """Shows the progress of one training run, and what a person may do about its length."""

    def __init__(self, run: str, metric: str, advice: str = ""):
        self.metric, self.name = metric, without_hash(run)
        self.advice = advice  # said once, with the time that the whole run takes
        self.display = Display(self.name)
        self.first: RunProgress | None = None

    def __enter__(self) -> Watcher:
        self.display.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.display.__exit__()

    def update(self, report: RunProgress) -> None:
        """Show how far the run has come."""
        step = f"{report.step:,}/{report.steps:,}"
        metric = f"{self.metric} {report.metric:.4f}"
        best = f" best {report.best:.4f}" if report.best is not None else ""
        speed = self._speed(report)
        left = (report.steps - report.step) / speed
        if self.advice and report is not self.first:
            whole = f"{report.steps:,} steps, about {duration(report.steps / speed)} here"
            self.display.announce(f"{whole}; {self.advice}")
            self.advice = ""
        pace = f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.2g}/s"
        pace = f"{pace} {duration(left)} left"
        share = report.step / report.steps
        self.display.show(share, f"{step} {metric}{best} {pace}", self.name)
        self.display.say(f"{self.name} step {step} loss {report.loss:.4f} {metric}{best} {pace}")

    def _speed(self, report: RunProgress) -> float:
        """Steps per second since the first report, whose time includes compiling."""
        first = self.first
        if first is None:
            self.first = report
            return report.step / max(report.seconds, 1e-9)
        return (report.step - first.step) / max(report.seconds - first.seconds, 1e-9)


class SweepWatcher:
    """Shows the progress of many runs: how many are done, which one reported, and the time left.

    `weights` says how long each run takes, by name, in any unit. A run that was started earlier
    counts only from the step where it resumed.
    """

    def __init__(self, weights: dict[str, float]):
        self.weights = weights
        self.display = Display()
        self.began = time.monotonic()
        self.reached: dict[str, float] = {}  # share of each run under way
        self.skipped = 0.0  # weight of the steps that were done earlier
        self.ended: dict[str, str] = {}

    def __enter__(self) -> SweepWatcher:
        self.display.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.display.__exit__()

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
        """The time left at the pace so far; None while compiling weighs most."""
        share, skipped = self.share(), self.skipped / sum(self.weights.values())
        if share - skipped < 0.005:
            return None
        return (time.monotonic() - self.began) * (1 - share) / (share - skipped)

    def _show(self, text: str) -> None:
        left = self.seconds_left()
        remaining = "" if left is None else f", {duration(left)} left"
        count = f"{len(self.ended)}/{len(self.weights)} runs{remaining}"
        self.display.show(self.share(), count, text)
        self.display.say(f"{count}; {text}")


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
        self.name, self.began, self.log = name, time.monotonic(), Log()
        self.console = Console(stderr=True)
        self.bar = Progress(
            console=self.console,
            transient=True,
            redirect_stdout=_prints_above(),
            disable=not self.console.is_terminal,
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
        if not self.console.is_terminal:
            self.log.say(f"{self.name} {done:,}{self._of(done, total)}")

    def _of(self, done: int, total: int) -> str:
        """How many there are, and how long the others take; nothing if that is not known."""
        if not done or not total:
            return ""
        left = (time.monotonic() - self.began) * (total - done) / done
        return f"/{total:,} {duration(left)} left"
