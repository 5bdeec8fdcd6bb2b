"""`persistor train | inspect | sample`."""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from persistor._tools.errors import PersistorError
from persistor.cli.options import (
    CELL_OPTIONS,
    CellOptions,
    DataOptions,
    assignments,
    given_options,
)
from persistor.cli.shared import (
    Changes,
    DataDir,
    Json,
    Length,
    Moved,
    Runs,
    StopOnSignal,
    Where,
    bring_data,
    open_run,
    picture_of,
    use_data_folder,
)

SWITCH = {"auto": None, "on": True, "off": False}


@dataclass(frozen=True)
class Train:
    """Train a model on a task with the paper's protocol, or continue a run that was stopped.

    The same command always means the same run. If the run is finished, its result is shown and
    nothing is computed. If it was interrupted, it continues where it stopped. For example:

      persistor train parity --epsilon -1 --steps 1500
      persistor train copy-first-discrete --length 1000 --cell alpha-cmru
      persistor train copy-first-noisy --cell mingru,cmru --blocks 4 --state 16
      persistor train copy-first-discrete --length 20 --deployable --state 16 --steps 4000
      persistor train copy-first-discrete --length 20 --deployable --levels 4 --state 16
      persistor train --data sounds/ --cell cmru --state 16
    """

    task: Annotated[
        Positional[str],
        arg(
            metavar="TASK",
            help="The task; `persistor list` shows all.",
            help_behavior_hint="(required, unless you give --data)",
        ),
    ] = ""
    data: Annotated[
        Path | None,
        arg(
            metavar="PATH",
            help="Train on your own data instead of a task: a folder with one folder of sounds or "
            "tables for each class, arrays x (N, T, F) and y in an .npz file or a folder of .npy "
            "files, a .csv or .parquet table, or a text file.",
        ),
    ] = None
    cell: Annotated[
        str | None,
        arg(
            metavar="CELL",
            help="The cell; `persistor list` shows all. Blocks alternate between several cells, "
            "written with commas.",
            help_behavior_hint="(default: cmru)",
        ),
    ] = None
    deployable: Annotated[
        bool,
        arg(
            help="Train a model that can be built as a circuit: a positive CMRU without positions, "
            "with --anneal and --tiny. With --levels, a ladder replaces the positive CMRU."
        ),
    ] = False
    tiny: Annotated[
        bool,
        arg(help="Use model width 16 instead of 256: a few thousand parameters in all."),
    ] = False
    anneal: Annotated[bool, arg(help="Lower epsilon from 1 to 0 during training.")] = False
    state: Annotated[
        int | None,
        arg(
            metavar="INT",
            help="State width d.",
            help_behavior_hint="(default: the smallest in the paper for the task)",
        ),
    ] = None
    blocks: Annotated[
        int | None,
        arg(
            metavar="INT",
            help="Number of blocks r.",
            help_behavior_hint="(default: the smallest in the paper for the task)",
        ),
    ] = None
    width: Annotated[
        int | None,
        arg(metavar="INT", help="Model width m.", help_behavior_hint="(default: 256)"),
    ] = None
    encoding: Annotated[
        int | None,
        arg(
            metavar="INT",
            help="Width of the positional encoding; 0 means no positions.",
            help_behavior_hint="(default: the model width)",
        ),
    ] = None
    dropout: Annotated[float, arg(help="Dropout rate in the MLPs.")] = 0.0
    length: Length = None
    steps: Annotated[
        int | None,
        arg(
            metavar="INT",
            help="Number of training steps.",
            help_behavior_hint="(default: the paper's budget; on your own data, by their number)",
        ),
    ] = None
    batch: Annotated[int, arg(help="Sequences in a batch.")] = 64
    lr: Annotated[float, arg(help="Highest learning rate; it falls to a hundredth.")] = 1e-3
    stop_early: Annotated[
        Literal["auto", "on", "off"],
        arg(
            help="Stop when validation has not improved for a quarter of the steps. The paper does "
            "not (off); auto stops on your own data only."
        ),
    ] = "auto"
    eight_bits: Annotated[
        bool,
        arg(
            help="Learn weights that eight bits hold, so that `export c --weights int8` computes "
            "with the weights that were trained."
        ),
    ] = False
    seed: Annotated[int, arg(help="Seed of the initial weights and the batches.")] = 0
    architecture: Annotated[
        str | None,
        arg(
            metavar="NAME",
            help="How to fill in what the paper leaves open, and where training starts; "
            "`persistor list` shows the choices.",
            help_behavior_hint="(default: robust; paper if --deployable)",
        ),
    ] = None
    set: Changes = ()
    remat: Annotated[
        bool, arg(help="Save memory: recompute inner arrays instead of keeping them.")
    ] = False
    tensorboard: Annotated[
        bool, arg(help="Also write an event file for TensorBoard into the run folder.")
    ] = False
    reading: Annotated[DataOptions, arg(name="")] = DataOptions()
    options: CellOptions = CELL_OPTIONS()
    runs: Runs = None
    data_dir: DataDir = None
    json: Json = False

    def experiment(self):
        """The experiment that these options describe."""
        from persistor.experiment import Experiment

        return Experiment.of(
            self._task(),
            cell=self.cell,
            state_size=self.state,
            blocks=self.blocks,
            width=self.width,
            encoding=self.encoding,
            dropout=self.dropout,
            architecture=self.architecture,
            changes=assignments(self.set),
            tiny=self.tiny,
            deployable=self.deployable,
            length=self.length,
            steps=self.steps,
            anneal=self.anneal,
            batch=self.batch,
            learning_rate=self.lr,
            stop_early=SWITCH[self.stop_early],
            eight_bits=self.eight_bits,
            seed=self.seed,
            **given_options(self.options),
        )

    def _task(self):
        chosen = given_options(self.reading)
        if self.data is None:
            for name in chosen:
                raise PersistorError(f"--{name.replace('_', '-')} needs your own data: --data PATH")
            return self.task
        if self.task:
            raise PersistorError(f"give either {self.task} or --data, not both")
        from persistor._tools.progress import Counter
        from persistor.tasks.own_data import Reading, own_task

        columns = tuple(filter(None, str(chosen.pop("columns", "")).split(",")))
        reading: Any = {**chosen, "columns": columns}
        with Counter(f"reading {self.data.name}") as count:
            task = own_task(self.data, Reading(**reading), count)
        for line in task.remarks():
            print(line, file=sys.stderr)
        return task

    def run(self) -> int:
        """Train, and print the outcome."""
        use_data_folder(self.data_dir)
        experiment = self.experiment()
        from persistor._tools.progress import Watcher
        from persistor.training import Run, runs_folder, train
        from persistor.training.events import EventFile

        bring_data(experiment.task.data)  # before the run folder is created
        run = Run.create(experiment, runs_folder(self.runs))
        with contextlib.ExitStack() as stack:
            stop = stack.enter_context(StopOnSignal())
            watcher = stack.enter_context(
                Watcher(experiment.name, experiment.task.objective.metric, self._chosen(experiment))
            )
            events = stack.enter_context(EventFile(run)) if self.tensorboard else None

            def watch(progress: Any) -> None:
                watcher.update(progress)
                if events is not None:
                    events.update()

            result = train(run, remat=self.remat, watch=watch, should_stop=stop.asked)
            if events is not None:
                events.update()  # write the curves of a run that was already finished
        if result is None:
            again = "run the same command again to continue"
            print(f"stopped; {run.path} is saved: {again}", file=sys.stderr)
            return stop.status
        print(json.dumps(result) if self.json else f"{outcome(experiment, result)}\n{run.path}")
        return 0

    def _chosen(self, experiment: Any) -> str:
        """What to say about steps that follow from the data; nothing if they were given."""
        follows = self.steps is None and experiment.task.examples
        return "--steps for more" if follows else ""


def _of_groups(task: Any) -> str:
    """Of whom a test is, if none of them is in training."""
    groups = set(task.origins("test").groups)
    words = "group that is" if len(groups) == 1 else "groups that are"
    return f" on {len(groups):,} {words} not in training," if groups else ""


def outcome(experiment: Any, result: dict[str, Any]) -> str:
    """The result of a run in a line."""
    metric, value = next(iter(result["test"].items()))
    planned, budget = experiment.training.steps, ""
    if experiment.reduced:
        budget = f" of the paper's {result['paper_steps']:,}"
    elif experiment.training.stop_early and result["steps"] < planned:
        budget = f" of {planned:,}, when validation no longer improved,"
    if (other := experiment.task.variant_of) is not None:
        budget = f" of our variant of {other}"
    test = f"test {metric} {value:.4f}{_of_groups(experiment.task)}"
    return f"{test} after {result['steps']:,} steps{budget} in {result['seconds']:.0f} s"


@dataclass(frozen=True)
class Inspect:
    """Look inside a trained run: when units update, which states they visit, how gradients flow.

    The command prints one line for each unit and draws a picture. The verdict on a unit is one of:
    `keeps`, no step after the first changes its state; `counts`, updates add to the state and
    nothing is lost; `flips`, updates reverse the sign of the state; `fades`, the past fades;
    `forgets`, the past is lost; `updates`, none of these. For a ladder, a second table shows how
    often each unit is at each level.
    """

    run_folder: Where
    length: Length = None
    data: Moved = None
    examples: Annotated[int, arg(help="Number of test sequences to use.")] = 64
    picture: Annotated[
        Path | None,
        arg(
            metavar="PATH",
            help="File for the picture.",
            help_behavior_hint="(default: inspect.png in the run folder)",
        ),
    ] = None
    runs: Runs = None
    data_dir: DataDir = None
    json: Json = False

    def run(self) -> int:
        """Inspect, print and draw."""
        use_data_folder(self.data_dir)
        run = open_run(self.run_folder, self.runs)
        from persistor.analysis import inspection
        from persistor.plots.inspection import draw_inspection

        task = run.experiment.task
        task = task if self.data is None else task.with_data(self.data)
        task = task if self.length is None else task.with_length(self.length)
        batch = inspection.first_batch(task.split("test"), self.examples)
        traces, reports = inspection.look(run.model(), batch)
        path = self.picture or picture_of(run.path, "inspect")
        draw_inspection(traces, run.path.name, path)
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
        for r in reports:
            if r.at_level:
                shares = (f"{n}: {share:.1%}" for n, share in enumerate(r.at_level) if share > 0)
                print(f"{r.block:5} {r.unit:4}  steps at level  {'  '.join(shares)}")
        print(f"picture: {path}")
        return 0


@dataclass(frozen=True)
class Sample:
    """Write text with a run that was trained to predict the next character.

    Example: persistor sample runs/NAME --prompt "ROMEO:" --count 500
    """

    run_folder: Where
    prompt: Annotated[
        str, arg(help="How the text begins.", help_behavior_hint="(default: a new line)")
    ] = "\n"
    count: Annotated[int, arg(help="Number of characters to write.")] = 500
    temperature: Annotated[
        float,
        arg(
            help="At 0, always write the likeliest character; at 1, draw characters with the "
            "model's own probabilities."
        ),
    ] = 0.8
    seed: Annotated[int, arg(help="Seed of the random draws.")] = 0
    runs: Runs = None
    json: Json = False

    def run(self) -> int:
        """Print each character as soon as it is drawn."""
        run = open_run(self.run_folder, self.runs)
        import jax

        from persistor.analysis.sampling import sample
        from persistor.experiment import checked_seed
        from persistor.tasks.task import NextToken

        task: Any = run.experiment.task
        if not isinstance(task.objective, NextToken):
            raise PersistorError(
                f"{run.path.name} was not trained to predict text; train, for example, shakespeare"
            )
        stream = sample(
            run.model(),
            task.letters,
            self.prompt,
            self.count,
            temperature=self.temperature,
            window=task.length,
            key=jax.random.key(checked_seed(self.seed)),
        )
        if self.json:
            print(json.dumps({"run": run.path.name, "text": self.prompt + "".join(stream)}))
            return 0
        first = next(stream, "")  # raises on a mistake before anything is printed

        print(self.prompt + first, end="", flush=True)
        for letter in stream:
            print(letter, end="", flush=True)
        print()
        return 0
