"""The compiled kernels: found, chosen by what the processor can do, and made known to XLA."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import jax
import jax.numpy as jnp

from persistor._tools.errors import PersistorError
from persistor.arrays import Array

RECURRENCES = {  # how many projections and parameters a unit has
    "cmru": (2, 2),
    "alpha_cmru": (3, 1),
    "positive_cmru": (1, 3),
    "ladder": (1, 2),
    "mingru": (2, 0),
    "lru": (2, 3),
}
KERNELS = (*RECURRENCES, "norm", "glu")


@dataclass(frozen=True)
class Library:
    """Which variant of the kernels is loaded, if any, and why."""

    variant: str | None
    reason: str


@functools.cache
def library() -> Library:
    """Load the kernels, once."""
    portable = _compiled("_portable")
    if portable is None:
        return Library(None, "not compiled: there was no C++ compiler when this was installed")
    try:
        chosen, variant, reason = ctypes.CDLL(str(portable)), "portable", "no AVX2 here"
        avx2 = _compiled("_avx2")
        if avx2 is not None and chosen.supports_avx2():
            chosen, variant, reason = ctypes.CDLL(str(avx2)), "avx2", "this processor has AVX2"
    except OSError as error:
        return Library(None, f"the compiled kernels do not load: {error}")
    for kernel in KERNELS:
        for way in ("forward", "backward"):
            symbol = f"{kernel}_{way}"
            capsule = jax.ffi.pycapsule(getattr(chosen, symbol))
            jax.ffi.register_ffi_target(f"persistor_{symbol}", capsule, platform="cpu")
    return Library(variant, reason)


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


def _compiled(variant: str) -> Path | None:
    """The compiled file of a variant."""
    folder = Path(__file__).parent
    paths = (folder / f"{variant}{suffix}" for suffix in EXTENSION_SUFFIXES)
    return next((path for path in paths if path.exists()), None)
