"""The compilers and the emulator of this machine, and what to install if they are missing."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from persistor._tools.errors import PersistorError

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")
PACKAGES = {
    "gcc": "gcc",
    "clang": "clang",
    "arm-none-eabi-gcc": "gcc-arm-none-eabi libnewlib-arm-none-eabi",
    "arm-none-eabi-size": "binutils-arm-none-eabi",
    "qemu-system-arm": "qemu-system-arm",
}


def missing(*tools: str) -> str:
    """Which of the tools are not installed, and how to install them; empty if all are there."""
    absent = [tool for tool in tools if shutil.which(tool) is None]
    packages = " ".join(PACKAGES[tool] for tool in absent)
    return f"no {', '.join(absent)}; `apt-get install {packages}`" if absent else ""


def host_compilers() -> list[str]:
    """The compilers for this machine."""
    found = [name for name in ("gcc", "clang") if shutil.which(name)]
    if not found:
        raise PersistorError(f"a C compiler is needed: {missing('gcc')}")
    return found


def run(command: Sequence[str | Path], *, given: bytes = b"", limit: float = 600.0) -> bytes:
    """What a command prints; if it fails, an error with what it said."""
    try:
        done = subprocess.run(
            command, input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"{command[0]} took longer than {limit:g} s") from None
    if done.returncode:
        said = done.stdout.decode(errors="replace").strip()
        raise Failed(f"{command[0]} failed (status {done.returncode}): {said[-2000:]}")
    return done.stdout


class Failed(PersistorError):
    """A compiler, or a program that it made, failed."""

    status = 1
