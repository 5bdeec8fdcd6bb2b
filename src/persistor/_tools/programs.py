"""Compiled programs are kept from one command to the next, in the cache folder.

JAX does it, in a folder that must be named before it is imported. It knows a program by its text,
by the version of jaxlib and by the options of the compiler. What else a program is made for is in
the folder's name: the kernels that it calls, and the processor.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import warnings
import zlib
from collections.abc import Iterable
from pathlib import Path

import platformdirs

from persistor._tools.errors import PersistorError
from persistor._tools.files import write_atomically

VARIABLE = "PERSISTOR_COMPILED"
LARGEST = 256 * 2**20  # bytes of all programs together; the oldest ones go first
CHECKED = ".checked"  # programs that are older than this file have been seen to be whole
KERNELS = Path(__file__).parents[1] / "kernels"
FOLDER: Path | None = None  # where this process finds programs, once it has been asked to
WRITABLE = False  # whether it may add to them
ZSTANDARD = b"\x28\xb5\x2f\xfd"  # how such a file begins


def keep_programs() -> None:
    """Let JAX keep what it compiles, unless its own variable or ours says where, or `off`.

    A folder that cannot be written is only read. Whatever goes wrong, programs are compiled.
    """
    chosen = os.environ.get(VARIABLE, "")
    if chosen == "off" or "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    root = Path(chosen) if chosen else platformdirs.user_cache_path("persistor", False) / "compiled"
    folder = root / made_for(KERNELS)
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tidy(root, folder)
        least = "0"
    except OSError:
        least = "inf"  # seconds of compiling that make a program worth writing
    if not folder.is_dir():
        return
    use(folder, writable=least == "0")
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = least
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"


def use(folder: Path | None, *, writable: bool = True) -> None:
    """Find programs in a folder from now on, and add to them if that is allowed; None: nowhere."""
    global FOLDER, WRITABLE
    FOLDER, WRITABLE = folder, writable


def place(name: str, *words: str) -> Path | None:
    """The file for what these words describe completely, if this command keeps anything."""
    digest = hashlib.blake2b("\n".join(words).encode(), digest_size=16).hexdigest()
    return None if FOLDER is None else FOLDER / f"{name}-{digest}"


def recall(path: Path | None) -> bytes | None:
    """What was kept in a file; None if it is absent or damaged."""
    with contextlib.suppress(OSError, zlib.error):
        return None if path is None else zlib.decompress(path.read_bytes())
    return None


def keep(path: Path | None, data: bytes) -> None:
    """Keep something for the next command, if that is allowed and there is room for it."""
    with contextlib.suppress(PersistorError, OSError):
        if path is not None and WRITABLE:
            write_atomically(path, zlib.compress(data, 1))


def made_for(kernels: Path) -> str:
    """A word for the kernels in a folder and for this processor."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(kernels.iterdir()):
        if path.suffix == ".so":
            digest.update(path.name.encode() + path.read_bytes())
    digest.update(_abilities().encode())
    return digest.hexdigest()


def _abilities() -> str:
    """What the processor can do, as far as the system says."""
    try:
        with open("/proc/cpuinfo") as lines:
            flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    except OSError:
        flags = platform.processor()
    return f"{platform.machine()} {flags}"


def tidy(root: Path, folder: Path) -> None:
    """Delete programs that were written only in part, and the oldest if all take too much room."""
    mark = folder / CHECKED
    checked = mark.stat().st_mtime_ns if mark.exists() else 0
    mark.write_bytes(b"")
    programs = []
    for path in root.glob("*/*"):
        with contextlib.suppress(OSError):  # another process may have deleted it
            found = path.stat()
            if path.parent == folder and found.st_mtime_ns >= checked and not _is_whole(path):
                path.unlink()
            else:
                programs.append((found.st_mtime_ns, found.st_size, path))
    _forget_oldest(programs)


def _forget_oldest(programs: Iterable[tuple[int, int, Path]]) -> None:
    """Delete files from the oldest on, given by time, size and path, until the rest has room."""
    total = 0
    for _, size, path in sorted(programs, reverse=True):
        total += size
        if total > LARGEST:
            with contextlib.suppress(OSError):
                path.unlink()


def _is_whole(path: Path) -> bool:
    """Whether a program can be unpacked. Of a file in another format, JAX finds out."""
    data = path.read_bytes()
    if path.name == CHECKED or data.startswith(ZSTANDARD):
        return True
    try:
        zlib.decompress(data)
    except zlib.error:
        return False
    return True
