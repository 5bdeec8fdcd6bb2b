"""Every picture: nothing outside this room draws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from persistor._tools.errors import PersistorError
from persistor._tools.files import writing

PICTURES = (".png", ".pdf", ".svg")


def save_figure(figure: Any, path: Path, dpi: int) -> None:
    """Write a matplotlib figure; the suffix of the path decides the format."""
    if path.suffix not in PICTURES:
        raise PersistorError(f"{path} is not a picture; use one of {', '.join(PICTURES)}")

    with writing(path):
        figure.savefig(path, dpi=dpi)
