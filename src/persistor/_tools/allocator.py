"""Memory that the C library would give back to the system only to ask for it again."""

from __future__ import annotations

import ctypes
import sys

# Of glibc's malloc.h. A block from here on is mapped and unmapped by itself; by default 128 kB.
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1
_LARGEST = 1 << 30


def keep_freed_memory() -> bool:
    """Have blocks of up to a gigabyte used again, in this process; whether that can be had here.

    XLA allocates results anew at every call, and the system hands large blocks out page by page,
    each of them zeroed.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is None:
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _LARGEST) and mallopt(_TRIM_THRESHOLD, _LARGEST))
