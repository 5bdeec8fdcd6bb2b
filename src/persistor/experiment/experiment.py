"""An experiment is a value: task, model, training, seed. It goes to JSON and back, and its hash
names its run folder."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
from dataclasses import dataclass, field
from typing import Any

import jax

from persistor._tools.errors import PersistorError, unknown
from persistor.cells import CELLS, Cell
from persistor.cells.analog import checked_share
from persistor.cells.hysteresis import checked_hold
from persistor.cells.ladder import checked_levels
from persistor.model import Backbone, poised
from persistor.paper.budgets import budget
from persistor.tasks import KINDS, Task
from persistor.tasks.task import Classification

# Fields that came later: left out where they say nothing, so that earlier names stay.
LATER = {
    "model": {"levels": None, "mismatch": 0.0, "noise": 0.0, "hold": 0.0},
    "training": {"search": False},
}

POISE = 1  # parts the key of a poised start from those of the weights


def _settle(spec: ModelSpec | TrainingSpec) -> None:
    """Make numbers what their fields say: 1 and 1.0 are one experiment, with one name."""
    for field_ in dataclasses.fields(spec):
        kind, value = str(field_.type).split(" | ")[0], getattr(spec, field_.name)
        if kind == "float" and value is not None:
            object.__setattr__(spec, field_.name, float(value))
        elif kind == "int" and not isinstance(value, int | None):
            raise PersistorError(f"{field_.name} is {value}; it must be a whole number")


def checked_seed(seed: int) -> int:
    """A seed: one of the 2^32 that JAX tells apart."""
    if not 0 <= seed < 2**32:
        raise PersistorError(f"seed is {seed}; it must lie between 0 and {2**32 - 1}")
    return seed


@dataclass(frozen=True)
class ModelSpec:
    """What to build. With several cells, the blocks take them by turns (a hybrid stack)."""

    cells: tuple[str, ...] = ("cmru",)
    state: int = 4
    blocks: int = 1
    width: int = 256
    encoding: int = 256
    epsilon: float | None = None
    dropout: float = 0.0
    levels: int | None = None
    mismatch: float = 0.0
    noise: float = 0.0
    hold: float = 0.0

    def __post_init__(self):
        _settle(self)
        for name in self.cells:
            if name not in CELLS:
                raise unknown("cell", name, CELLS)
        at_least_one = {"state": self.state, "blocks": self.blocks, "width": self.width}
        for name, value in at_least_one.items():
            if value < 1:
                raise PersistorError(f"{name} is {value}; it must be at least 1")
        if self.encoding < 0 or self.encoding % 2:
            raise PersistorError(
                f"encoding is {self.encoding}; the positional encoding's width must be even "
                "(0 leaves positions out)"
            )
        if not 0 <= self.dropout < 1:
            raise PersistorError(f"dropout is {self.dropout}; it must lie in [0, 1)")
        self._check_epsilon()
        self._check_levels()
        self._check_hold()
        self._check_disturbances()

    def _check_epsilon(self) -> None:
        if self.epsilon is None:
            if self.cumulative:
                object.__setattr__(self, "epsilon", 1.0)
            return
        if not -1 <= self.epsilon <= 1:
            raise PersistorError(f"epsilon is {self.epsilon:g}; it must lie in [-1, 1]")
        if not self.cumulative:
            raise PersistorError(
                f"epsilon does not apply to {', '.join(self.cells)}; use cmru or alpha-cmru"
            )

    def _check_levels(self) -> None:
        ladder = any(_has(CELLS[name], "levels") for name in self.cells)
        if self.levels is None:
            if ladder:
                object.__setattr__(self, "levels", 4)
        elif not ladder:
            raise PersistorError(f"levels does not apply to {', '.join(self.cells)}; use ladder")
        else:
            checked_levels(self.levels)

    def _check_hold(self) -> None:
        if checked_hold(self.hold) and not any(_has(CELLS[name], "hold") for name in self.cells):
            raise PersistorError(
                f"hold does not apply to {', '.join(self.cells)}; use bmru, cmru or alpha-cmru"
            )

    def _check_disturbances(self) -> None:
        for name in ("mismatch", "noise"):
            value = checked_share(name, getattr(self, name))
            if value and not all(_has(CELLS[cell], name) for cell in self.cells):
                raise PersistorError(
                    f"{name} does not apply to {', '.join(self.cells)}; use --deployable"
                )

    @property
    def cumulative(self) -> bool:
        """Whether any of the cells has an epsilon."""
        return any(_has(CELLS[name], "epsilon") for name in self.cells)


@dataclass(frozen=True)
class TrainingSpec:
    """The paper's training protocol (appendix "Training Generalities"); `steps` is the budget.

    `search` is not the paper's: start from poised weights (`persistor.model.poised`), and while an
    evaluation is no better than a guess, start again from others, within the same schedule.
    """

    steps: int = 30_000
    anneal: bool = False
    batch: int = 64
    learning_rate: float = 1e-3
    final_learning_rate: float = 1e-5
    warmup: float = 0.01
    weight_decay: float = 1e-4
    clip: float = 1.0
    evaluate_every: int = 64
    valid_batches: int = 20
    patience: int = 100
    search: bool = False

    def __post_init__(self):
        _settle(self)
        for name in ("steps", "batch", "evaluate_every", "valid_batches", "patience"):
            if getattr(self, name) < 1:
                raise PersistorError(f"{name} is {getattr(self, name)}; it must be at least 1")


@dataclass(frozen=True)
class Experiment:
    """One training run, completely described."""

    task: Task
    model: ModelSpec = field(default_factory=ModelSpec)
    training: TrainingSpec = field(default_factory=TrainingSpec)
    seed: int = 0

    def __post_init__(self):
        if self.training.anneal and not self.model.cumulative:
            raise PersistorError(
                f"annealing needs an epsilon; {', '.join(self.model.cells)} has none"
            )
        if self.training.anneal and self.model.epsilon != 1:
            raise PersistorError("annealing sets epsilon itself, from 1 to 0; leave epsilon out")
        if self.training.search:
            self._check_search()
        checked_seed(self.seed)

    def _check_search(self) -> None:
        if not isinstance(self.task.objective, Classification):
            raise PersistorError(
                f"search needs answers that are right or wrong; {task_name(self.task)} has none"
            )
        if self.model.hold:
            raise PersistorError("search sets the thresholds itself; leave hold out")

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; `from_json` is its inverse."""
        value = dataclasses.asdict(self)
        value["task"] = {"name": task_name(self.task), **value["task"]}
        for part, later in LATER.items():
            for name, absent in later.items():
                if value[part][name] == absent:
                    del value[part][name]
        return json.loads(json.dumps(value))  # tuples become the lists that JSON has

    @staticmethod
    def from_json(value: dict[str, Any]) -> Experiment:
        """The experiment that `to_json` described."""
        try:
            task = dict(value["task"])
            name = task.pop("name")
            if name not in KINDS:
                raise unknown("task", name, KINDS)
            return Experiment(
                task=KINDS[name](**_tuples(task)),
                model=ModelSpec(**_tuples(value["model"])),
                training=TrainingSpec(**value["training"]),
                seed=value["seed"],
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise PersistorError(f"this is not the description of an experiment: {error}") from None

    @property
    def hash(self) -> str:
        """Sixteen hex digits that stand for this experiment and no other."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def name(self) -> str:
        """The run folder's name: readable first, then the hash."""
        words = [task_name(self.task)]
        if self.task.length:
            words.append(f"L{self.task.length}")
        words += self.model.cells
        if self.training.anneal:
            words.append("annealed")
        elif self.model.epsilon is not None:
            words.append(f"eps{self.model.epsilon:g}")
        if self.model.levels is not None:
            words.append(f"levels{self.model.levels}")
        if self.model.hold:
            words.append(f"hold{self.model.hold:g}")
        if self.training.search:
            words.append("search")
        words += [f"d{self.model.state}", f"r{self.model.blocks}", f"seed{self.seed}"]
        return "-".join([*words, self.hash])

    @property
    def reduced(self) -> bool:
        """Whether the budget is smaller than the paper's."""
        return self.training.steps < budget(self.task.name).steps

    def build(self, draw: int = 0) -> Backbone:
        """The untrained model; the seed and, in a search, the draw decide every weight."""
        spec = self.model
        root = jax.random.key(self.seed)
        cells_key, key = jax.random.split(jax.random.fold_in(root, draw) if draw else root)
        names = [spec.cells[i % len(spec.cells)] for i in range(spec.blocks)]
        cells = tuple(
            build_cell(name, spec, key=k)
            for name, k in zip(names, jax.random.split(cells_key, spec.blocks), strict=True)
        )
        model = Backbone(
            self.task.inputs,
            self.task.outputs,
            cells,
            width=spec.width,
            encoding=spec.encoding,
            pooling=self.task.pooling,
            dropout=spec.dropout,
            key=key,
        )
        return poised(model, key=jax.random.fold_in(key, POISE)) if self.training.search else model


def build_cell(name: str, spec: ModelSpec, *, key) -> Cell:
    """A cell by its name; epsilon, levels and so on reach only cells that have them."""
    make: Any = CELLS[name]
    names = ("epsilon", "levels", "mismatch", "noise", "hold")
    options = {name: getattr(spec, name) for name in names}
    own = {option: value for option, value in options.items() if _has(make, option)}
    return make(spec.width, spec.state, **own, key=key)


def task_name(task: Task) -> str:
    """The name of a task."""
    return task.name


def _has(cell: type, option: str) -> bool:
    return option in inspect.signature(cell).parameters


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    """JSON's lists as the tuples that they were."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
