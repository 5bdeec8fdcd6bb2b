"""Options that are declared once, in the file of their cell.

A cell's file says `HOLD = Option("hold", 0.0, "...", low=0.0)` and its class lists it in `options`.
That one line is enough: the value is checked here, stored in the description of the model, shown in
the name of its run, and `persistor train` takes it as `--hold`.
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from persistor._tools.errors import PersistorError, unknown

Value = float | int | str | bool


@dataclass(frozen=True)
class Option:
    """A setting with a default, which fixes its type, and with limits or choices.

    A `start` option says how parameters begin. The paper leaves this open, so it is part of an
    architecture; other options are part of a model. `word` precedes the value in the name of a run,
    which shows it if it is not the default, or `always`.
    """

    name: str
    default: Value
    help: str
    low: float | int | None = None
    high: float | int | None = None
    choices: tuple[str, ...] = ()
    start: bool = False
    word: str = ""
    always: bool = False

    def checked(self, value: object) -> Value:
        """The value as this option keeps it, or an error that says what it must be."""
        if isinstance(value, str) and not isinstance(self.default, str):
            value = self._read(value)
        if isinstance(self.default, str):
            if not isinstance(value, str) or (self.choices and value not in self.choices):
                raise self._error(value, f"one of {', '.join(self.choices)}")
            return str(value)
        if isinstance(self.default, bool):
            if not isinstance(value, bool):
                raise self._error(value, "true or false")
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._error(value, "a number")
        return self._number(value)

    def shown(self, value: Value) -> str | None:
        """The value as the name of a run shows it; None if the name leaves it out."""
        if not self.word or (value == self.default and not self.always):
            return None
        return f"{self.word}{value:g}" if isinstance(value, int | float) else f"{self.word}{value}"

    def _number(self, value: float | int) -> Value:
        inside = math.isfinite(value)
        inside &= self.low is None or value >= self.low
        inside &= self.high is None or value <= self.high
        if isinstance(self.default, int):
            if not inside or value % 1:
                raise self._error(value, f"a whole number, {self._range()}")
            return int(value)
        if not inside:
            raise self._error(value, f"a finite number, {self._range()}")
        return float(value)

    def _range(self) -> str:
        if self.low is not None and self.high is not None:
            return f"in [{self.low:g}, {self.high:g}]"
        return "of any size" if self.low is None else f"at least {self.low:g}"

    def _read(self, text: str) -> object:
        """A typed value as a number or a boolean; other text is returned, and refused later."""
        if isinstance(self.default, bool):
            return {"true": True, "false": False}.get(text.lower(), text)
        try:
            return float(text)
        except ValueError:
            return text

    def _error(self, value: object, expected: str) -> PersistorError:
        shown = f"{value:g}" if isinstance(value, float) else value
        return PersistorError(f"{self.name} is {shown}; it must be {expected}")


def check_all(
    options: Mapping[str, Option], values: Mapping[str, object], kind: str
) -> dict[str, Value]:
    """Values by name, each as its option keeps it; an error if a name is unknown."""
    for name in values:
        if name not in options:
            raise unknown(kind, name, options)
    return {name: options[name].checked(value) for name, value in values.items()}


@functools.cache
def declared_in(folder: Path) -> tuple[Option, ...]:
    """The options that the Python files of a folder declare, parsed from their text.

    Importing a cell would import JAX, and that is too slow for `--help`.
    """
    assigned = [
        node.value
        for path in sorted(folder.glob("*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call)
    ]
    calls = [c for c in assigned if isinstance(c.func, ast.Name) and c.func.id == Option.__name__]
    return tuple(
        Option(
            *map(ast.literal_eval, call.args),
            **{k.arg: ast.literal_eval(k.value) for k in call.keywords if k.arg is not None},
        )
        for call in calls
    )
