"""The compiled kernels: found, chosen by what the processor can do, made known to XLA, proven."""

from __future__ import annotations

import ctypes
import functools
import os
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp

from persistor._tools.errors import PersistorError
from persistor.arrays import Array
from persistor.kernels.proof import KERNELS, SYMBOLS, prove

WIDER = {"avx512": "AVX-512", "avx2": "AVX2"}  # variants for some processors, fastest first


@dataclass(frozen=True)
class Library:
    """Which variant of the kernels is loaded, if any, why, and which kernels were proven.

    `jaxlib` is the version whose headers they were compiled with, `xla_threads` how many threads
    XLA lends them.
    """

    variant: str | None
    reason: str
    proven: tuple[str, ...] = ()
    jaxlib: str | None = None
    xla_threads: int | None = None

    @property
    def threads(self) -> int | None:
        """How many threads the kernels use: XLA's, or as many as PERSISTOR_THREADS allows."""
        limit = os.environ.get("PERSISTOR_THREADS", "")
        if self.xla_threads is None or not limit.isdecimal():
            return self.xla_threads
        return min(self.xla_threads, max(1, int(limit)))


def library() -> Library:
    """The kernels that were compiled with this package, loaded once."""
    return load(Path(__file__).parent)


@functools.cache
def load(folder: Path) -> Library:
    """Load the kernels in a folder; those that do not work are as good as absent."""
    portable = _compiled(folder, "_portable")
    if portable is None:
        return Library(None, "not compiled: there was no C++ compiler when this was installed")
    try:
        chosen, variant, reason = ctypes.CDLL(str(portable)), "portable", "no AVX2 here"
        for name, feature in WIDER.items():
            path = _compiled(folder, f"_{name}")
            if path is not None and getattr(chosen, f"supports_{name}")():
                chosen, variant = ctypes.CDLL(str(path)), name
                reason = f"this processor has {feature}"
                break
    except OSError as error:
        return Library(None, f"the compiled kernels do not load: {error}")
    try:
        _register(chosen)
        prove()
    except Exception as error:  # whatever it is, plain JAX can do without the kernels
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        jaxlib = version("jaxlib")
        return Library(None, f"the compiled kernels fail with jaxlib {jaxlib}: {first_line}")
    chosen.compiled_with.restype = ctypes.c_char_p
    jaxlib, threads = chosen.compiled_with().decode(), chosen.threads_of_xla()
    return Library(variant, reason, KERNELS, jaxlib, threads)


def _register(compiled: ctypes.CDLL) -> None:
    """Make every kernel known to XLA."""
    for symbol in SYMBOLS:
        capsule = jax.ffi.pycapsule(getattr(compiled, symbol))
        jax.ffi.register_ffi_target(f"persistor_{symbol}", capsule, platform="cpu")


def require() -> None:
    """Load the kernels, or say why they cannot be used."""
    if library().variant is None:
        raise PersistorError(f"the native engine cannot be used here: {library().reason}")


def refusal(*arrays: Array) -> str | None:
    """Why the native kernels cannot take a call with these arrays; None if they can."""
    if (backend := jax.default_backend()) != "cpu":
        return f"it runs on CPUs, and this is a {backend}"
    if library().variant is None:
        return library().reason
    if any(array.size == 0 for array in arrays):
        return "there is nothing to compute"
    inexact = (a.dtype for a in arrays if jnp.issubdtype(a.dtype, jnp.inexact))
    if others := {str(dtype) for dtype in inexact} - {"float32", "complex64"}:
        return f"it computes in single precision, not in {', '.join(sorted(others))}"
    return None


def _compiled(folder: Path, variant: str) -> Path | None:
    """The compiled file of a variant; it serves every Python."""
    path = folder / f"{variant}.so"
    return path if path.exists() else None
