"""Values on disk: safetensors for arrays, JSON beside them, each file whole or absent."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from persistor._tools.errors import PersistorError
from persistor._tools.files import write_atomically

T = TypeVar("T")


def save_arrays(path: Path, tree: Any, metadata: dict[str, Any]) -> None:
    """Write the arrays of a pytree under their paths, and metadata as JSON in the header."""
    arrays = {name: np.asarray(leaf) for name, leaf in _named(tree)}
    write_atomically(path, save(arrays, {"persistor": json.dumps(metadata)}))


def load_arrays(path: Path, like: T, experiment: str) -> tuple[T, dict[str, Any]]:
    """The pytree `like` with its arrays from a checkpoint of that experiment, and the metadata."""
    with _opened(path) as file:
        metadata = _metadata(path, file)
        if metadata.get("experiment") != experiment:
            raise PersistorError(f"{path} belongs to another experiment; it is left untouched")
        names = [name for name, _ in _named(like)]
        if set(names) != set(file.keys()):
            raise PersistorError(
                f"{path} was made by a different model or version; start a new run"
            )
        leaves = []
        for name, leaf in _named(like):
            array = file.get_tensor(name)
            if array.shape != leaf.shape or array.dtype != leaf.dtype:
                raise PersistorError(f"{path}: {name} has shape {array.shape}, not {leaf.shape}")
            leaves.append(jax.numpy.asarray(array))
    return jax.tree.unflatten(jax.tree.structure(like), leaves), metadata


def _named(tree: Any) -> list[tuple[str, Any]]:
    """Every leaf with its path as a name."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in leaves]


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with safe_open(path, framework="numpy") as file:
            yield file
    except FileNotFoundError:
        raise PersistorError(f"{path} is missing: the run has not been saved yet") from None
    except (SafetensorError, OSError) as error:
        raise PersistorError(f"{path} is damaged or not a checkpoint ({error})") from None


def _metadata(path: Path, file: Any) -> dict[str, Any]:
    text = (file.metadata() or {}).get("persistor")
    if text is None:
        raise PersistorError(f"{path} is not a checkpoint of persistor")
    return json.loads(text)
