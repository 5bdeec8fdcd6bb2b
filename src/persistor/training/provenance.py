"""Where a result comes from: versions, engine, machine, seconds by phase, and the command.

It stands beside the result and is no part of the experiment: the same experiment on another
machine has the same name.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import Any

from persistor import kernels
from persistor._tools.machine import processor_name, processors
from persistor.experiment import Experiment, TrainingSpec, cell_name
from persistor.kernels.doctor import engine_here
from persistor.paper.budgets import budget
from persistor.tasks import KINDS, TASKS, Task

PACKAGES = ("persistor", "jax", "jaxlib")
THREADS = ("NPROC", "PERSISTOR_THREADS")  # of XLA, and of the native kernels
MISSING = "not recorded"


@dataclass(frozen=True)
class Stopwatch:
    """Seconds by phase, in all sittings of a run: it may be stopped and continued many times.

    prepare: data and weights; compile: the first leg of a sitting, which is compiled; train;
    evaluate: validation; test. Work that was lost when a run was killed is not counted.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    sittings: int = 1

    @staticmethod
    def resumed(saved: dict[str, Any] | None, total: float) -> Stopwatch:
        """The stopwatch of the next sitting, after what was saved of those before.

        An older version of the package saved a total alone, which stays in one piece.
        """
        if saved is None:
            return Stopwatch({MISSING: total}, 2)
        return Stopwatch(saved["seconds"], saved["sittings"] + 1)

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what the block takes."""
        began = time.monotonic()
        yield
        self.add(name, time.monotonic() - began)

    def add(self, name: str, seconds: float) -> None:
        """Count some seconds."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds


def provenance(experiment: Experiment, watch: Stopwatch) -> dict[str, Any]:
    """What to write beside a result; the machine is that of the last sitting."""
    library = kernels.library()
    return {
        "versions": {package: version(package) for package in PACKAGES},
        "engine": engine_here()[0],
        "kernels": library.variant or f"none: {library.reason}",
        "processor": processor_name(),
        "processors": processors(),
        "threads": {name: os.environ.get(name) for name in THREADS},
        "seconds": {name: round(seconds, 3) for name, seconds in watch.seconds.items()},
        "sittings": watch.sittings,
        "command": command(experiment),
    }


def describe(experiment: Experiment, result: dict[str, Any]) -> str:
    """The provenance of a result in a line; of an older one, what can still be said."""
    try:
        facts = _facts(result, result.get("provenance", {}))
    except (AttributeError, KeyError, TypeError, ValueError):
        facts = ["its provenance is not as it was written"]
    return "; ".join([*facts, command(experiment)])


def _facts(result: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Versions, engine, processor and seconds, as far as they are known."""
    versions = found.get("versions")
    packages = ", ".join(f"{k} {v}" for k, v in versions.items()) if versions else None
    facts = {
        "versions": packages,
        "engine": found.get("engine"),
        "processor": found.get("processor"),
    }
    parts = [fact or f"{name} {MISSING}" for name, fact in facts.items()]
    if not any(facts.values()):
        parts = [f"{', '.join(facts)} {MISSING}"]
    return [*parts, _duration(result, found)]


def _duration(result: dict[str, Any], found: dict[str, Any]) -> str:
    """How long a run took, and in which phases."""
    phases = ", ".join(f"{name} {value:.0f}" for name, value in found.get("seconds", {}).items())
    sittings = found.get("sittings", 1)
    text = f"{result['seconds']:.0f} s" + (f" ({phases})" if phases else "")
    return text if sittings == 1 else f"{text} in {sittings} sittings"


def command(experiment: Experiment) -> str:
    """The command that repeats an experiment: `persistor train` with what is not its default.

    A few experiments have settings that are no option of it; those are described to Python. Of a
    task or a cell that is not registered, only the program that has it can repeat the run.
    """
    named = all(isinstance(cell, str) for cell in experiment.model.cells)
    if experiment.task.name not in KINDS or not named:
        return "its own program: its task or its cell is not registered"
    if not _has_options(experiment):
        return _in_python(experiment)
    words = [*_task_options(experiment.task), *_options(experiment)]
    return shlex.join(["persistor", "train", *words])


def _options(experiment: Experiment) -> list[str]:
    """The options of model, training and seed that differ from the defaults."""
    model, training = experiment.model, experiment.training
    usual, known = budget(experiment.task.name), model.known_options()
    searches = usual.search and not model.architecture.starts
    given: dict[str, tuple[Any, Any]] = {  # an option: what it is, what it is by default
        "cell": (",".join(map(cell_name, model.cells)), "cmru"),
        **{name: (value, known[name].default) for name, value in model.options},
        "anneal": (training.anneal, False),
        "state": (model.state_size, usual.state_size),
        "blocks": (model.blocks, usual.blocks),
        "width": (model.width, 256),
        "encoding": (model.encoding, model.width),
        "dropout": (model.dropout, 0.0),
        "steps": (training.steps, usual.steps),
        "batch": (training.batch, 64),
        "seed": (experiment.seed, 0),
        "search": ("on" if training.search else "off", "on" if searches else "off"),
    }
    words: list[str] = []
    for name, (value, default) in given.items():
        if value != default:
            option = "--" + name.replace("_", "-")
            words += [option] if value is True else [option, _word(value)]
    points = model.architecture.to_json()
    points.pop("encoding", None)
    changes = [f"{name}={_word(value)}" for name, value in points.items()]
    return [*words, *(["--set", *changes] if changes else [])]


def _word(value: Any) -> str:
    """A value as it is typed: 1, not 1.0, but every digit that counts."""
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)


def _task_options(task: Task) -> list[str]:
    """The task by its name, or where its data lie; its length if that is not the usual one."""
    words = [task.name] if task.name in TASKS else ["--data", vars(task)["path"]]
    usual = type(task).length
    return words if task.length == usual else [*words, "--length", str(task.length)]


def _has_options(experiment: Experiment) -> bool:
    """Whether options of `persistor train` can say all of it."""
    spec = experiment.training
    plain = TrainingSpec(spec.steps, spec.anneal, spec.batch, search=spec.search)
    task: Any = experiment.task
    if task.name not in TASKS:
        return spec == plain
    options = ("length", "version")  # the version of the data is that of the data which are there
    given = {name: value for name, value in vars(task).items() if name in options}
    return spec == plain and task == replace(type(task)(), **given)


def _in_python(experiment: Experiment) -> str:
    """A command that trains the experiment from its description."""
    code = (
        "import json; from persistor import Experiment, train; "
        f"train(Experiment.from_json(json.loads({json.dumps(experiment.to_json())!r})))"
    )
    return shlex.join(["python", "-c", code])
