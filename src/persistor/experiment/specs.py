"""The two halves of an experiment's description: what to build, and how to train it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from persistor._tools.errors import PersistorError, unknown
from persistor._tools.options import Option, Value
from persistor.arrays import Key
from persistor.cells import CELLS, Cell
from persistor.cells.epsilon import EPSILON
from persistor.model import ARCHITECTURES, PAPER, Architecture, Backbone, Pooling
from persistor.model.architecture import cell_starts
from persistor.nn.draws import split

WHOLE = ("steps", "batch", "evaluate_every", "valid_batches", "patience")  # of training
SWITCHES = ("anneal", "stop_early", "eight_bits")
NUMBERS = ("learning_rate", "final_learning_rate", "warmup", "weight_decay", "clip")
CellKind = str | type[Cell]  # a registered name, or your own class


def cell_class(cell: CellKind) -> type[Cell]:
    """The class of a cell, given the class itself or its registered name."""
    if isinstance(cell, str):
        if cell not in CELLS:
            raise unknown("cell", cell, CELLS)
        return CELLS[cell]
    if not (isinstance(cell, type) and issubclass(cell, Cell)):
        raise PersistorError(f"cell is {cell!r}; give a name, or a class of cells")
    return cell


def cell_name(cell: CellKind) -> str:
    """The registered name of a class, or the class's own name if it is not registered."""
    kind = cell_class(cell)
    return next((name for name, known in CELLS.items() if known is kind), kind.__name__)


@dataclass(frozen=True, init=False)
class ModelSpec:
    """What to build: cells, sizes, options of the cells, and the architecture.

    With several cells, the blocks alternate between them (a hybrid stack). Options of cells are
    keywords: `ModelSpec(("cmru",), epsilon=0.5)`. Options that are starts, such as `hold`, and the
    width of the positional `encoding` become part of the architecture.
    """

    cells: tuple[CellKind, ...]
    state_size: int
    blocks: int
    width: int
    dropout: float
    architecture: Architecture
    options: tuple[tuple[str, Value], ...]  # of all cells, sorted by name, defaults filled in

    def __init__(
        self,
        cells: Iterable[CellKind] = ("cmru",),
        state_size: int = 4,
        blocks: int = 1,
        width: int = 256,
        dropout: float = 0.0,
        architecture: Architecture = PAPER,
        options: Iterable[tuple[str, Value]] = (),
        *,
        encoding: int | None = None,
        **named: Value | None,
    ):
        def set_field(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        if isinstance(cells, str):
            raise PersistorError(f"cells is {cells!r}; give a sequence of cells: ({cells!r},)")
        set_field("cells", tuple(_registered(cell) for cell in cells))
        set_field("state_size", whole("state_size", state_size))
        set_field("blocks", whole("blocks", blocks))
        set_field("width", whole("width", width))
        set_field("dropout", number("dropout", dropout))
        if not self.cells:
            raise PersistorError("cells is empty; name at least one cell")
        if not 0 <= self.dropout < 1:
            raise PersistorError(f"dropout is {self.dropout:g}; it must lie in [0, 1)")
        chosen = {**dict(options), **{k: v for k, v in named.items() if v is not None}}
        known = self.known_options()
        for name in chosen:
            if name not in known:
                raise self._not_an_option(name)
        starts = {name: value for name, value in chosen.items() if _is_start(known[name])}
        points = starts if encoding is None else {**starts, "encoding": encoding}
        architecture = architecture.but(points) if points else architecture
        architecture = architecture.of_cells(known)
        if architecture.encoding == self.width:  # None means the same: keep one spelling
            architecture = dataclasses.replace(architecture, encoding=None)
        set_field("architecture", architecture)
        rest = {o.name: chosen.get(o.name, o.default) for o in known.values() if not _is_start(o)}
        checked = {name: known[name].checked(value) for name, value in rest.items()}
        set_field("options", tuple(sorted(checked.items())))

    def known_options(self) -> dict[str, Option]:
        """The options of these cells, by name."""
        return {o.name: o for cell in self.cells for o in cell_class(cell).options}

    def option(self, name: str) -> Value | None:
        """The value of an option that is not a start; None if no cell has it."""
        return dict(self.options).get(name)

    def _not_an_option(self, name: str) -> PersistorError:
        having = [cell for cell, kind in CELLS.items() if name in {o.name for o in kind.options}]
        if not having:
            every = {o.name for kind in CELLS.values() for o in kind.options}
            return unknown("option", name, every)
        cells = ", ".join(map(cell_name, self.cells))
        return PersistorError(f"{name} does not apply to {cells}; use {' or '.join(having)}")

    @property
    def cumulative(self) -> bool:
        """Whether any of the cells has an epsilon."""
        return EPSILON.name in self.known_options()

    @property
    def encoding(self) -> int:
        """The width of the positional encoding."""
        chosen = self.architecture.encoding
        return self.width if chosen is None else chosen

    @property
    def reading(self) -> str | None:
        """The name of the architecture, whatever the width of its encoding; None if it has none."""
        known, encoding = self.known_options(), self.architecture.encoding
        for name, value in ARCHITECTURES.items():
            if dataclasses.replace(value.of_cells(known), encoding=encoding) == self.architecture:
                return name
        return None

    def words(self, *, annealed: bool) -> list[str]:
        """The words for the model in the name of a run, without its sizes."""
        shown, robust = [], self.reading == "robust"
        for option in self.known_options().values():
            if robust and _is_start(option):
                continue
            values = dict(self.architecture.starts if _is_start(option) else self.options)
            word = option.shown(values.get(option.name, option.default))
            if option is EPSILON and annealed:
                word = "annealed"
            shown += [] if word is None else [word]
        words = ["robust"] if robust else self.architecture.words
        return [*map(cell_name, self.cells), *shown, *words]

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values. New defaults are left out, so that earlier runs keep their hash."""
        known = self.known_options()
        options = {n: v for n, v in self.options if known[n].always or v != known[n].default}
        changed = self.architecture.to_json()
        changed.pop("encoding", None)
        hold = {"hold": changed.pop("hold")} if "hold" in changed else {}
        return {
            "cells": [cell_name(cell) for cell in self.cells],
            "state": self.state_size,
            "blocks": self.blocks,
            "width": self.width,
            "encoding": self.encoding,
            "dropout": self.dropout,
            "epsilon": None,
            **options,
            **hold,
            **({"architecture": changed} if changed else {}),
        }

    @staticmethod
    def from_json(value: Mapping[str, Any], cells: Mapping[str, type[Cell]] = CELLS) -> ModelSpec:
        """The model that `to_json` described; `cells` maps names to classes."""
        rest = dict(value)
        names = rest.pop("cells")
        for name in names:
            if name not in cells:
                raise unknown("cell", name, cells)
        changes = {**rest.pop("architecture", {}), "encoding": rest.pop("encoding")}
        return ModelSpec(
            [cells[name] for name in names],
            rest.pop("state"),
            rest.pop("blocks"),
            rest.pop("width"),
            rest.pop("dropout"),
            PAPER.but(changes),
            **rest,
        )

    def build(self, inputs: int, outputs: int, pooling: Pooling, *, key: Key) -> Backbone:
        """The untrained model. The key decides every weight."""
        cells_key, key = split(key)
        kinds = [cell_class(self.cells[i % len(self.cells)]) for i in range(self.blocks)]
        cells = tuple(
            self.build_cell(kind, key=k)
            for kind, k in zip(kinds, split(cells_key, self.blocks), strict=True)
        )
        return Backbone(
            inputs,
            outputs,
            cells,
            width=self.width,
            architecture=self.architecture,
            pooling=pooling,
            dropout=self.dropout,
            key=key,
        )

    def build_cell(self, kind: type[Cell], *, key: Key) -> Cell:
        """A cell of this model, built with the options that its class declares."""
        values = {**dict(self.options), **dict(self.architecture.starts)}
        cell_options = {o.name: values.get(o.name, o.default) for o in kind.options}
        make: Any = kind  # a cell's constructor takes the two sizes and its options
        return make(self.width, self.state_size, **cell_options, key=key)


def _is_start(option: Option) -> bool:
    """Whether the architecture holds this option: only the starts of registered cells are there."""
    return option.start and option.name in cell_starts()


def _registered(cell: CellKind) -> CellKind:
    """A registered cell's name, else the class; so the same model has the same description."""
    name = cell_name(cell)
    return name if name in CELLS else cell


def whole(name: str, value: object) -> int:
    """The value, if it is a whole number of at least 1; otherwise an error."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise PersistorError(f"{name} is {value}; it must be a whole number")
    if value < 1:
        raise PersistorError(f"{name} is {value}; it must be at least 1")
    return value


def number(name: str, value: object) -> float:
    """The value as a float, so that 1 and 1.0 name the same experiment; an error if no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PersistorError(f"{name} is {value}; it must be a number")
    return float(value)


def not_negative(name: str, value: object) -> float:
    """A finite number that is not negative."""
    checked = number(name, value)
    if not 0 <= checked < math.inf:
        raise PersistorError(f"{name} is {checked:g}; it must be a finite number, at least 0")
    return checked


def switch(name: str, value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise PersistorError(f"{name} is {value!r}; it must be True or False")
    return value


@dataclass(frozen=True)
class TrainingSpec:
    """The paper's training protocol (appendix "Training Generalities"); `steps` is the budget.

    `stop_early` is not in the paper: a run ends when validation has not improved for a quarter of
    its steps. Nor is `eight_bits`: matrices are rounded as `export c --weights int8` rounds them,
    in every step, and the weights that are kept are the rounded ones.
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
    stop_early: bool = False
    eight_bits: bool = False

    def __post_init__(self):
        for names, check in ((WHOLE, whole), (NUMBERS, not_negative), (SWITCHES, switch)):
            for name in names:
                object.__setattr__(self, name, check(name, getattr(self, name)))
        if self.warmup > 1:
            raise PersistorError(f"warmup is {self.warmup:g}; it is a share of the steps, up to 1")

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; a later switch only if on, so that earlier runs keep their hash."""
        values = dataclasses.asdict(self)
        for name in ("stop_early", "eight_bits"):
            if not values[name]:
                del values[name]
        return values
