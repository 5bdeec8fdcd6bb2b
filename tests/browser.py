"""Chromium without a window, where it is installed."""

import shutil
import subprocess

import pytest

CHROMIUM = shutil.which("chromium")
in_browser = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


def opened(page, folder):
    """The document that a page becomes once its scripts ran, without a word on the console."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}"]
    done = subprocess.run(
        [CHROMIUM, *options, "--enable-logging=stderr", "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "CONSOLE" not in done.stderr
    return done.stdout
