"""The machine that this process runs on."""

from __future__ import annotations

import os
import platform


def processors() -> int:
    """The number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor_name() -> str:
    """The model name of the processors."""
    try:
        with open("/proc/cpuinfo") as lines:
            names = {line.split(":")[1].strip() for line in lines if line.startswith("model name")}
    except OSError:
        names = set()
    return " and ".join(sorted(names)) or platform.processor() or platform.machine()
