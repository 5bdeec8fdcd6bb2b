"""Keep freed memory in the process instead of returning it to the system."""

from __future__ import annotations

import ctypes
import sys

# From glibc's malloc.h. Blocks above the first threshold (default: 128 kB) are mapped one by one.
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1
_LARGEST = 1 << 30


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
