"""What computes on this machine, and why: what `persistor doctor` prints."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version

import jax

from persistor import kernels
from persistor._tools.machine import processors

PACKAGES = ("persistor", "jax", "jaxlib", "equinox", "optax", "numpy")


def examine() -> dict[str, str | int]:
    """Findings by name; `engine` is what `auto` means here, `reason` why."""
    engine, reason = engine_here()
    return {
        "engine": engine,
        "reason": reason,
        "kernels": proven(),
        "compiled": compiled(),
        "backend": jax.default_backend(),
        "cores": processors(),
        "machine": f"{platform.machine()}, {platform.system()}",
        "python": platform.python_version(),
        **versions(),
    }


def versions() -> dict[str, str]:
    """The versions of the packages that a number depends on."""
    return {package: version(package) for package in PACKAGES}


def engine_here() -> tuple[str, str]:
    """The engine that `auto` picks, and the reason."""
    if (backend := jax.default_backend()) != "cpu":
        return "parallel", f"the backend is {backend}"
    library = kernels.library()
    if library.variant is None:
        return "sequential", f"{library.reason}; install a compiler, then persistor again"
    return f"native ({library.variant})", library.reason


def compiled() -> str:
    """Which variant of the kernels is loaded, and the jaxlib that it was compiled with."""
    library = kernels.library()
    if library.variant is None:
        return f"none: {library.reason}"
    return f"{library.variant}, with jaxlib {library.jaxlib}"


def proven() -> str:
    """The kernels that were called once and gave what plain JAX gives."""
    if jax.default_backend() != "cpu":
        return "none: they run on CPUs"
    return ", ".join(f"{kernel} proven" for kernel in kernels.library().proven) or "none"


def missing_backend() -> str | None:
    """What to do if JAX cannot run on the platform that JAX_PLATFORMS names; None if it can."""
    try:
        jax.devices()
    except (AssertionError, RuntimeError):  # JAX asserts for cuda, and raises for other names
        wanted = os.environ.get("JAX_PLATFORMS", "")
        return (
            f"JAX cannot run on JAX_PLATFORMS={wanted} here; unset JAX_PLATFORMS to run on the "
            "CPU, or install JAX for that platform (docs.jax.dev/en/latest/installation.html)"
        )
    return None
