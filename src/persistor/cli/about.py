"""`persistor list | doctor | bench | demo | completion`: what there is, and how it runs here."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from persistor._tools.errors import PersistorError, unknown
from persistor.cli.shared import Json, Runs


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
    """See in a few minutes what persistent memory can do and fading memory cannot.

    The demo trains CMRU, LRU and minGRU on parity, and alphaCMRU and minGRU on copy-first. It
    prints the test accuracies beside the paper's, and draws two pictures: accuracy against length,
    and a state trajectory.
    """

    folder: Annotated[Path, arg(help="Folder for the runs and the pictures.")] = Path("demo")
    json: Json = False

    def run(self) -> int:
        """Train, print, draw."""
        from persistor._tools.files import writing
        from persistor._tools.progress import Watcher
        from persistor.report import demo

        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        say = (lambda text: None) if self.json else (lambda text: print(text, flush=True))
        say(
            f"Parity with one unit: {demo.PARITY_STEPS:,} steps, "
            "one seed; the paper: full budget, mean [min; max] of five seeds."
        )
        say(f"{'test accuracy':34} {'ours':>8}   paper")
        rows = demo.run_demo(self.folder, Watcher, say)
        pictures = [str(self.folder / name) for name in demo.PICTURES]
        if self.json:
            results = [{"what": r.what, "accuracy": r.ours, "paper": r.paper} for r in rows]
            print(json.dumps({"rows": results, "pictures": pictures}))
        say("pictures: " + ", ".join(pictures))
        return 0


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
    it is the same; j, a step of a tiny model in exported C, in JAX and in ONNX Runtime.
    """

    only: Annotated[
        tuple[str, ...],
        arg(help="Sections to run, by letter.", help_behavior_hint="(default: all, a to j)"),
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
