"""`persistor evaluate`: how good a trained run is, and where it is wrong."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import arg

from persistor._tools.errors import PersistorError
from persistor.cli.shared import (
    DataDir,
    Json,
    Moved,
    Runs,
    Where,
    open_run,
    picture_of,
    use_data_folder,
)

MOST_CLASSES = 12  # that are listed one by one
FEW = 5  # entries of whatever else could be long


@dataclass(frozen=True)
class Evaluate:
    """Test a trained run again, and show where it is wrong; or test it at other lengths.

    For classes, the command prints precision, recall and F1 of each (of the worst, if there are
    many), which are confused, how far confidence can be trusted, the metric by length and by group,
    and the worst mistakes by name; `--json` has all of it. The picture shows confusion and
    calibration or, for numbers, what was predicted.

      persistor evaluate runs/NAME
      persistor evaluate runs/NAME --lengths 1000 10000 100000
    """

    run_folder: Where
    lengths: Annotated[tuple[int, ...], arg(help="Sequence lengths to test on.")] = ()
    data: Moved = None
    picture: Annotated[
        Path | None,
        arg(
            metavar="PATH",
            help="File for the picture.",
            help_behavior_hint="(default: evaluate.png in the run folder)",
        ),
    ] = None
    runs: Runs = None
    data_dir: DataDir = None
    json: Json = False

    def run(self) -> int:
        """Evaluate, print and draw."""
        if self.lengths and self.picture:
            raise PersistorError("--picture shows the run's own test set; leave out --lengths")
        use_data_folder(self.data_dir)
        run = open_run(self.run_folder, self.runs)
        from persistor.tasks.own_data.identity import OwnData
        from persistor.training import load

        task = run.experiment.task
        task = task if self.data is None else task.with_data(self.data)
        tasks = [task.with_length(length) for length in self.lengths] or [task]
        run.model()  # a damaged run is refused before anything is added to it
        run.add_preparation(task)
        model = load(run.path)
        shown: dict[str, Any] = {"run": run.path.name, "results": []}
        if task.variant_of is not None:
            shown["variant_of"] = task.variant_of
            if not self.json:
                print(f"{task.name} is our variant of {task.variant_of}, not a task of the paper")
        for length, tested in zip(self.lengths or (None,), tasks, strict=True):
            found = _assessed(model, tested, length)
            shown["results"].append({"length": length, **found.to_json()})
            lines = [f"{'test set' if length is None else f'{length:,}':>12}  {found.summary}"]
            if length is None:
                shown["picture"] = str(self._drawn(found, run.path))
                lines += [*report(found), f"picture: {shown['picture']}"]
            if not self.json:
                print(*lines, sep="\n", flush=True)
        if self.data is not None and isinstance(task, OwnData):
            run.found_at(task)
        if self.json:
            print(json.dumps(shown))
        return 0

    def _drawn(self, found: Any, folder: Path) -> Path:
        from persistor.plots.assessment import draw_assessment

        path = self.picture or picture_of(folder, "evaluate")
        draw_assessment(found, folder.name, path)
        return path


def _assessed(model: Any, task: Any, length: int | None) -> Any:
    from persistor._tools.progress import Counter
    from persistor.analysis.assessment import assess
    from persistor.training.evaluation import answers_on

    with Counter("its own test set" if length is None else f"length {length:,}") as count:
        answers = answers_on(model, task.split("test"), task.objective, report=count)
    prepared = model.preparation
    return assess(
        answers,
        task.objective.metric,
        higher_is_better=task.objective.higher_is_better,
        classes=prepared.letters if prepared.answer == "next" else prepared.classes,
        origins=task.origins("test"),
    )


def report(found: Any) -> list[str]:
    """What a person should look at, in a screen of lines."""
    facts = [f"{found.examples:,} examples"]
    facts += [f"{name.upper()} {value:.4g}" for name, value in found.errors.items()]
    error = found.calibration_error
    facts += [] if error is None else [f"confidence is off by {error:.3f} on average"]
    lines = [", ".join(facts), *(_table(found) if found.classes else ())]
    confused = [f"{_shown(a)} as {_shown(b)} {n:,}" for a, b, n in found.confusions()]
    lines += _listed("confused", confused)
    groups = f"by group, of {len(found.by_group):,}"
    for name, parts in (("by length", found.by_length), (groups, found.by_group)):
        lines += _listed(name, [f"{p.name} {p.metric:.4f} ({p.examples:,})" for p in parts])
    mistakes = [f"  {_mistake(found, mistake)}" for mistake in found.worst[:FEW]]
    return [*lines, *(["worst mistakes:", *mistakes] if mistakes else [])]


def _table(found: Any) -> list[str]:
    """A line for every class; for the worst, if there are many."""
    classes, every = found.classes, len(found.classes)
    if every > MOST_CLASSES:
        classes = sorted((c for c in classes if c.support), key=lambda c: c.f1)[:FEW]
    width = max(5, *(len(_shown(c.name)) for c in classes))
    head = f"{'class':{width}}  precision  recall      F1    count"
    return [head + (f"  (the {FEW} worst of {every})" if every > MOST_CLASSES else "")] + [
        f"{_shown(c.name):{width}}  {_share(c.precision):>9}  {_share(c.recall):>6}  "
        f"{_share(c.f1):>6}  {c.support:7,}"
        for c in classes
    ]


def _listed(name: str, entries: list[str]) -> list[str]:
    rest = len(entries) - FEW
    more = f", and {rest:,} more" if rest > 0 else ""
    return [f"{name}: {', '.join(entries[:FEW])}{more}"] if entries else []


def _mistake(found: Any, mistake: Any) -> str:
    if not mistake.target:  # of many steps
        score = 1 - mistake.badness if found.metric == "accuracy" else mistake.badness
        return f"{mistake.example}: {found.metric} {score:.4f}"
    if found.errors:
        return f"{mistake.example}: {mistake.target}, predicted {mistake.predicted}"
    return (
        f"{mistake.example}: {_shown(mistake.target)}, taken for {_shown(mistake.predicted)} "
        f"with probability {mistake.badness:.3f}"
    )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _shown(name: str) -> str:
    """A name that can be seen, even if it is a space."""
    return name if name and name.isprintable() and name.strip() == name else repr(name)
