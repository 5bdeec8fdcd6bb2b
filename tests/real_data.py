"""Where real data lie, if they do: $PERSISTOR_DATA, or ../shared/data beside the checkout."""

import os
from pathlib import Path

import pytest

FOLDERS = [
    Path(os.environ.get("PERSISTOR_DATA", "")),
    Path(__file__).parents[2] / "shared" / "data",
]


def real(*names):
    """The first file of these names that is there; else the test is skipped, and says why."""
    for folder in FOLDERS:
        for name in names:
            if (folder / name).is_file():
                return folder / name
    pytest.skip(f"{names[0]} is not here: set PERSISTOR_DATA to a folder that has it")
