"""The command line: train, evaluate, inspect, list, doctor, demo, hardware. Thin; JAX is late."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import Positional, arg

from persistor.arguments import Json, Runs, Where, open_run
from persistor.errors import PersistorError, unknown
from persistor.hardware_commands import Hardware

DEPLOYABLE_WIDTH = 16  # a whole network of a few thousand parameters


@dataclass(frozen=True)
class Train:
    """Train a model on a task under the paper's protocol, or go on with a run that was stopped.

    The same command always means the same run: a finished one is shown, not computed again, an
    interrupted one continues where it was. Examples:

      persistor train parity --epsilon -1 --state 4 --steps 1500
      persistor train copy-first-discrete --length 1000 --cell alpha-cmru
      persistor train copy-first-noisy --cell mingru,cmru --blocks 4 --state 16
      persistor train copy-first-discrete --length 20 --deployable --state 16 --steps 4000
    """

    task: Annotated[Positional[str], arg(metavar="TASK", help="`persistor list` shows them.")]
    cell: Annotated[
        str | None,
        arg(
            help="One of `persistor list`; several with commas.",
            help_behavior_hint="(default: cmru)",
        ),
    ] = None
    deployable: Annotated[
        bool,
        arg(
            help="A model that a circuit can be: a positive CMRU, epsilon annealed to 0, no "
            "positions, and a whole network of model width 16 unless you set --width."
        ),
    ] = False
    epsilon: Annotated[
        float | None,
        arg(help="Share of the state kept in an update.", help_behavior_hint="(default: 1)"),
    ] = None
    anneal: Annotated[bool, arg(help="Take epsilon from 1 to 0 during training.")] = False
    state: Annotated[
        int | None,
        arg(help="State width d.", help_behavior_hint="(default: the paper's smallest)"),
    ] = None
    blocks: Annotated[int, arg(help="Number of blocks r.")] = 1
    width: Annotated[
        int | None, arg(help="Model width m.", help_behavior_hint="(default: 256)")
    ] = None
    encoding: Annotated[
        int | None,
        arg(
            help="Width of the positional encoding; 0 leaves positions out.",
            help_behavior_hint="(default: the model width)",
        ),
    ] = None
    dropout: Annotated[float, arg(help="Dropout rate in the MLPs.")] = 0.0
    length: Annotated[
        int | None, arg(help="Sequence length.", help_behavior_hint="(default: the task's)")
    ] = None
    steps: Annotated[
        int | None,
        arg(help="Length of the schedule.", help_behavior_hint="(default: the paper's budget)"),
    ] = None
    batch: Annotated[int, arg(help="Sequences a step.")] = 64
    seed: Annotated[int, arg(help="Decides weights and batches.")] = 0
    runs: Runs = None
    json: Json = False

    def experiment(self):
        """The experiment that these options stand for."""
        from persistor.experiment import Experiment, ModelSpec, TrainingSpec
        from persistor.tasks import TASKS

        if self.task not in TASKS:
            raise unknown("task", self.task, TASKS)
        kind = TASKS[self.task]
        if self.length is None:
            task = kind()
        elif hasattr(kind, "length"):
            task = kind(length=self.length)  # pyright: ignore[reportCallIssue]
        else:
            raise PersistorError(f"{self.task} has no single length; leave --length out")
        if self.deployable and (self.cell or self.encoding or self.epsilon or self.anneal):
            raise PersistorError(
                "--deployable chooses cell, encoding and epsilon itself; leave those options out"
            )
        usual = DEPLOYABLE_WIDTH if self.deployable else 256
        width = usual if self.width is None else self.width
        encoding = 0 if self.deployable else width if self.encoding is None else self.encoding
        cells = "positive-cmru" if self.deployable else self.cell or "cmru"
        model = ModelSpec(
            cells=tuple(cells.split(",")),
            state=task.state if self.state is None else self.state,
            blocks=self.blocks,
            width=width,
            encoding=encoding,
            epsilon=self.epsilon,
            dropout=self.dropout,
        )
        steps = task.steps if self.steps is None else self.steps
        anneal = self.anneal or self.deployable
        training = TrainingSpec(steps=steps, anneal=anneal, batch=self.batch)
        return Experiment(task, model, training, self.seed)

    def run(self) -> int:
        """Train, and print the outcome."""
        experiment = self.experiment()
        from persistor.progress import Watcher
        from persistor.training import Run, runs_folder, train

        run = Run.create(experiment, runs_folder(self.runs))
        stop = StopOnInterrupt()
        with Watcher(experiment) as watcher:
            result = train(run, watch=watcher.update, should_stop=stop.asked)
        if result is None:
            again = "run the same command again to go on"
            print(f"stopped; {run.path} is saved: {again}", file=sys.stderr)
            return 130
        metric, value = next(iter(result["test"].items()))
        budget = "" if result["budget"] == "full" else f" of the paper's {result['paper_steps']:,}"
        self._print(
            result,
            f"test {metric} {value:.4f} after {result['steps']:,} steps{budget} "
            f"in {result['seconds']:.0f} s\n{run.path}",
        )
        return 0

    def _print(self, result: dict[str, Any], text: str) -> None:
        print(json.dumps(result) if self.json else text)


@dataclass(frozen=True)
class Evaluate:
    """Test a trained run again: on its own test set, or on sequences of other lengths.

    Example: persistor evaluate runs/NAME --lengths 1000 10000 100000
    """

    run_folder: Where
    lengths: Annotated[tuple[int, ...], arg(help="Sequence lengths to test on.")] = ()
    runs: Runs = None
    json: Json = False

    def run(self) -> int:
        """Evaluate, and print a line a length."""
        run = open_run(self.run_folder, self.runs)
        from persistor.progress import Counter
        from persistor.training import evaluate, load_best

        own = run.experiment.task
        tasks = [own.with_length(length) for length in self.lengths] or [own]
        model = load_best(run)
        metric = own.objective.metric
        results = []
        for length, task in zip(self.lengths or (None,), tasks, strict=True):
            with Counter("its own test set" if length is None else f"length {length:,}") as count:
                value = evaluate(model, task.split("test"), own.objective, report=count)
            results.append({"length": length, metric: value})
            if not self.json:
                name = "test set" if length is None else f"{length:,}"
                print(f"{name:>12}  {metric} {value:.4f}", flush=True)
        if self.json:
            print(json.dumps({"run": run.path.name, "results": results}))
        return 0


@dataclass(frozen=True)
class Inspect:
    """Look inside a trained run: when units update, the levels they visit, how gradients flow.

    Prints a line a unit and draws a picture. `keeps` means that nothing after the first step
    touches the unit; `counts` that it goes on adding; `forgets` and `fades` that the past is lost.
    """

    run_folder: Where
    length: Annotated[
        int | None, arg(help="Sequence length.", help_behavior_hint="(default: the task's)")
    ] = None
    examples: Annotated[int, arg(help="Sequences to look at.")] = 64
    picture: Annotated[
        Path | None,
        arg(help="Where to draw.", help_behavior_hint="(default: inspect.png in the run)"),
    ] = None
    runs: Runs = None
    json: Json = False

    def run(self) -> int:
        """Inspect, print and draw."""
        run = open_run(self.run_folder, self.runs)
        from persistor import inspection
        from persistor.training import load_best
        from persistor.training.checkpoint import writing

        if self.examples < 1:
            raise PersistorError(f"examples is {self.examples}; it must be at least 1")
        task = run.experiment.task
        task = task if self.length is None else task.with_length(self.length)
        batch = inspection.first_batch(task.split("test"), self.examples)
        traces, reports = inspection.look(load_best(run), batch)
        path = self.picture or run.path / "inspect.png"
        with writing(path.parent):
            inspection.draw(traces, run.path.name, path)
        if self.json:
            units = inspection.as_json(reports)
            print(json.dumps({"run": run.path.name, "units": units, "picture": str(path)}))
            return 0
        print("block unit  verdict  retains  after first  net count  levels       states  gradient")
        for r in reports:
            print(
                f"{r.block:5} {r.unit:4}  {r.verdict:7}  {r.retains:7.2%}  "
                f"{r.retains_after_first:11.2%}  {r.count:9.1f}  {r.levels:6}  "
                f"{r.lowest:5.1f}..{r.highest:<5.1f}  {r.flow:8.1e}"
            )
        print(f"picture: {path}")
        return 0


@dataclass(frozen=True)
class List:
    """Show the cells, the tasks with the paper's budgets, and your runs."""

    runs: Runs = None
    json: Json = False

    def run(self) -> int:
        """List everything."""
        from persistor.cells import CELLS
        from persistor.tasks import TASKS
        from persistor.training import all_runs, runs_folder

        cells = {name: (kind.__doc__ or "").split("\n")[0] for name, kind in CELLS.items()}
        tasks = {name: {"summary": t.summary, "steps": t.steps} for name, t in TASKS.items()}
        folder = runs_folder(self.runs)
        runs = {run.path.name: (run.result or {}).get("test") for run in all_runs(folder)}
        if self.json:
            print(json.dumps({"cells": cells, "tasks": tasks, "runs": runs}))
            return 0
        print("cells")
        for name, text in cells.items():
            print(f"  {name:20} {text}")
        print("tasks")
        for name, facts in tasks.items():
            print(f"  {name:20} {facts['summary']} ({facts['steps']:,} steps)")
        print(f"runs in {folder}")
        for name, test in runs.items():
            outcome = (
                "unfinished" if test is None else " ".join(f"{k} {v:.4f}" for k, v in test.items())
            )
            print(f"  {name}  {outcome}")
        if not runs:
            print("  none yet: persistor train parity --epsilon -1 --state 4 --steps 1500")
        return 0


@dataclass(frozen=True)
class Demo:
    """See in a few minutes what persistent memory does that fading memory cannot.

    Trains CMRU, LRU and minGRU on parity, alphaCMRU and minGRU on copy-first, prints the test
    accuracies beside the paper's, and draws accuracy against length and a state trajectory.
    """

    folder: Annotated[Path, arg(help="Where to put runs and pictures.")] = Path("demo")
    json: Json = False

    def run(self) -> int:
        """Train, print, draw."""
        from persistor import demo
        from persistor.progress import Watcher
        from persistor.training.checkpoint import writing

        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        say = (lambda text: None) if self.json else (lambda text: print(text, flush=True))
        say(
            f"Parity with {demo.PARITY_STATE} units and a short budget, one seed; "
            "the paper: one unit, full budget, mean [min; max] of five seeds."
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
    """Say what computes here: the engine and why it, versions, processors."""

    json: Json = False

    def run(self) -> int:
        """Examine, and print a line a finding."""
        from persistor.doctor import examine

        findings = examine()
        if self.json:
            print(json.dumps(findings))
            return 0
        for name, finding in findings.items():
            print(f"{name:10} {finding}")
        return 0


class StopOnInterrupt:
    """The first Ctrl-C asks to stop at the next safe point; the second stops at once."""

    def __init__(self):
        self._asked = False
        signal.signal(signal.SIGINT, self._hear)

    def _hear(self, *_: Any) -> None:
        self._asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print("stopping after this leg; press Ctrl-C again to stop at once", file=sys.stderr)

    def asked(self) -> bool:
        """Whether somebody has asked."""
        return self._asked


COMMANDS = {
    "train": Train,
    "evaluate": Evaluate,
    "inspect": Inspect,
    "list": List,
    "doctor": Doctor,
    "demo": Demo,
    "hardware": Hardware,
}


def main(arguments: list[str] | None = None) -> None:
    """Run a command; a person's mistake is one line and exit status 2."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    command = tyro.extras.subcommand_cli_from_dict(
        COMMANDS,
        prog="persistor",
        description="Recurrent networks with persistent memory.",
        args=arguments,
    )
    try:
        status = command.run()
    except PersistorError as error:
        print(f"persistor: {error}", file=sys.stderr)
        status = 2
    except KeyboardInterrupt:
        status = 130
    except BrokenPipeError:
        status = 1
    sys.exit(status)


if __name__ == "__main__":
    main()
