"""An experiment is a value: task, model, training, seed. It converts to JSON and back, and its hash
is in the name of its run folder. Only `Experiment.of` fills in the paper's defaults for a task, so
that Python and the command line mean the same run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from persistor._tools.errors import PersistorError, unknown
from persistor._tools.options import Value
from persistor.cells import CELLS, Cell
from persistor.experiment.specs import (
    CellKind,
    ModelSpec,
    TrainingSpec,
    cell_name,
    number,
    whole,
)
from persistor.model import Architecture, Backbone
from persistor.model.architecture import architecture_named
from persistor.nn.draws import first_key
from persistor.paper.budgets import budget, published, steps_for
from persistor.tasks import KINDS, TASKS, Task

TINY_WIDTH = 16  # a whole network of a few thousand parameters


def checked_seed(seed: int) -> int:
    """The seed, if it is one of the 2^32 that JAX distinguishes; otherwise an error."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise PersistorError(f"seed is {seed}; it must lie between 0 and {2**32 - 1}")
    return seed


@dataclass(frozen=True)
class Experiment:
    """One training run, completely described.

    `Experiment.of("smnist", cell="cmru")` fills in the paper's defaults. The constructor takes
    every part as it is.
    """

    task: Task
    model: ModelSpec = field(default_factory=ModelSpec)
    training: TrainingSpec = field(default_factory=TrainingSpec)
    seed: int = 0

    def __post_init__(self):
        if not isinstance(self.task, Task):
            raise PersistorError(f"task is {self.task!r}; `Experiment.of` takes names")
        cells = ", ".join(map(cell_name, self.model.cells))
        if self.training.anneal and not self.model.cumulative:
            raise PersistorError(f"annealing needs an epsilon; {cells} has none")
        if self.training.anneal and self.model.option("epsilon") != 1:
            raise PersistorError("annealing sets epsilon itself, from 1 to 0; leave epsilon out")
        if self.training.anneal and self.model.option("learn_epsilon"):
            raise PersistorError("annealing sets epsilon itself; it cannot be learned as well")
        checked_seed(self.seed)

    @staticmethod
    def of(
        task: str | Task,
        *,
        cell: CellKind | Sequence[CellKind] | None = None,
        state_size: int | None = None,
        blocks: int | None = None,
        width: int | None = None,
        encoding: int | None = None,
        dropout: float = 0.0,
        architecture: str | Architecture | None = None,
        changes: Mapping[str, object] | None = None,
        tiny: bool = False,
        deployable: bool = False,
        length: int | None = None,
        steps: int | None = None,
        anneal: bool = False,
        batch: int = 64,
        learning_rate: float = 1e-3,
        stop_early: bool | None = None,
        eight_bits: bool = False,
        seed: int = 0,
        **options: Value | None,
    ) -> Experiment:
        """The experiment on a task, with the paper's defaults for everything that is left out.

        `state_size`, `blocks` and `steps` default to the budget of the task (`paper.budgets`). On
        your own data, `steps` follow from their number, and a run stops early. `learning_rate` is
        the highest; the last is a hundredth of it. With `eight_bits` the weights are learned as
        integers with scales. Several cells, in a sequence or with commas,
        make a hybrid stack. `architecture` is a name from `ARCHITECTURES` or a value, and `changes`
        replaces some of its points; it defaults to `robust`, and for deployable models to `paper`.
        A `tiny` model has width 16. A `deployable` model can be built as a circuit: it is tiny, has
        no positions, and its cell is a positive CMRU annealed to epsilon 0 or, if you give
        `levels`, a ladder. Other keywords are options of cells, by name.
        """
        chosen = _task(task, length)
        usual = budget(chosen.name)
        if architecture is None:
            architecture = default_architecture(deployable)
        if isinstance(architecture, str):
            architecture = architecture_named(architecture)
        if not isinstance(architecture, Architecture) or not isinstance(changes or {}, Mapping):
            raise PersistorError("give a name or an Architecture, and changes as a mapping")
        architecture = architecture.but(changes or {})
        annealed = deployable and options.get("levels") is None
        if deployable:
            if cell or encoding or anneal or options.get("epsilon"):
                raise PersistorError(
                    "a deployable model has its own cell, encoding and epsilon; leave those out"
                )
            cell, encoding = "positive-cmru" if annealed else "ladder", 0
        model = ModelSpec(
            _cells(cell),
            usual.state_size if state_size is None else state_size,
            usual.blocks if blocks is None else blocks,
            (TINY_WIDTH if tiny or deployable else 256) if width is None else width,
            dropout,
            architecture,
            tuple((name, value) for name, value in options.items() if value is not None),
            encoding=encoding,
        )
        if steps is None:
            batch = whole("batch", batch)
            steps = steps_for(chosen.examples, batch) if chosen.examples else usual.steps
        training = TrainingSpec(
            steps=steps,
            anneal=anneal or annealed,
            batch=batch,
            stop_early=bool(chosen.examples) if stop_early is None else stop_early,
            eight_bits=eight_bits,
            learning_rate=learning_rate,
            final_learning_rate=number("learning_rate", learning_rate) / 100,
        )
        return Experiment(chosen, model, training, seed)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; `from_json` is its inverse."""
        value = {
            "task": {"name": self.task.name, **self.task.to_json()},
            "model": self.model.to_json(),
            "training": self.training.to_json(),
            "seed": self.seed,
        }
        return json.loads(json.dumps(value))  # tuples become lists, as in JSON

    @staticmethod
    def from_json(
        value: dict[str, Any],
        *,
        tasks: Mapping[str, type[Task]] = KINDS,
        cells: Mapping[str, type[Cell]] = CELLS,
    ) -> Experiment:
        """The experiment that `to_json` described; `tasks` and `cells` map names to classes."""
        try:
            task = dict(value["task"])
            name = task.pop("name")
            if name not in tasks:
                raise unknown("task", name, tasks)
            return Experiment(
                task=tasks[name](**_tuples(task)),
                model=ModelSpec.from_json(value["model"], cells),
                training=TrainingSpec(**value["training"]),
                seed=value["seed"],
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise PersistorError(f"this is not the description of an experiment: {error}") from None

    def without_hints(self, value: dict[str, Any]) -> dict[str, Any]:
        """A description without what does not make it another experiment, such as a path."""
        task = {k: v for k, v in value["task"].items() if k not in self.task.hints}
        return {**value, "task": task}

    @property
    def hash(self) -> str:
        """Sixteen hex digits that identify this experiment."""
        value = self.without_hints(self.to_json())
        text = json.dumps(value, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def name(self) -> str:
        """The name of the run folder: a readable part, then the hash."""
        words = [self.task.name]
        if self.task.length:
            words.append(f"L{self.task.length}")
        words += self.model.words(annealed=self.training.anneal)
        words += ["int8"] if self.training.eight_bits else []
        words += [f"d{self.model.state_size}", f"r{self.model.blocks}", f"seed{self.seed}"]
        return "-".join([*words, self.hash])

    @property
    def reduced(self) -> bool | None:
        """Whether the budget is smaller than the paper's; None if the task is not in the paper."""
        paper = published(self.task.name)
        return None if paper is None else self.training.steps < paper.steps

    def build(self) -> Backbone:
        """The untrained model. The seed decides every weight."""
        task, key = self.task, first_key(self.seed)
        return self.model.build(task.inputs, task.outputs, task.pooling, key=key)


def default_architecture(deployable: bool) -> str:
    """The architecture of an experiment that names none: `robust` depends less on the seed.

    A circuit is built from the paper's block.
    """
    return "paper" if deployable else "robust"


def _task(task: str | Task, length: int | None) -> Task:
    """The task itself or the task with this name, at the length if one is given."""
    if isinstance(task, str):
        if task not in TASKS:
            raise unknown("task", task, TASKS)
        task = TASKS[task]()
    if not isinstance(task, Task):
        raise PersistorError(f"task is {task!r}; give a name, or a Task")
    if length is None:
        return task
    if not task.length:
        raise PersistorError(f"{task.name} has no single length; leave the length out")
    return task.with_length(length)


def _cells(cell: CellKind | Sequence[CellKind] | None) -> tuple[CellKind, ...]:
    """One cell or several; names may be separated by commas."""
    if cell is None:
        return ("cmru",)
    if isinstance(cell, str):
        return tuple(name.strip() for name in cell.split(","))
    return tuple(cell) if isinstance(cell, Sequence) else (cell,)


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields with JSON's lists turned back into tuples."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
