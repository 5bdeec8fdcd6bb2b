"""Which engine computes: one choice, for the recurrence, the layer norm and the gated linear unit.

`native` is C++ on the CPU, `sequential` and `parallel` are plain JAX; they give the same results
and gradients. `auto`, the default, is `native` wherever it can be, and elsewhere `sequential` on a
CPU and `parallel` on an accelerator. The choice is part of what `jax.jit` compiles for: a function
that is called under another engine is traced anew.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import jax

from persistor._tools.errors import PersistorError, unknown

NAMES = ("auto", "native", "sequential", "parallel")
_CHOICE = jax.make_user_context("auto")


def engine(name: str) -> AbstractContextManager[None]:
    """Compute with the engine of that name: `with persistor.engine("sequential"): ...`."""
    if name not in NAMES:
        raise unknown("engine", name, list(NAMES))
    return _CHOICE(name)


def chosen() -> str:
    """The name of the chosen engine."""
    return _CHOICE.value


def plain() -> str:
    """The engine of plain JAX that is chosen, or that stands in for `native` here."""
    if chosen() in ("sequential", "parallel"):
        return chosen()
    return "sequential" if jax.default_backend() == "cpu" else "parallel"


def runs_natively(refusal: Callable[[], str | None]) -> bool:
    """Whether to call a kernel; where `native` is asked for by name, it must be able to.

    `refusal` says why the kernel cannot take the call, or None; it is asked only if need be.
    """
    if chosen() in ("sequential", "parallel"):
        return False
    reason = refusal()
    if reason is not None and chosen() == "native":
        raise PersistorError(f"the native engine cannot be used here: {reason}")
    return reason is None
