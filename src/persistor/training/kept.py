"""Programs that are kept from one command to the next, and found without being traced again.

JAX keeps what XLA compiles (`_tools/programs.py`), but to find a program there it traces and lowers
the function, which takes as long as a short run. Here a program is known by words: what it is made
for, the types of its arguments, the code of this package, JAX and its settings. What cannot be kept
or found is compiled.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import serialize_executable

from persistor._tools import programs
from persistor._tools.machine import processors
from persistor.arrays import Array
from persistor.kernels import library
from persistor.kernels.engine import chosen

PACKAGE = Path(__file__).parents[1]
# LLVM at its lowest level, and no MLIR for fusions: a step is compiled in a quarter of the time
QUICKLY = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
MADE_WITH = ("jax", "jaxlib", "equinox", "optax", "numpy")
SETTINGS = ("JAX_", "XLA_", "NPROC")
ELSEWHERE = ("JAX_COMPILATION_CACHE", "JAX_PERSISTENT_CACHE")  # settings that change no program


def compiled(
    function: Callable,
    made_for: str | None = None,
    *,
    donated: int | None = None,
    quickly: bool = False,
) -> Callable:
    """The function, compiled, and kept where this command keeps programs.

    `made_for` says all that the program depends on besides the types of its arguments; without it,
    nothing is kept. Results are arrays, in tuples or alone. The memory of argument number `donated`
    is used again. A program that runs for a moment only is best compiled `quickly`.
    """
    options = QUICKLY if quickly else None
    if made_for is None or programs.FOLDER is None:
        donate = "none" if donated is None else "all-except-first"
        return eqx.filter_jit(function, donate=donate, compiler_options=options)  # pyright: ignore[reportCallIssue]
    return Kept(function, made_for, donated, options)


class Kept:
    """A compiled function that is kept in the cache folder."""

    def __init__(
        self, function: Callable, made_for: str, donated: int | None, options: dict[str, Any] | None
    ):
        self.function, self.made_for = function, made_for
        self.donated, self.options = donated, options
        self._programs: dict[Any, Callable] = {}

    def __call__(self, *args: Any) -> Any:
        """The results of the program for arguments like these."""
        arrays, static = eqx.partition(args, _is_array)
        leaves, structure = jax.tree.flatten(arrays)
        types = [str(jax.typeof(x)) for x in leaves]
        constants = [_in_words(x) for x in jax.tree.leaves(static)]
        kind = (str(structure), *types, *constants, chosen())
        if kind not in self._programs:
            library()  # XLA must know the kernels that a program calls before it loads it
            name, words = self.function.__name__, (self.made_for, str(self.options), *kind)
            lasting = " at 0x" not in str(kind)  # tomorrow another object is there
            path = programs.place(name, *_surroundings(), *words) if lasting else None
            self._programs[kind] = _load(path) or self._compile(path, leaves, structure, static)
        return self._programs[kind](*map(_numbers, leaves))

    def _compile(
        self, path: Path | None, leaves: list[Array], structure: Any, static: Any
    ) -> Callable:
        """Compile the program, and keep it."""
        kinds = [jax.random.key_impl(x) if _is_key(x) else None for x in leaves]

        def program(*numbers):
            given = [
                x if kind is None else jax.random.wrap_key_data(x, impl=kind)
                for x, kind in zip(numbers, kinds, strict=True)
            ]
            return self.function(*eqx.combine(jax.tree.unflatten(structure, given), static))

        ends = [len(jax.tree.leaves(part)) for part in jax.tree.unflatten(structure, leaves)]
        first = sum(ends[: self.donated])
        donated = () if self.donated is None else range(first, first + ends[self.donated])
        jitted = jax.jit(program, donate_argnums=tuple(donated), compiler_options=self.options)
        lowered = jitted.lower(*map(_numbers, leaves))
        with _kept_once():
            made = lowered.compile()
        if path is not None:
            _keep(made, path)
        return made


def _is_array(x: Any) -> bool:
    return isinstance(x, jax.Array | np.ndarray | np.generic)


def _in_words(constant: Any) -> str:
    """What a program knows of an argument that is no array; of an object, what it is."""
    plain = isinstance(constant, bool | int | float | complex | str)
    return repr(constant) if plain else getattr(constant, "__qualname__", type(constant).__name__)


def _is_key(x: Array) -> bool:
    return jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)


def _numbers(x: Array) -> Array:
    """What a program is given for an array: for a key, its words."""
    return jax.random.key_data(x) if _is_key(x) else jnp.asarray(x)


def _load(path: Path | None) -> Callable | None:
    """A program that was kept; None if it is absent, or JAX cannot load it for whatever reason."""
    data = programs.recall(path)
    if data is None:
        return None
    with contextlib.suppress(Exception):
        payload, arguments, results = pickle.loads(data)
        structure = jax.tree.structure(((0,) * arguments, {}))
        return serialize_executable.deserialize_and_load(payload, structure, results)
    return None


@contextlib.contextmanager
def _kept_once() -> Iterator[None]:
    """JAX keeps nothing that is compiled here: a program that JAX has loaded cannot be written."""
    before = jax.config.jax_persistent_cache_min_compile_time_secs  # pyright: ignore[reportAttributeAccessIssue]
    jax.config.update("jax_persistent_cache_min_compile_time_secs", math.inf)
    try:
        yield
    finally:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", before)


def _keep(program: Any, path: Path) -> None:
    """Write a program to its file, if JAX can."""
    with contextlib.suppress(ValueError, NotImplementedError):
        payload, arguments, results = serialize_executable.serialize(program)
        programs.keep(path, pickle.dumps((payload, arguments.num_leaves, results)))


@functools.cache
def _surroundings() -> tuple[str, ...]:
    """What every program depends on: this code, JAX, and its settings."""
    code = hashlib.blake2b(digest_size=16)
    for path in sorted(PACKAGE.rglob("*.py")):
        code.update(path.read_bytes())
    settings = sorted(
        f"{name}={value}"
        for name, value in os.environ.items()
        if name.startswith(SETTINGS) and not name.startswith(ELSEWHERE)
    )
    versions = (f"{name} {version(name)}" for name in MADE_WITH)
    return code.hexdigest(), sys.version, str(processors()), *versions, *settings
