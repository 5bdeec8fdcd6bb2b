"""What is on this machine or not: Chromium, and real data."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from persistor.data import DATASETS

CHROMIUM = shutil.which("chromium")
in_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="chromium is not installed: apt-get install chromium"
)


def opened(page, folder):
    """The document that a page becomes once its scripts ran, without a word on the console."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}"]
    options += ["--no-first-run", "--disable-background-networking", "--disable-component-update"]
    options += ["--disable-sync", "--disable-quic"]
    done = subprocess.run(
        [CHROMIUM, *options, "--enable-logging=stderr", "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "CONSOLE" not in done.stderr
    return done.stdout


# Where real data may lie: $PERSISTOR_DATA, or ../shared/data beside the checkout.
FOLDERS = [
    Path(os.environ.get("PERSISTOR_DATA", "")),
    Path(__file__).parents[2] / "shared" / "data",
]


def use_real(name, monkeypatch):
    """Point to the folder that has a data set; else the test is skipped, and says why."""
    for folder in FOLDERS:
        monkeypatch.setenv("PERSISTOR_DATA", str(folder))
        if folder.is_dir() and DATASETS[name].found():
            return
    pytest.skip(f"{name} is not here: set PERSISTOR_DATA to a folder that has it")


def real(*names):
    """The first file of these names that is there; else the test is skipped, and says why."""
    for folder in FOLDERS:
        for name in names:
            if (folder / name).is_file():
                return folder / name
    pytest.skip(f"{names[0]} is not here: set PERSISTOR_DATA to a folder that has it")
