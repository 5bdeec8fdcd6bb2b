"""`persistor list | doctor | bench | demo | completion`: what there is, and how it runs here."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from persistor._tools.errors import PersistorError, unknown
from persistor.cli.shared import Json, Runs, StopOnSignal, open_in_browser


@dataclass(frozen=True)
class List:
    """List the cells, the tasks with the paper's budgets, the architectures, and your runs."""

    runs: Runs = None
    json: Json = False

    def run(self) -> int:
        """List everything."""
        from persistor.cells import CELLS
        from persistor.model import ARCHITECTURES
        from persistor.paper.budgets import budget
        from persistor.reproduction.archive import RUNS, Archive
        from persistor.tasks import TASKS
        from persistor.training import Run, runs_folder

        cells = {name: (kind.__doc__ or "").split("\n")[0] for name, kind in CELLS.items()}
        tasks = {
            name: {"summary": kind.summary, "steps": budget(name).steps}
            for name, kind in TASKS.items()
        }
        readings = {name: value.to_json() for name, value in ARCHITECTURES.items()}
        folder = runs_folder(self.runs)
        runs, damaged = {}, {}
        for path in sorted(description.parent for description in folder.glob("*/experiment.json")):
            try:
                runs[path.name] = (Run.open(path).result or {}).get("test")
            except PersistorError as error:
                damaged[path.name] = str(error)
        archived, unread = Archive(folder).read()
        runs |= {record.name: record.result.get("test") for record in archived}
        runs = dict(sorted(runs.items()))
        damaged |= {RUNS: "; ".join(unread)} if unread else {}
        if self.json:
            known = {"cells": cells, "tasks": tasks, "architectures": readings}
            print(json.dumps({**known, "runs": runs, "damaged": damaged}))
            return 0
        print("cells")
        for name, text in cells.items():
            print(f"  {name:20} {text}")
        print("tasks")
        for name, facts in tasks.items():
            print(f"  {name:20} {facts['summary']} ({facts['steps']:,} steps)")
        print("architectures")
        for name, points in readings.items():
            changes = " ".join(f"{key}={value}" for key, value in points.items())
            print(f"  {name:20} {changes or 'our reading of the paper; the default'}")
        print(f"runs in {folder}")
        for name, test in runs.items():
            outcome = (
                "unfinished" if test is None else " ".join(f"{k} {v:.4f}" for k, v in test.items())
            )
            print(f"  {name}  {outcome}")
        for name, reason in damaged.items():
            print(f"  {name}  damaged: {reason}")
        if not runs:
            print("  none yet: persistor train parity --epsilon -1 --steps 1500")
        return 0


@dataclass(frozen=True)
class Demo:
    """See in about a minute what persistent memory can do and fading memory cannot.

    The demo trains CMRU, LRU and minGRU on parity, and alphaCMRU and LRU on copy-first, for a small
    share of the paper's steps. It prints the test accuracies beside the paper's, and opens a page
    with accuracy by length, the states inside the models, and a playground. If it is stopped,
    the same command continues.
    """

    folder: Annotated[Path, arg(help="Folder for the runs and the page.")] = Path("demo")
    open: Annotated[
        bool, arg(help="Open the page in a browser at the end, if there is a display.")
    ] = True
    json: Json = False

    def run(self) -> int:
        """Train, print, write the page, open it."""
        from persistor.report import demo

        say = (lambda text: None) if self.json else (lambda text: print(text, flush=True))
        planned, runs = demo.experiments(), self.folder / "runs"
        say("Six small models, one seed. The paper: full budget, mean [min; max] of five seeds.")
        failures, stopped = self._train(planned, runs)
        rows = demo.finished(runs, planned)
        say(f"{'test accuracy':34} {'ours':>8}   {'paper':26}  our budget")
        for row in rows:
            say(str(row))
        for name, reason in failures.items():
            print(f"failed: {name}: {reason}", file=sys.stderr)
        if stopped is not None:
            print("stopped; run the same command again to continue", file=sys.stderr)
            return stopped
        if failures:
            return 1
        page = (self.folder / demo.PAGE).resolve()
        demo.demo_page(rows, page)
        commands = demo.next_commands(rows)
        if self.json:
            results = [
                {"what": r.planned.what, "accuracy": r.ours, "paper": r.planned.paper} for r in rows
            ]
            print(
                json.dumps({"rows": results, "page": str(page), "next": [c for c, _ in commands]})
            )
            return 0
        say("next:")
        for command, why in commands:
            say(f"  {command:64}  {why}")
        opened = self.open and open_in_browser(page)
        say(f"{'opened' if opened else 'open in a browser:'} {page.as_uri()}")
        return 0

    def _train(self, planned: Any, runs: Path) -> tuple[dict[str, str], int | None]:
        """Train what is missing: why runs failed, by run, and the exit status if stopped."""
        from persistor._tools.progress import SweepWatcher
        from persistor.report.demo import train_all

        steps = {p.experiment.name: p.experiment.training for p in planned}
        weights = {name: float(spec.steps) for name, spec in steps.items()}
        with StopOnSignal() as stop, SweepWatcher(weights) as watcher:

            def hear(news: Any) -> None:
                name = news.experiment.name
                if news.outcome is None:
                    spec = steps[name]
                    watcher.step(name, news.step, spec.steps, spec.evaluate_every)
                else:
                    watcher.end(name, news.outcome)

            failures = train_all(runs, planned, hear, stop.asked)
        return failures, stop.status if stop.asked() else None


@dataclass(frozen=True)
class Doctor:
    """Show which engine computes on this machine and why, with versions and processors."""

    json: Json = False

    def run(self) -> int:
        """Examine the machine and print each finding on its own line."""
        from persistor.kernels.doctor import examine

        findings = examine()
        if self.json:
            print(json.dumps(findings))
            return 0
        for name, finding in findings.items():
            print(f"{name:10} {finding}")
        return 0


@dataclass(frozen=True)
class Bench:
    """Measure how fast persistor is on this machine, compared with other implementations.

    The contenders of a row take turns in one process. The ratio is their time over persistor's
    time, so above 1 means that persistor is faster. The sections are: a, a training step against a
    straightforward JAX version; b, the recurrence alone; c, layers of other packages (`pip install
    persistor[bench]`); d, growth with the sequence length; e, a deep stack; f, one step of a
    stream; g, the start-up time; h, loading a batch of every task; i, what is computed once because
    it is the same; j, a step of a tiny model in exported C, in JAX and in ONNX Runtime; k, a batch
    through a model without a gradient, in ONNX Runtime and PyTorch too.
    """

    only: Annotated[
        tuple[str, ...],
        arg(help="Sections to run, by letter.", help_behavior_hint="(default: all, a to k)"),
    ] = ()
    quick: Annotated[
        bool, arg(help="Run small sizes once. This tests the benchmark; ignore the numbers.")
    ] = False
    json: Json = False

    def run(self) -> int:
        """Measure, and print each row as soon as it is known."""
        from persistor.bench.measure import FULL, HEADING, QUICK, machine
        from persistor.bench.suite import SECTIONS

        for name in self.only:
            if name not in SECTIONS:
                raise unknown("section", name, SECTIONS)
        say = (lambda text: None) if self.json else (lambda text: print(text, flush=True))
        facts, rows = machine(), []
        say(", ".join(f"{name} {fact}" for name, fact in facts.items()))
        if facts["load"] > facts["cores"]:
            busy = f"{facts['load']:g} processes want {facts['cores']} cores"
            print(f"this machine is busy ({busy}): do not trust these ratios", file=sys.stderr)
        say(HEADING)
        for name in self.only or tuple(SECTIONS):
            for row in SECTIONS[name](QUICK if self.quick else FULL):
                rows.append(row.to_json())
                say(str(row))
        if self.json:
            print(json.dumps({"machine": facts, "quick": self.quick, "rows": rows}))
        return 0


@dataclass(frozen=True)
class Completion:
    """Print a script that lets a shell complete commands and options with the Tab key.

    For example:

      persistor completion bash > ~/.local/share/bash-completion/completions/persistor
      persistor completion zsh > ~/.zfunc/_persistor
      persistor completion fish > ~/.config/fish/completions/persistor.fish
    """

    shell: Annotated[Positional[Literal["bash", "zsh", "fish"]], arg(help="The shell.")]

    def run(self) -> int:
        """Print the script."""
        from persistor.cli import parse

        return parse(["--tyro-write-completion", self.shell, "-"])
