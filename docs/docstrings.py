"""Docstrings of persistor are plain text with `names` in backticks; Sphinx reads another form."""

from __future__ import annotations

import re

import persistor


def to_restructured(
    app: object, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Make names into links where they are public, formulas literal, and tables into tables."""
    package = "persistor.torch" if name.startswith("persistor.torch") else "persistor"
    done: list[str] = []
    table: list[list[str]] = []
    for line in [*lines, ""]:
        if re.match(r"\s*\|.*\|\s*$", line):
            table.append([cell.strip() for cell in line.strip().strip("|").split("|")])
            continue
        if table:
            done += _table(table, package)
            table = []
        done.append(line if line.startswith("    ") else _inline(line, package))
    for number, line in enumerate(done):  # an indented example after a paragraph is a block
        if line.startswith("    ") and number > 1 and not done[number - 1] and done[number - 2]:
            before = done[number - 2]
            if not before.startswith(" ") and not before.endswith("::"):
                done[number - 2] = before + ("\n\n::" if not before.endswith(":") else ":")
    lines[:] = "\n".join(done).split("\n")


def _inline(text: str, package: str) -> str:
    """One line: names in backticks as code, all else as it stands."""
    parts = re.split(r"``?([^`]+)``?", text)
    for number, part in enumerate(parts):
        if number % 2:
            parts[number] = _name(part, package)
        else:
            parts[number] = re.sub(r"([|*_\\])", r"\\\1", part)
    return "".join(parts)


def _name(text: str, package: str) -> str:
    short = text.removeprefix("persistor.")
    if short in persistor.__all__:
        home = "persistor" if text != short else package
        return f":py:obj:`{text} <{home}.{short}>`"
    if re.fullmatch(r"persistor(\.\w+)+", text):
        return f":py:obj:`{text}`"
    return f"``{text}``"


def _table(rows: list[list[str]], package: str) -> list[str]:
    """A table of Markdown as one of reStructuredText."""
    head, _, *body = rows
    lines = ["", ".. list-table::", "   :header-rows: 1", ""]
    for row in (head, *body):
        for number, cell in enumerate(row):
            lines.append(f"   {'* -' if number == 0 else '  -'} {_inline(cell, package)}")
    return [*lines, ""]


def shorter_types(
    app: object, what: str, name: str, obj: object, options: object, given: str | None, result: str
) -> tuple[str | None, str | None]:
    """Types as they stand in the code, and the transitions of JAX where two packages have them."""

    def short(text: str | None) -> str | None:
        if text is None:
            return None
        text = text.replace("jaxlib._jax.Array", "Array")
        text = re.sub(r"Key(\[Array, ''\])?( \| UInt32\[Array, '\d'\])+", "Key", text)
        text = re.sub(r"Architecture\(norm=.*?starts=\(\)\)", "PAPER", text)
        if name.startswith("persistor.analysis"):
            text = re.sub(r"(?<![\w.~])Affine\b", "~persistor.Affine", text)
        return text

    return short(given), short(result)
