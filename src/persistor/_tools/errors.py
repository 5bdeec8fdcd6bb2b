"""The one exception that means: a person can put this right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PersistorError(Exception):
    """A mistake of use, not a bug: one line saying what was wrong and what to do about it.

    The command line prints it without a traceback and exits with status 2.
    """


def unknown(kind: str, name: str, known: Iterable[str]) -> PersistorError:
    """The error for a name that is not registered, with the nearest one suggested."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return PersistorError(f"unknown {kind} {name!r}{hint} (known: {', '.join(names)})")
