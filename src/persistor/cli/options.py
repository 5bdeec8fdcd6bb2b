"""Options that are declared elsewhere, as arguments of a command.

A cell's options are declared only in the cell's file; `persistor train` takes all of them.
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
    """An option as a field of a command. Its value is None if the user leaves it out."""
    if isinstance(option.default, bool):
        return option.name, Annotated[bool, arg(help=option.help)], option.default
    kind = Literal[option.choices] if option.choices else type(option.default)
    default = f"{option.default:g}" if isinstance(option.default, int | float) else option.default
    hint = f"(default: {default})"
    name = None if option.choices else type(option.default).__name__.upper()
    argument = arg(metavar=name, help=option.help, help_behavior_hint=hint)
    return option.name, Annotated[kind | None, argument], None


def _cells_folder() -> Path:
    """The folder of the cells' files, found without importing them."""
    spec = find_spec("persistor")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "cells"


CELL_OPTIONS = dataclasses.make_dataclass(
    "CellOptions", map(_argument, declared_in(_cells_folder())), frozen=True
)
CELL_OPTIONS.__doc__ = "Options of cells. Each applies only to the cells that declare it."
CellOptions = Annotated[Any, arg(name="", constructor=CELL_OPTIONS)]


@dataclasses.dataclass(frozen=True)
class DataOptions:
    """How to read your own data. Each applies only together with --data."""

    clip: Annotated[
        float | None,
        arg(
            metavar="SECONDS",
            help="Length of a sound: longer ones are cut, shorter ones are padded.",
            help_behavior_hint="(default: 95% of the sounds fit; at most 10)",
        ),
    ] = None
    split: Annotated[
        Literal["random", "folders", "lists"] | None,
        arg(
            help="How files are divided: at random; as the folders train, valid and test say; or "
            "as validation_list.txt and testing_list.txt say.",
            help_behavior_hint="(default: folders if there are such folders, else random)",
        ),
    ] = None
    group_by: Annotated[
        str | None,
        arg(
            metavar="REGEX|CSV",
            help="Keep groups, such as speakers, in one split: a regular expression with a group "
            "(?P<group>...) that is searched in file names, or a CSV file of names and groups.",
            help_behavior_hint="(default: no groups)",
        ),
    ] = None
    columns: Annotated[
        str | None,
        arg(
            metavar="A,B,...",
            help="Input columns of a table.",
            help_behavior_hint="(default: all others)",
        ),
    ] = None
    target: Annotated[
        str | None,
        arg(
            metavar="COLUMN",
            help="Column of a table to predict.",
            help_behavior_hint="(default: the folder)",
        ),
    ] = None
    sequence: Annotated[
        str | None,
        arg(
            metavar="COLUMN",
            help="Column of a table that names the sequence of a row.",
            help_behavior_hint="(default: a file is a sequence)",
        ),
    ] = None


def given_options(options: Any) -> dict[str, Value]:
    """The options that differ from what a command has without them."""
    values = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    usual = {field.name: field.default for field in dataclasses.fields(options)}
    return {name: value for name, value in values.items() if value != usual[name]}


def assignments(texts: Iterable[str]) -> dict[str, str]:
    """The values of KEY=VALUE texts, by key."""

    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise PersistorError(f"{text!r} sets nothing; write KEY=VALUE, such as norm=first")
        values[name] = value
    return values
