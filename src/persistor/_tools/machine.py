"""The machine that we run on."""

from __future__ import annotations

import os


def processors() -> int:
    """How many processors are ours."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
