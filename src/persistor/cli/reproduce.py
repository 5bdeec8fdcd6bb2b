"""`persistor reproduce | compare | figure | report`: our results beside the paper's."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from persistor._tools.errors import PersistorError
from persistor.cli.options import assignments
from persistor.cli.shared import (
    ArchitectureName,
    Changes,
    DataDir,
    Json,
    Runs,
    StopOnSignal,
    bring_data,
    readable_runs,
    use_data_folder,
)

Only = Annotated[
    tuple[str, ...],
    arg(
        metavar="KEY=VALUE",
        help="Only some rows, for example cell=cmru,lru length=100. The keys are task, cell, "
        "epsilon, state, blocks and length.",
        help_behavior_hint="(default: all rows)",
    ),
]
Format = Annotated[Literal["text", "markdown", "latex"], arg(help="How tables are printed.")]


@dataclass(frozen=True)
class Reproduce:
    """Train the runs of the paper's tables, and show the results beside the published numbers.

    Finished runs are not computed again. If the command is stopped or killed, run it again to
    continue. A run that fails does not stop the others. `persistor compare` shows the results
    without training. For example:

      persistor reproduce --list
      persistor reproduce parity --seeds 1 --budget 0.05
      persistor reproduce copy-first-noisy --only cell=cmru,lru length=100,300 --workers 4
      persistor reproduce smnist-state --cluster tcp://10.0.0.1:8786
    """

    names: Annotated[
        Positional[tuple[str, ...]],
        arg(
            metavar="TABLE",
            help="One or more tables; --list shows all.",
            help_behavior_hint="(required, unless you give --list)",
        ),
    ] = ()
    list: Annotated[
        bool,
        arg(
            help="List all tables, or those you name: their runs, how many are done, and the time "
            "left."
        ),
    ] = False
    measure: Annotated[
        bool, arg(help="With --list: time a training step of each table not timed here yet.")
    ] = False
    seeds: Annotated[int, arg(help="Number of seeds for every entry, counted from 0.")] = 5
    budget: Annotated[
        str, arg(help="full, or a fraction of the paper's training steps such as 0.05.")
    ] = "full"
    only: Only = ()
    architecture: ArchitectureName = "paper"
    set: Changes = ()
    workers: Annotated[
        int | None,
        arg(
            metavar="INT",
            help="Number of runs to train at the same time, each in its own process.",
            help_behavior_hint="(default: one for each processor)",
        ),
    ] = None
    cluster: Annotated[
        str | None,
        arg(
            metavar="ADDRESS",
            help="Train on the Dask cluster whose scheduler has this address, for example "
            "tcp://host:8786.",
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
        from persistor.reproduction.plan import choose, plan

        chosen = choose(self.names, self.only)
        budget = share_of_steps(self.budget)
        reading = chosen_architecture(self.architecture, self.set)
        work = plan(chosen, self.seeds, budget, reading)
        failures, stopped = self._train(work, folder)
        show_comparisons(
            chosen,
            folder,
            self.format,
            self.json,
            budget=budget,
            seeds=self.seeds,
            architecture=reading,
        )
        for name, reason in failures.items():
            print(f"failed: {name}: {reason}", file=sys.stderr)
        if stopped is not None:
            print("stopped; run the same command again to continue", file=sys.stderr)
            return stopped
        return 1 if failures else 0

    def _train(self, work: Any, folder: Path) -> tuple[dict[str, str], int | None]:
        """Train the missing runs: why runs failed, by run, and the exit status if stopped."""
        from persistor._tools.machine import processors
        from persistor._tools.progress import SweepWatcher
        from persistor.reproduction.cluster import sweep_cluster
        from persistor.reproduction.outcomes import find_outcomes
        from persistor.reproduction.sweep import sweep

        done = {outcome.experiment for outcome in find_outcomes(folder)[0]}
        missing = {
            experiment: weight for experiment, weight in work.items() if experiment not in done
        }
        if not missing:
            return {}, None
        workers = processors() if self.workers is None else self.workers
        if self.cluster is not None and self.workers is not None:
            raise PersistorError(
                "--workers is for this machine; leave it out, a cluster has its own workers"
            )
        if self.cluster is None:
            for name in sorted({e.task.data for e in missing if e.task.data is not None}):
                bring_data(name)  # once, before all workers ask for it at the same time
        weights = {e.name: weight for e, weight in missing.items()}
        with StopOnSignal() as stop, SweepWatcher(weights) as watcher:

            def hear(news: Any) -> None:
                if news.outcome is None:
                    spec = news.experiment.training
                    watcher.step(news.experiment.name, news.step, spec.steps, spec.evaluate_every)
                else:
                    watcher.end(news.experiment.name, news.outcome)

            callbacks = {"watch": hear, "should_stop": stop.asked}
            if self.cluster is not None:
                failures = sweep_cluster(tuple(missing), folder, self.cluster, **callbacks)
            else:
                failures = sweep(tuple(missing), folder, workers=workers, **callbacks)
        return failures, stop.status if stop.asked() else None

    def _list(self, folder: Path) -> int:
        """Print the line of each table as soon as it is known."""
        from persistor._tools.progress import Counter
        from persistor.paper.tables import tables
        from persistor.reproduction.plan import choose, survey, time_step

        chosen = choose(self.names or tuple(tables()), self.only)
        with StopOnSignal() as stop:

            def measure(table: Any) -> float | None:
                if not self.measure or stop.asked():
                    return None
                with Counter(f"timing {table.name}"):
                    return time_step(table)

            say = (lambda text: None) if self.json else (lambda text: print(text, flush=True))
            say(f"{'table':20} {'runs':>5} {'done':>5} {'reduced':>8}  {'time left':>10}  title")
            facts = {}
            for name, fact in survey(chosen, folder, self.seeds, measure):
                facts[name] = fact
                say(_line(name, fact))
            for reason in dict.fromkeys(f["missing"] for f in facts.values() if f["missing"]):
                say(reason)
            if any(f["seconds"] is None and not f["missing"] for f in facts.values()):
                say("? not timed here yet: persistor reproduce --list --measure")
            if self.json:
                print(json.dumps({"tables": facts}))
            return stop.status if self.measure and stop.asked() else 0


@dataclass(frozen=True)
class Compare:
    """Show the results of existing runs beside the paper's numbers. Nothing is trained.

    For example:

      persistor compare parity --runs results --format markdown
      persistor compare parity --runs results --provenance
    """

    names: Annotated[
        Positional[tuple[str, ...]],
        arg(
            metavar="TABLE",
            help="One or more tables; `persistor reproduce --list` shows all.",
            help_behavior_hint="(default: every table that has a run)",
        ),
    ] = ()
    only: Only = ()
    architecture: Annotated[
        str | None,
        arg(
            metavar="NAME",
            help="Only runs with this architecture; `persistor list` shows the choices.",
            help_behavior_hint="(default: paper, with robust beside it)",
        ),
    ] = None
    set: Changes = ()
    provenance: Annotated[
        bool,
        arg(
            help="Also show where each value comes from: versions, engine, processor, seconds, and "
            "the command that repeats the run."
        ),
    ] = False
    runs: Runs = None
    format: Format = "text"
    json: Json = False

    def run(self) -> int:
        """Read, compare, print."""
        from persistor.paper.tables import tables
        from persistor.reproduction.plan import choose

        chosen = choose(self.names or tuple(tables()), self.only)
        show_comparisons(
            chosen,
            readable_runs(self.runs),
            self.format,
            self.json,
            empty=bool(self.names),
            architecture=self._architecture(),
            provenance=self.provenance,
        )
        return 0

    def _architecture(self):
        """The chosen architecture; None for the usual two."""
        if self.architecture is None and not self.set:
            return None
        return chosen_architecture(self.architecture or "paper", self.set)


@dataclass(frozen=True)
class DrawFigure:
    """Draw the paper's figures, and add the results of runs at full budget.

    Example: persistor figure smnist copy-first --runs results
    """

    names: Annotated[
        Positional[tuple[str, ...]],
        arg(
            metavar="FIGURE",
            help="One or more figures, by name.",
            help_behavior_hint="(default: all)",
        ),
    ] = ()
    folder: Annotated[Path, arg(help="Folder for NAME.pdf and NAME.png.")] = Path("figures")
    runs: Runs = None
    json: Json = False

    def run(self) -> int:
        """Draw the figures and print their paths."""
        from persistor._tools.files import writing
        from persistor.plots import save_figure
        from persistor.plots.paper import FIGURES, draw
        from persistor.reproduction.outcomes import find_outcomes

        outcomes, problems = find_outcomes(readable_runs(self.runs))
        figures = {name: draw(name, outcomes) for name in self.names or FIGURES}
        written = []
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            for name, figure in figures.items():
                for kind in ("pdf", "png"):
                    written.append(str(self.folder / f"{name}.{kind}"))
                    save_figure(figure, Path(written[-1]), dpi=200)
        print(json.dumps({"figures": written}) if self.json else "\n".join(written))
        for problem in problems:
            print(problem, file=sys.stderr)
        return 0


@dataclass(frozen=True)
class Report:
    """Write one page that shows how well the runs reproduce the paper. It opens offline.

    The page has a map of all entries of the paper, tables by claim, learning curves to compare, the
    states inside trained networks, and a playground where you move the states of cells with an
    input. If the name of the page ends in .md, it is Markdown instead: the tables, and why results
    differ from the paper. For example:

      persistor report --runs runs
      persistor report --runs results --page docs/results.md
    """

    page: Annotated[Path, arg(help="File to write, .html or .md.")] = Path("report.html")
    runs: Runs = None
    data_dir: DataDir = None
    json: Json = False

    def run(self) -> int:
        """Write the page and print its path."""
        use_data_folder(self.data_dir)
        from persistor._tools.files import write_atomically
        from persistor._tools.progress import Counter
        from persistor.report.markdown import markdown
        from persistor.report.page import page

        folder = readable_runs(self.runs)
        if self.page.suffix == ".md":
            text = markdown(folder)
        else:
            with Counter("looking inside the runs") as count:
                text = page(folder, count)
        write_atomically(self.page, text.encode())
        print(json.dumps({"page": str(self.page)}) if self.json else str(self.page))
        return 0


def _line(name: str, fact: dict[str, Any]) -> str:
    """The line of a table in the list."""
    from persistor._tools.progress import duration

    left = "?" if fact["seconds"] is None else duration(fact["seconds"])
    left = "not here" if fact["missing"] else left
    counts = f"{fact['runs']:5} {fact['done']:5} {fact['reduced']:8}"
    return f"{name:20} {counts}  {left:>10}  {fact['title']}"


def share_of_steps(budget: str) -> float:
    """A budget as a fraction of the paper's steps."""
    try:
        share = 1.0 if budget == "full" else float(budget)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise PersistorError(f"budget is {budget!r}; give full, or a fraction such as 0.05")
    return share


def chosen_architecture(name: str, changes: tuple[str, ...]):
    """The architecture that the options describe."""
    from persistor.model.architecture import architecture_named

    return architecture_named(name).but(assignments(changes))


def show_comparisons(
    chosen: Any,
    folder: Path,
    format: str,
    as_json: bool,
    *,
    budget: float | None = None,
    seeds: int | None = None,
    empty: bool = True,
    architecture: Any = None,
    provenance: bool = False,
) -> None:
    """Print tables beside the paper's, and name the runs that cannot be trusted."""
    from persistor.reproduction.comparison import compare, compare_both, origins
    from persistor.reproduction.formats import FORMATS
    from persistor.reproduction.outcomes import find_outcomes

    outcomes, problems = find_outcomes(folder)
    outcomes = [o for o in outcomes if seeds is None or o.experiment.seed < seeds]
    compared = [
        compare_both(table, outcomes, budget=budget)
        if architecture is None
        else compare(table, outcomes, budget=budget, architecture=architecture)
        for table in chosen
    ]
    shown = [c for c in compared if empty or c.measured]
    if as_json:
        extra = [{"provenance": origins(c)} if provenance else {} for c in shown]
        tables = [{**c.to_json(), **more} for c, more in zip(shown, extra, strict=True)]
        print(json.dumps({"tables": tables}))
    else:
        texts = [
            FORMATS[format](c) + (_below(origins(c), format) if provenance else "") for c in shown
        ]
        print("\n\n".join(texts) or f"no run in {folder} belongs to a table of the paper")
    for problem in problems:
        print(problem, file=sys.stderr)


def _below(table: dict[str, dict[str, str]], format: str) -> str:
    """Lines to print below a table, one for each value, that say where it comes from."""
    start = {"text": "\n  ", "markdown": "\n- ", "latex": "\n% "}[format]
    lines = [f"{label}: {origin}" for label, runs in table.items() for origin in runs.values()]
    return ("\n" if format == "markdown" else "") + "".join(start + line for line in lines)
