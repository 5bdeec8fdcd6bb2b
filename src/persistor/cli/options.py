"""Options that are declared elsewhere, as arguments of a command.

Options of cells stand in the cells' files and nowhere else: what a cell declares, `persistor train`
asks for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import arg

from persistor._tools.errors import PersistorError
from persistor._tools.options import Option, Value, declared_in


def _argument(option: Option) -> tuple[str, Any, Any]:
    """An option as a field of a command: none where it is not given."""
    if isinstance(option.default, bool):
        return option.name, Annotated[bool, arg(help=option.help)], False
    kind = Literal[option.choices] if option.choices else type(option.default)
    default = f"{option.default:g}" if isinstance(option.default, int | float) else option.default
    hint = f"(default: {default})"
    return option.name, Annotated[kind | None, arg(help=option.help, help_behavior_hint=hint)], None


def _cells_folder() -> Path:
    """Where the cells' files are, found without importing them."""
    spec = find_spec("persistor")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "cells"


CELL_OPTIONS = dataclasses.make_dataclass(
    "CellOptions", map(_argument, declared_in(_cells_folder())), frozen=True
)
CELL_OPTIONS.__doc__ = "Options of cells; each applies to the cells that have it."
CellOptions = Annotated[Any, arg(name="", constructor=CELL_OPTIONS)]


def given_options(options: Any) -> dict[str, Value]:
    """The options that were given."""
    return {k: v for k, v in vars(options).items() if v is not None and v is not False}


def assignments(texts: Iterable[str]) -> dict[str, str]:
    """KEY=VALUE, by key."""
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise PersistorError(f"{text!r} sets nothing; write KEY=VALUE, such as norm=first")
        values[name] = value
    return values
