"""The one exception for mistakes that the user can correct."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar


class PersistorError(Exception):
    """A user's mistake, not a bug: one line that says what is wrong and what to do about it.

    The command line prints it without a traceback and exits with its status.
    """

    status: ClassVar[int] = 2


class NoRoom(PersistorError):
    """The machine has no room for a file. The command was right and can be run again."""

    status: ClassVar[int] = 1


def unknown(kind: str, name: str, known: Iterable[str]) -> PersistorError:
    """The error for a name that is not registered, with the nearest one suggested."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return PersistorError(f"unknown {kind} {name!r}{hint} (known: {', '.join(names)})")
