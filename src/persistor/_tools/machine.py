"""The machine that we run on."""

from __future__ import annotations

import os
import platform


def processors() -> int:
    """How many processors are ours."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor_name() -> str:
    """What the processors call themselves."""
    try:
        with open("/proc/cpuinfo") as lines:
            names = {line.split(":")[1].strip() for line in lines if line.startswith("model name")}
    except OSError:
        names = set()
    return " and ".join(sorted(names)) or platform.processor() or platform.machine()
