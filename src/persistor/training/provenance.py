"""Where a result comes from: versions, engine, machine, seconds by phase, and the command.

Provenance is stored with the result, not with the experiment: the same experiment has the same name
on every machine.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from persistor import kernels
from persistor._tools.machine import processor_name, processors
from persistor.experiment import (
    Experiment,
    ModelSpec,
    TrainingSpec,
    cell_name,
    default_architecture,
)
from persistor.kernels.doctor import compiled, engine_here, versions
from persistor.kernels.engine import chosen
from persistor.model import ARCHITECTURES, Architecture
from persistor.model.architecture import cell_starts
from persistor.paper.budgets import budget
from persistor.tasks import KINDS, TASKS, Task
from persistor.tasks.own_data import OwnData

MISSING = "not recorded"


@dataclass(frozen=True)
class Stopwatch:
    """Seconds by phase, summed over all sittings: a run may be stopped and continued many times.

    The phases are prepare (data and weights), compile (the first interval of a sitting), train,
    evaluate (validation) and test. Work that was lost because a run was killed is not counted.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    sittings: int = 1

    @staticmethod
    def resumed(saved: dict[str, Any] | None, total: float) -> Stopwatch:
        """The stopwatch for the next sitting, with the saved seconds of the earlier ones.

        An older version of the package saved only the total, which cannot be split into phases.
        """
        if saved is None:
            return Stopwatch({MISSING: total}, 2)
        return Stopwatch(saved["seconds"], saved["sittings"] + 1)

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the seconds that the block takes."""
        began = time.monotonic()
        yield
        self.add(name, time.monotonic() - began)

    def add(self, name: str, seconds: float) -> None:
        """Add seconds to a phase."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds


def provenance(experiment: Experiment, watch: Stopwatch) -> dict[str, Any]:
    """The provenance to store with a result; the machine is that of the last sitting."""
    library = kernels.library()
    return {
        "versions": versions(),
        "engine": engine_here()[0] if chosen() == "auto" else chosen(),
        "kernels": compiled(),
        "processor": processor_name(),
        "processors": processors(),
        "threads": {"xla": library.xla_threads, "kernels": library.threads},
        "seconds": {name: round(seconds, 3) for name, seconds in watch.seconds.items()},
        "sittings": watch.sittings,
        "command": command(experiment),
    }


def in_words(experiment: Experiment, result: dict[str, Any]) -> str:
    """The provenance of a result in one line, as far as an older result recorded it."""
    try:
        facts = _facts(result, result.get("provenance", {}))
    except (AttributeError, KeyError, TypeError, ValueError):
        facts = ["its provenance is damaged"]
    return "; ".join([*facts, command(experiment)])


def _facts(result: dict[str, Any], recorded: dict[str, Any]) -> list[str]:
    """Versions, engine, kernels, processor, threads and seconds, as far as they are known."""
    kernels, threads = recorded.get("kernels"), recorded.get("threads")
    facts = {
        "versions": _listed(recorded.get("versions")),
        "engine": recorded.get("engine"),
        "kernels": kernels and f"kernels {kernels}",
        "processor": recorded.get("processor"),
        "threads": threads and f"threads {_listed(threads)}",
    }
    parts = [fact or f"{name} {MISSING}" for name, fact in facts.items()]
    if not any(facts.values()):
        parts = [f"{', '.join(facts)} {MISSING}"]
    return [*parts, _duration(result, recorded)]


def _listed(values: dict[str, Any] | None) -> str | None:
    """Names and values in a row."""
    return ", ".join(f"{name} {value}" for name, value in values.items()) if values else None


def _duration(result: dict[str, Any], recorded: dict[str, Any]) -> str:
    """How long a run took, and in which phases."""
    phases = ", ".join(f"{name} {value:.0f}" for name, value in recorded.get("seconds", {}).items())
    sittings = recorded.get("sittings", 1)
    text = f"{result['seconds']:.0f} s" + (f" ({phases})" if phases else "")
    return text if sittings == 1 else f"{text} in {sittings} sittings"


def command(experiment: Experiment) -> str:
    """The command that repeats an experiment: `persistor train` with all that is not the default.

    A few experiments have settings for which there is no option; the command then calls Python. If
    the task or the cell is not registered, only the program that defines it can repeat the run.
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
    own = isinstance(experiment.task, OwnData)
    settings: dict[str, tuple[Any, Any]] = {  # option: (its value, its default)
        "cell": (",".join(map(cell_name, model.cells)), "cmru"),
        **{name: (value, known[name].default) for name, value in model.options},
        "anneal": (training.anneal, False),
        "state": (model.state_size, usual.state_size),
        "blocks": (model.blocks, usual.blocks),
        "width": (model.width, 256),
        "encoding": (model.encoding, model.width),
        "dropout": (model.dropout, 0.0),
        "steps": (training.steps, None if own else usual.steps),
        "batch": (training.batch, 64),
        "lr": (training.learning_rate, TrainingSpec.learning_rate),
        "seed": (experiment.seed, 0),
        "eight_bits": (training.eight_bits, False),
        "stop_early": (_switch(training.stop_early), _switch(own)),
    }
    words: list[str] = []
    for name, (value, default) in settings.items():
        if value != default:
            option = "--" + name.replace("_", "-")
            words += [option] if value is True else [option, _word(value)]
    return [*words, *_architecture(model)]


def _architecture(model: ModelSpec) -> list[str]:
    """The options that name the nearest architecture, and say what is changed in it."""
    wanted, known = _points(model.architecture), model.known_options()
    changes: dict[str, dict[str, Any]] = {}
    for name, architecture in ARCHITECTURES.items():
        there = _points(architecture.of_cells(known))
        changes[name] = {k: v for k, v in wanted.items() if there[k] != v}
    default = default_architecture(deployable=False)
    name = min(changes, key=lambda name: (len(changes[name]), name != default))
    words = [] if name == default else ["--architecture", name]
    points = [f"{point}={_word(value)}" for point, value in changes[name].items()]
    return [*words, "--set", *points] if points else words


def _points(architecture: Architecture) -> dict[str, Any]:
    """All points of an architecture and all starts, but for the width of its encoding."""
    fields = {f.name: getattr(architecture, f.name) for f in dataclasses.fields(architecture)}
    starts = {name: architecture.start(name) for name in cell_starts()}
    del fields["encoding"], fields["starts"]
    return {**fields, **starts}


def _switch(value: bool) -> str:
    return "on" if value else "off"


def _word(value: Any) -> str:
    """A value as a person types it: 1 instead of 1.0, but with every digit that matters."""
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)


def _task_options(task: Task) -> list[str]:
    """The task by name, or the path of your own data; its length if that is not the default."""
    words = task.options() if isinstance(task, OwnData) else [task.name]
    usual = type(task).length
    return words if task.length == usual else [*words, "--length", str(task.length)]


def _has_options(experiment: Experiment) -> bool:
    """Whether the options of `persistor train` can describe the whole experiment."""
    spec = experiment.training
    plain = TrainingSpec(
        spec.steps,
        spec.anneal,
        spec.batch,
        spec.learning_rate,
        spec.learning_rate / 100,
        stop_early=spec.stop_early,
        eight_bits=spec.eight_bits,
    )
    task: Any = experiment.task
    if task.name not in TASKS:
        return spec == plain
    options = ("length", "version")  # the version follows from the data that are installed
    chosen = {name: value for name, value in vars(task).items() if name in options}
    return spec == plain and task == replace(type(task)(), **chosen)


def _in_python(experiment: Experiment) -> str:
    """A command that trains the experiment from its description."""
    code = (
        "import json; from persistor import Experiment, train; "
        f"train(Experiment.from_json(json.loads({json.dumps(experiment.to_json())!r})))"
    )
    return shlex.join(["python", "-c", code])
