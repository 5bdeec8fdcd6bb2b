"""Pictures as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from persistor._tools.errors import PersistorError
from persistor._tools.files import writing

PICTURES = (".png", ".pdf", ".svg")


def save_figure(figure: Any, path: Path, dpi: int) -> None:
    """Write a figure of matplotlib's; the end of the name says in which form."""
    if path.suffix not in PICTURES:
        raise PersistorError(f"{path} names no picture; end it in {', '.join(PICTURES)}")
    with writing(path.parent):
        figure.savefig(path, dpi=dpi)
