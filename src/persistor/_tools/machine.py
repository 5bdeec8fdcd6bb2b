"""The machine that this process runs on: its processors, and how its memory is handed out."""

from __future__ import annotations

import ctypes
import os
import platform
import sys

# From glibc's malloc.h. Blocks above the first threshold (default: 128 kB) are mapped one by one.
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1
_LARGEST = 1 << 30


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


def keep_freed_memory() -> bool:
    """Make this process reuse freed blocks of up to a gigabyte; whether the C library can do so.

    XLA allocates its results again at every call, and the system would zero large blocks page by
    page each time.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is None:
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _LARGEST) and mallopt(_TRIM_THRESHOLD, _LARGEST))
