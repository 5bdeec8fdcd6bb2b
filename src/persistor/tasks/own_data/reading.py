"""How to read your own data: what a person may choose."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from persistor._tools.errors import PersistorError
from persistor.data import splits


@dataclass(frozen=True)
class Reading:
    """How to read your own data; what is left out follows from the data.

    `clip` is the length of a sound in seconds. `split` is random, folders or lists. `group_by` is a
    regular expression with a group `group`, or a CSV file of names and groups. Tables have input
    `columns`, a column to predict, `target`, and one that names the `sequence` of a row.
    """

    clip: float | None = None
    split: str | None = None
    group_by: str | None = None
    columns: tuple[str, ...] = ()
    target: str = ""
    sequence: str = ""

    def __post_init__(self):
        is_number = isinstance(self.clip, int | float) and not isinstance(self.clip, bool)
        if self.clip is not None and not is_number:
            raise PersistorError(f"clip is {self.clip!r}; give a number of seconds")
        for name in ("split", "group_by", "target", "sequence"):
            value = getattr(self, name)
            if not isinstance(value, str | None):
                raise PersistorError(f"{name} is {value!r}; give a text")
        if not isinstance(self.columns, tuple) or not all(isinstance(c, str) for c in self.columns):
            raise PersistorError(f"columns is {self.columns!r}; give a tuple of names")

    def only(self, path: Path, kind: str, *names: str) -> None:
        """Raise if anything else is chosen: it does not apply to this kind of data."""
        for entry in dataclasses.fields(self):
            if getattr(self, entry.name) != entry.default and entry.name not in names:
                option = "--" + entry.name.replace("_", "-")
                raise PersistorError(f"{path} holds {kind}; {option} does not apply to it")

    def check_rule(self, rule: str) -> None:
        """Raise if there is no such rule, or if groups are asked for besides."""
        if rule not in splits.RULES:
            raise PersistorError(f"split is {rule}; it must be {', '.join(splits.RULES)}")
        if rule != "random" and self.group_by:
            raise PersistorError(f"--group-by divides at random; leave out --split {rule} or it")

    def grouping(self, path: Path) -> dict[str, Any]:
        """The fields for a pattern, or for a file of groups, which may be inside the folder."""
        if not self.group_by:
            return {}
        file = Path(self.group_by)
        if not file.is_file():
            return {"group_by": self.group_by}
        file = file.resolve()
        return {"group_file": str(file.relative_to(path) if file.is_relative_to(path) else file)}
