"""The command line, thin; JAX is imported late."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.conf import OmitArgPrefixes, OmitSubcommandPrefixes, Positional, arg, subcommand

from persistor.errors import PersistorError, unknown

Json = Annotated[bool, arg(help="Print exactly one JSON object, the result, on standard output.")]
Runs = Annotated[
    Path | None, arg(help="Folder of the runs.", help_behavior_hint="(default: ./runs)")
]
DataDir = Annotated[
    Path | None,
    arg(
        help="Folder of the data sets.",
        help_behavior_hint="(default: $PERSISTOR_DATA, else the cache folder)",
    ),
]
Where = Annotated[
    Positional[Path], arg(metavar="RUN", help="A run folder, or its name below the runs folder.")
]

Only = Annotated[
    tuple[str, ...],
    arg(help="Some rows alone: cell=cmru,lru epsilon=1 state=32 blocks=1 length=100 task=smnist."),
]
Format = Annotated[Literal["text", "markdown", "latex"], arg(help="How tables are printed.")]


@dataclass(frozen=True)
class Train:
    """Train a model on a task under the paper's protocol, or go on with a run that was stopped.

    The same command always means the same run: a finished one is shown, not computed again, an
    interrupted one continues where it was. Examples:

      persistor train parity --epsilon -1 --state 4 --steps 1500
      persistor train copy-first-discrete --length 1000 --cell alpha-cmru
      persistor train copy-first-noisy --cell mingru,cmru --blocks 4 --state 16
      persistor train --data sounds/ --cell cmru --state 16
    """

    task: Annotated[Positional[str], arg(metavar="TASK", help="`persistor list` shows them.")] = ""
    data: Annotated[
        Path | None,
        arg(
            help="Your own data in place of a task: an .npz file with x (N, T, F) and y, "
            "a folder of sounds by class, or a text."
        ),
    ] = None
    cell: Annotated[
        str, arg(help="bmru, cmru, alpha-cmru, lru or mingru; several with commas.")
    ] = "cmru"
    epsilon: Annotated[
        float | None,
        arg(help="Share of the state kept in an update.", help_behavior_hint="(default: 1)"),
    ] = None
    anneal: Annotated[bool, arg(help="Take epsilon from 1 to 0 during training.")] = False
    state: Annotated[
        int | None,
        arg(help="State width d.", help_behavior_hint="(default: the paper's smallest)"),
    ] = None
    blocks: Annotated[
        int | None,
        arg(help="Number of blocks r.", help_behavior_hint="(default: the paper's smallest)"),
    ] = None
    width: Annotated[int, arg(help="Model width m.")] = 256
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
    data_dir: DataDir = None
    json: Json = False

    def experiment(self):
        """The experiment that these options stand for."""
        from persistor.experiment import Experiment, ModelSpec, TrainingSpec

        task = self._task()
        model = ModelSpec(
            cells=tuple(self.cell.split(",")),
            state=task.state if self.state is None else self.state,
            blocks=task.blocks if self.blocks is None else self.blocks,
            width=self.width,
            encoding=self.width if self.encoding is None else self.encoding,
            epsilon=self.epsilon,
            dropout=self.dropout,
        )
        steps = task.steps if self.steps is None else self.steps
        training = TrainingSpec(steps=steps, anneal=self.anneal, batch=self.batch)
        return Experiment(task, model, training, self.seed)

    def _task(self):
        from persistor.tasks import TASKS, own_task

        if self.data is not None:
            if self.task:
                raise PersistorError(f"give either {self.task} or --data, not both")
            task = own_task(self.data)
            return task if self.length is None else task.with_length(self.length)
        if self.task not in TASKS:
            raise unknown("task", self.task, TASKS)
        kind = TASKS[self.task]
        if self.length is None:
            return kind()
        if hasattr(kind, "length"):
            return kind(length=self.length)  # pyright: ignore[reportCallIssue]
        raise PersistorError(f"{self.task} has no single length; leave --length out")

    def run(self) -> int:
        """Train, and print the outcome."""
        use_data_folder(self.data_dir)
        experiment = self.experiment()
        from persistor.progress import Watcher
        from persistor.training import Run, runs_folder, train

        bring_data(experiment.task.data)  # before anything is written
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
    data_dir: DataDir = None
    json: Json = False

    def run(self) -> int:
        """Evaluate, and print a line a length."""
        use_data_folder(self.data_dir)
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
    touches the unit; `counts` that it goes on adding; `flips` that updates turn its state around;
    `forgets` and `fades` that the past is lost.
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
    data_dir: DataDir = None
    json: Json = False

    def run(self) -> int:
        """Inspect, print and draw."""
        use_data_folder(self.data_dir)
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
class Sample:
    """Write text with a run that was trained to predict the next character.

    Example: persistor sample runs/NAME --prompt "ROMEO:" --count 500
    """

    run_folder: Where
    prompt: Annotated[str, arg(help="How the text begins.")] = "\n"
    count: Annotated[int, arg(help="Characters to write.")] = 500
    temperature: Annotated[float, arg(help="0 takes the likeliest; 1 is as trained.")] = 0.8
    seed: Annotated[int, arg(help="Decides what is drawn.")] = 0
    runs: Runs = None
    json: Json = False

    def run(self) -> int:
        """Write, as it comes."""
        run = open_run(self.run_folder, self.runs)
        import jax

        from persistor.sampling import sample
        from persistor.tasks.task import NextToken
        from persistor.training import load_best

        task: Any = run.experiment.task
        if not isinstance(task.objective, NextToken):
            raise PersistorError(f"{run.path.name} predicts no text; train shakespeare, say")
        stream = sample(
            load_best(run),
            task.letters,
            self.prompt,
            self.count,
            temperature=self.temperature,
            window=task.length,
            key=jax.random.key(self.seed),
        )
        if self.json:
            print(json.dumps({"run": run.path.name, "text": self.prompt + "".join(stream)}))
            return 0
        first = next(stream, "")  # so that a mistake is found before anything is printed
        print(self.prompt + first, end="", flush=True)
        for letter in stream:
            print(letter, end="", flush=True)
        print()
        return 0


Name = Annotated[Positional[str], arg(metavar="NAME", help="A data set, or a task that needs one.")]


@dataclass(frozen=True)
class DataList:
    """Show the data sets: what they are, how large, and where they lie."""

    data_dir: DataDir = None
    json: Json = False

    def run(self) -> int:
        """A line a data set."""
        use_data_folder(self.data_dir)
        from persistor.data import DATASETS, data_folder

        facts = {}
        for name, data in DATASETS.items():
            where = sorted({str(path.parent) for _, path in data.found()})
            size = sum(file.size for file in data.files)
            facts[name] = {"summary": data.summary, "bytes": size, "found": where}
        if self.json:
            print(json.dumps({"folder": str(data_folder()), "data": facts}))
            return 0
        print(f"data in {data_folder()}")
        for name, fact in facts.items():
            there = f"in {fact['found'][0]}" if fact["found"] else "not here"
            size = f", {fact['bytes'] / 1e6:,.0f} MB" if fact["bytes"] else ""
            print(f"  {name:16} {there}: {fact['summary']}{size}")
        return 0


@dataclass(frozen=True)
class DataFetch:
    """Get a data set from its publisher, or make it where it is drawn; go on where it stopped."""

    name: Name
    data_dir: DataDir = None
    json: Json = False

    def run(self) -> int:
        """Fetch, read, and say where it is."""
        use_data_folder(self.data_dir)
        return report_data(data_name(self.name), self.json)


@dataclass(frozen=True)
class DataCheck:
    """Check a data set: every checksum, and every example read."""

    name: Name
    data_dir: DataDir = None
    json: Json = False

    def run(self) -> int:
        """Refuse what is missing, and check the rest."""
        use_data_folder(self.data_dir)
        from persistor.data import DATASETS

        name = data_name(self.name)
        DATASETS[name].locate()
        return report_data(name, self.json)


@dataclass(frozen=True)
class DataShow:
    """Look at some examples of a task: a contact sheet, or text."""

    task: Annotated[Positional[str], arg(metavar="TASK", help="`persistor list` shows them.")]
    split: Annotated[str, arg(help="train, valid or test.")] = "train"
    examples: Annotated[int, arg(help="How many.")] = 16
    picture: Annotated[
        Path | None, arg(help="Where to draw.", help_behavior_hint="(default: ./TASK.png)")
    ] = None
    data_dir: DataDir = None
    json: Json = False

    def run(self) -> int:
        """Print, or draw."""
        use_data_folder(self.data_dir)
        from persistor import showing
        from persistor.files import writing
        from persistor.tasks import TASKS
        from persistor.tasks.task import SPLITS

        if self.task not in TASKS:
            raise unknown("task", self.task, TASKS)
        if self.split not in SPLITS:
            raise unknown("split", self.split, SPLITS)
        if self.examples < 1:
            raise PersistorError(f"examples is {self.examples}; it must be at least 1")
        task = TASKS[self.task]()
        bring_data(task.data)
        split = task.split(self.split)
        if hasattr(task, "letters"):
            found = showing.texts(task, split, self.examples)
            if self.json:
                print(json.dumps({"examples": [{"target": t, "text": x} for t, x in found]}))
            else:
                print("\n\n".join(f"[{target}] {text}" for target, text in found))
            return 0
        path = self.picture or Path(f"{self.task}.png")
        with writing(path.parent):
            showing.draw(task, f"{self.task}, {self.split}", split, self.examples, path)
        print(json.dumps({"picture": str(path)}) if self.json else f"picture: {path}")
        return 0


@dataclass(frozen=True)
class Data:
    """Data sets: list, fetch, check, and look at them."""

    command: Annotated[
        Annotated[DataList, subcommand("list")]
        | Annotated[DataFetch, subcommand("fetch")]
        | Annotated[DataCheck, subcommand("check")]
        | Annotated[DataShow, subcommand("show")],
        OmitSubcommandPrefixes,
        OmitArgPrefixes,
    ]

    def run(self) -> int:
        """Do what was asked."""
        return self.command.run()


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
class Reproduce:
    """Repeat tables of the paper, and see ours beside the published numbers.

    What is done already is not computed again; stopped or killed, the same command goes on. One
    run that fails does not stop the others. `persistor compare` shows results without training.
    Examples:

      persistor reproduce --list
      persistor reproduce parity --seeds 1 --budget 0.05
      persistor reproduce copy-first-noisy --only cell=cmru,lru length=100,300 --workers 4
    """

    names: Annotated[
        Positional[tuple[str, ...]], arg(metavar="TABLE", help="One or several; see --list.")
    ] = ()
    list: Annotated[
        bool, arg(help="Show the tables: runs, what is done, and the time they take here.")
    ] = False
    measure: Annotated[
        bool, arg(help="With --list: time a step of each table that was not timed here before.")
    ] = False
    seeds: Annotated[int, arg(help="Seeds of every entry, from 0.")] = 5
    budget: Annotated[str, arg(help="full, or a share of the paper's steps such as 0.05.")] = "full"
    only: Only = ()
    workers: Annotated[
        int | None,
        arg(
            help="Processes; they share the processors.",
            help_behavior_hint="(default: one for two processors)",
        ),
    ] = None
    runs: Runs = None
    format: Format = "text"
    json: Json = False

    def run(self) -> int:
        """Train what is missing, then print the comparison."""
        from persistor.training import runs_folder

        folder = runs_folder(self.runs)
        if self.list:
            return self._list(folder)
        from persistor.paper.presets import choose, plan

        chosen = choose(self.names, self.only)
        budget = share_of_steps(self.budget)
        work = plan(chosen, self.seeds, budget)
        failures, stopped = self._train(work, folder)
        show_comparisons(chosen, folder, self.format, self.json, budget=budget, seeds=self.seeds)
        for name, reason in failures.items():
            print(f"failed: {name}: {reason}", file=sys.stderr)
        if stopped:
            print("stopped; run the same command again to go on", file=sys.stderr)
            return 130
        return 1 if failures else 0

    def _train(self, work: Any, folder: Path) -> tuple[dict[str, str], bool]:
        """Train what has no outcome yet: what failed and why, and whether somebody stopped it."""
        from persistor.paper.outcomes import find_outcomes
        from persistor.paper.sweep import processors, sweep
        from persistor.progress import SweepWatcher

        done = {outcome.experiment for outcome in find_outcomes(folder)[0]}
        missing = {
            experiment: weight for experiment, weight in work.items() if experiment not in done
        }
        if not missing:
            return {}, False
        stop = StopOnInterrupt()
        workers = max(1, processors() // 2) if self.workers is None else self.workers
        with SweepWatcher({e.name: weight for e, weight in missing.items()}) as watcher:

            def hear(news: Any) -> None:
                if news.outcome is None:
                    watcher.step(news.experiment, news.step)
                else:
                    watcher.end(news.experiment, news.outcome)

            failures = sweep(
                tuple(missing), folder, workers=workers, watch=hear, should_stop=stop.asked
            )
        return failures, stop.asked()

    def _list(self, folder: Path) -> int:
        from persistor.paper.presets import survey
        from persistor.progress import Counter, duration

        with Counter("timing a step of each table") as count:
            facts = survey(folder, self.seeds, measure=self.measure, report=count)
        if self.json:
            print(json.dumps({"tables": facts}))
            return 0
        print(f"{'table':20} {'runs':>5} {'done':>5} {'reduced':>8}  {'time left':>10}  title")
        for name, fact in facts.items():
            seconds = fact["seconds"]
            left = "?" if seconds is None else duration(seconds)
            note = f"; {fact['missing']}" if fact["missing"] else ""
            print(
                f"{name:20} {fact['runs']:5} {fact['done']:5} {fact['reduced']:8}  {left:>10}  "
                f"{fact['title']}{note}"
            )
        if any(fact["seconds"] is None and not fact["missing"] for fact in facts.values()):
            print("? not timed here yet: persistor reproduce --list --measure")
        return 0


@dataclass(frozen=True)
class Compare:
    """Show ours beside the paper's numbers, from runs that are there; nothing is trained.

    Example: persistor compare parity --runs results --format markdown
    """

    names: Annotated[
        Positional[tuple[str, ...]],
        arg(
            metavar="TABLE",
            help="One or several.",
            help_behavior_hint="(default: all with a run)",
        ),
    ] = ()
    only: Only = ()
    runs: Runs = None
    format: Format = "text"
    json: Json = False

    def run(self) -> int:
        """Read, compare, print."""
        from persistor.paper.presets import choose
        from persistor.paper.tables import tables
        from persistor.training import runs_folder

        chosen = choose(self.names or tuple(tables()), self.only)
        show_comparisons(
            chosen, runs_folder(self.runs), self.format, self.json, empty=bool(self.names)
        )
        return 0


@dataclass(frozen=True)
class DrawFigure:
    """Draw figures of the paper, with ours beside it where there are runs at full budget.

    Example: persistor figure smnist copy-first --runs results
    """

    names: Annotated[
        Positional[tuple[str, ...]],
        arg(metavar="FIGURE", help="One or several.", help_behavior_hint="(default: all)"),
    ] = ()
    folder: Annotated[Path, arg(help="Where to put NAME.pdf and NAME.png.")] = Path("figures")
    runs: Runs = None
    json: Json = False

    def run(self) -> int:
        """Draw, and say where."""
        from persistor.paper.figures import FIGURES, draw
        from persistor.paper.outcomes import find_outcomes
        from persistor.training import runs_folder
        from persistor.training.checkpoint import writing

        outcomes, problems = find_outcomes(runs_folder(self.runs))
        figures = {name: draw(name, outcomes) for name in self.names or FIGURES}
        written = []
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            for name, figure in figures.items():
                for kind in ("pdf", "png"):
                    written.append(str(self.folder / f"{name}.{kind}"))
                    figure.savefig(written[-1], dpi=200)
        print(json.dumps({"figures": written}) if self.json else "\n".join(written))
        for problem in problems:
            print(problem, file=sys.stderr)
        return 0


@dataclass(frozen=True)
class Report:
    """Write one page that says how well the paper was repeated; it opens without network.

    Tables with plots, learning curves, and a playground where an input moves the cells' states.
    Example: persistor report --runs results
    """

    page: Annotated[Path, arg(help="Where to write it.")] = Path("report.html")
    runs: Runs = None
    json: Json = False

    def run(self) -> int:
        """Write the page, and say where."""
        from persistor.report.page import page
        from persistor.training import runs_folder
        from persistor.training.checkpoint import write_atomically

        write_atomically(self.page, page(runs_folder(self.runs)).encode())
        print(json.dumps({"page": str(self.page)}) if self.json else str(self.page))
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


@dataclass(frozen=True)
class Bench:
    """Measure how fast this is here: ratios, each measured in one process by turns.

    a: a training step against the straightforward JAX version; b: the recurrence alone; c: other
    people's layers (`pip install persistor[bench]`); d: growth with length; e: a deep stack; f: a
    step of a stream; g: the start. A ratio is other / ours. The whole takes about ten minutes.
    """

    only: Annotated[tuple[str, ...], arg(help="Sections to run: letters, a to g.")] = ()
    quick: Annotated[
        bool, arg(help="Small sizes, once: to see that it runs, not for its numbers.")
    ] = False
    json: Json = False

    def run(self) -> int:
        """Measure, and print a line a row as it comes."""
        from persistor.bench.measure import FULL, HEADING, QUICK, machine
        from persistor.bench.suite import SECTIONS

        for name in self.only:
            if name not in SECTIONS:
                raise unknown("section", name, SECTIONS)
        say = (lambda text: None) if self.json else (lambda text: print(text, flush=True))
        facts, rows = machine(), []
        say(", ".join(f"{name} {fact}" for name, fact in facts.items()))
        say(HEADING)
        for name in self.only or tuple(SECTIONS):
            for row in SECTIONS[name](QUICK if self.quick else FULL):
                rows.append(row.to_json())
                say(str(row))
        if self.json:
            print(json.dumps({"machine": facts, "quick": self.quick, "rows": rows}))
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


def use_data_folder(chosen: Path | None) -> None:
    """Look for data in the chosen folder; it is no part of an experiment."""
    if chosen is not None:
        os.environ["PERSISTOR_DATA"] = str(chosen)


def data_name(name: str) -> str:
    """The data set of this name, or the one that the task of this name needs."""
    from persistor.data import DATASETS

    if name in DATASETS:
        return name
    from persistor.tasks import TASKS

    needed = TASKS[name].data if name in TASKS else None
    if needed is None:
        raise unknown("data set", name, DATASETS)
    return needed


def bring_data(name: str | None) -> None:
    """See to it that a data set is there, is what it should be, and is ready to use."""
    if name is None:
        return
    from persistor.data import DATASETS, READERS, fetch
    from persistor.progress import Counter

    with Counter(f"fetching {name}") as count:
        fetch(DATASETS[name], count)
    with Counter(f"reading {name}") as count:
        READERS[name](count)


def report_data(name: str, as_json: bool) -> int:
    """Bring a data set, and say where it lies."""
    from persistor.data import DATASETS

    bring_data(name)
    paths = [str(path) for _, path in DATASETS[name].found()]
    if as_json:
        print(json.dumps({"data": name, "files": paths}))
    else:
        print(f"{name} is whole: " + ", ".join(paths))
    return 0


def share_of_steps(budget: str) -> float:
    """A budget as a share of the paper's steps."""
    try:
        share = 1.0 if budget == "full" else float(budget)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise PersistorError(f"budget is {budget!r}; give full, or a share such as 0.05")
    return share


def show_comparisons(
    chosen: Any,
    folder: Path,
    format: str,
    as_json: bool,
    *,
    budget: float | None = None,
    seeds: int | None = None,
    empty: bool = True,
) -> None:
    """Print tables beside the paper's; runs that are not to be trusted are named."""
    from persistor.paper.comparison import FORMATS, compare
    from persistor.paper.outcomes import find_outcomes

    outcomes, problems = find_outcomes(folder)
    outcomes = [o for o in outcomes if seeds is None or o.experiment.seed < seeds]
    compared = [compare(table, outcomes, budget=budget) for table in chosen]
    shown = [c for c in compared if empty or any(entry.values for entry in c.entries)]
    if as_json:
        print(json.dumps({"tables": [c.to_json() for c in shown]}))
    else:
        print("\n\n".join(map(FORMATS[format], shown)) or f"no run of the paper's in {folder}")
    for problem in problems:
        print(problem, file=sys.stderr)


def open_run(where: Path, runs: Path | None):
    """The run at a path, or with that name below the runs folder."""
    from persistor.training import Run, runs_folder

    below = runs_folder(runs) / where
    return Run.open(below if not where.exists() and below.exists() else where)


COMMANDS = {
    "train": Train,
    "evaluate": Evaluate,
    "inspect": Inspect,
    "sample": Sample,
    "data": Data,
    "reproduce": Reproduce,
    "compare": Compare,
    "figure": DrawFigure,
    "report": Report,
    "list": List,
    "doctor": Doctor,
    "bench": Bench,
    "demo": Demo,
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
