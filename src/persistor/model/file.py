"""Models on disk: one safetensors file, with arrays by their paths and a description as JSON.

The description says which classes and sizes to build, so a file can be opened by itself, and it
contains no code. Sizes are compared with the file's header before an array is read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as serialise

from persistor._tools.errors import PersistorError, unknown
from persistor._tools.files import write_atomically
from persistor.cells import CELLS, Cell
from persistor.cells.epsilon import EPSILON
from persistor.data.preparation import Preparation
from persistor.model.architecture import PAPER
from persistor.model.backbone import Backbone
from persistor.nn.layers import check_size
from persistor.nn.pooling import Pooling

T = TypeVar("T")
M = TypeVar("M", bound=Backbone | Cell)
SIZES = {"inputs", "outputs", "width", "input_size", "state_size"}
HEADER = "persistor"  # persistor's entry in the header of a file
Cells = Mapping[str, type[Cell]]


def save(model: Backbone | Cell, path: str | Path, **metadata: Any) -> None:
    """Write a model, or a single cell, to one file that `load` can open anywhere.

    Other keywords go into the file's header, as JSON.
    """
    if not isinstance(path, str | Path):
        raise PersistorError(f"path is {path!r}; give the name of a file")
    if not isinstance(model, Backbone | Cell):
        raise PersistorError(f"save takes a model or a cell, not {type(model).__name__}")
    if isinstance(model, Backbone) and model.preparation is not None:
        metadata = {"preparation": model.preparation.to_json(), **metadata}
    write_arrays(Path(path), model, {**metadata, "model": describe(model)})


def load_model(
    path: Path, kind: type[M] = Backbone, *, cells: Cells = CELLS
) -> tuple[M, dict[str, Any]]:
    """The model in a file, and the metadata in its header.

    `cells` maps names to classes of cells: add your own class to open a model that uses it.
    """
    with opened(path) as file:
        metadata = read_metadata(path, file)
        description = metadata.get("model")
        if description is None:
            raise PersistorError(f"{path} has no description of its model; open its run folder")
        check_sizes(path, file, description)
        model = _blank(path, description, cells, metadata.get("preparation"))
        if not isinstance(model, kind):
            raise PersistorError(f"{path} holds a {type(model).__name__}, not a {kind.__name__}")
        return _filled(path, file, model, metadata), metadata


def describe(model: Backbone | Cell) -> dict[str, Any]:
    """Everything needed to build the model again, except its weights, as plain values."""
    if isinstance(model, Cell):
        return _describe_cell(model)
    return {
        "inputs": model.encoder.linear.weight.shape[0],
        "outputs": model.decoder.linear.weight.shape[1],
        "width": model.width,
        "pooling": str(model.pooling),
        "dropout": model.dropout,
        "architecture": model.architecture.to_json(),
        "cells": [_describe_cell(block.cell) for block in model.blocks],
    }


def _describe_cell(cell: Cell) -> dict[str, Any]:
    """A cell's class, sizes and everything else that is fixed when it is built."""
    kind = type(cell)
    name = next((name for name, known in CELLS.items() if known is kind), kind.__name__)
    fixed = {f.name: getattr(cell, f.name) for f in dataclasses.fields(cell) if is_static(f)}
    return {"cell": name, "input_size": cell.input_size, **fixed}


def is_static(field: dataclasses.Field) -> bool:
    """Whether a field of a module is not part of its pytree."""
    return bool(field.metadata.get("static", False))


def check_sizes(path: Path, file: Any, description: Any) -> None:
    """Raise if a size is too large for the arrays of a file, before anything is built with it."""
    elements = sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
    if not isinstance(description, dict):
        raise PersistorError(f"{path}: its description is damaged")
    for described in (description, *description.get("cells", ())):
        if not isinstance(described, dict):
            raise PersistorError(f"{path}: its description is damaged")
        for name in SIZES & described.keys():
            check_size(f"{path}: {name}", described[name])
            if described[name] > elements:
                raise PersistorError(
                    f"{path}: {name} is {described[name]:,}; its arrays are smaller"
                )


def _blank(
    path: Path, description: dict[str, Any], cells: Cells, preparation: Any
) -> Backbone | Cell:
    """The model of a description, with shapes instead of arrays: nothing is allocated."""
    try:
        if "cell" in description:
            return eqx.filter_eval_shape(lambda: _build_cell(description, cells))
        return eqx.filter_eval_shape(lambda: _build_backbone(description, cells, preparation))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise PersistorError(f"{path}: its description is damaged ({error})") from None


def _build_cell(description: dict[str, Any], cells: Cells) -> Cell:
    settings = dict(description)
    name = settings.pop("cell")
    if name not in cells:
        raise unknown("cell", name, cells)
    make: Any = cells[name]
    return make(settings.pop("input_size"), settings.pop("state_size"), **settings, key=_key())


def _build_backbone(description: dict[str, Any], cells: Cells, preparation: Any) -> Backbone:
    return Backbone(
        description["inputs"],
        description["outputs"],
        tuple(_build_cell(cell, cells) for cell in description["cells"]),
        width=description["width"],
        architecture=PAPER.but(description["architecture"]),
        pooling=Pooling(description["pooling"]),
        dropout=description["dropout"],
        preparation=None if preparation is None else Preparation.from_json(preparation),
        key=_key(),
    )


def _key():
    return jax.random.key(0)


def write_arrays(path: Path, tree: Any, metadata: dict[str, Any]) -> None:
    """Write the arrays of a pytree under their paths; constants and metadata in the header."""
    named = _named(tree)
    arrays = {name: np.asarray(leaf) for name, leaf in named if eqx.is_array(leaf)}
    constants = {name: leaf for name, leaf in named if _is_constant(leaf)}
    header = {HEADER: json.dumps({**metadata, "constants": constants})}
    write_atomically(path, serialise(arrays, header))


def read_arrays(path: Path, like: T, experiment: str) -> tuple[T, dict[str, Any]]:
    """The pytree `like` with its arrays from a file of this experiment, and the metadata."""
    with opened(path) as file:
        metadata = read_metadata(path, file)
        if metadata.get("experiment") != experiment:
            raise PersistorError(f"{path} belongs to another experiment; it is left untouched")
        return _filled(path, file, like, metadata), metadata


def _filled(path: Path, file: Any, like: T, metadata: dict[str, Any]) -> T:
    """The pytree with every array and every constant read from a file."""
    constants = metadata.get("constants")
    names = [name for name, leaf in _named(like) if _is_shaped(leaf) or _is_constant(leaf)]
    wanted = {name for name, leaf in _named(like) if _is_shaped(leaf)} - set(constants or {})
    stored = set(file.keys())
    if not wanted <= stored or not stored <= set(names):
        raise PersistorError(f"{path} was made by a different model or version; start a new run")

    def leaf_of(name: str, leaf: Any) -> Any:
        if constants is not None and name in constants:
            return constant(path, name, constants[name])
        if name not in stored:
            return leaf
        shape = tuple(file.get_slice(name).get_shape())
        if _is_shaped(leaf) and shape != leaf.shape:
            raise PersistorError(f"{path}: {name} has shape {shape}, not {leaf.shape}")
        array = file.get_tensor(name)
        if _is_shaped(leaf) and not _same_kind(array.dtype, leaf.dtype):
            raise PersistorError(f"{path}: {name} is {array.dtype}, not {leaf.dtype}")
        if _is_constant(leaf) and constants is None:  # an older file, with constants as arrays
            return float(array)
        return jax.device_put(array)

    leaves = [leaf_of(name, leaf) for name, leaf in _named(like)]
    return jax.tree.unflatten(jax.tree.structure(like, is_leaf=_is_constant), leaves)


def constant(path: Path, name: str, value: Any) -> float | tuple[float, ...]:
    """A constant of a file's header: a finite number, or several."""
    numbers = value if isinstance(value, list) else [value]
    for number in numbers:
        if not isinstance(number, float) or not math.isfinite(number):
            raise PersistorError(f"{path}: the constant {name} is {number!r}, not a number")
        if name.endswith(f".{EPSILON.name}"):
            EPSILON.checked(number)
    return tuple(numbers) if isinstance(value, list) else value


def _named(tree: Any) -> list[tuple[str, Any]]:
    """Every leaf with its path as a name; a tuple of constants is one leaf."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=_is_constant)
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in leaves]


def _is_constant(leaf: Any) -> bool:
    """Whether a leaf is a Python number or a tuple of them, which is not learned (epsilon)."""
    if isinstance(leaf, tuple):
        return bool(leaf) and all(isinstance(number, float) for number in leaf)
    return isinstance(leaf, float)


def _same_kind(one: Any, other: Any) -> bool:
    """Whether two types are both floating, both complex, or else equal."""
    kinds = (jnp.floating, jnp.complexfloating)
    return one == other or any(jnp.issubdtype(one, k) and jnp.issubdtype(other, k) for k in kinds)


def _is_shaped(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct) or eqx.is_array(leaf)


@contextlib.contextmanager
def opened(path: Path, framework: str = "numpy") -> Iterator[Any]:
    """A safetensors file to read from; an error in one line if it cannot be opened."""
    try:
        with safe_open(path, framework=framework) as file:
            yield file
    except FileNotFoundError:
        raise PersistorError(f"{path} is missing: this run has not been saved yet") from None
    except (SafetensorError, OSError) as error:
        raise PersistorError(f"{path} is damaged or not a checkpoint ({error})") from None


def read_metadata(path: Path, file: Any) -> dict[str, Any]:
    """Persistor's metadata in a file's header."""
    text = (file.metadata() or {}).get(HEADER)
    if text is None:
        raise PersistorError(f"{path} is not a checkpoint of persistor")
    try:
        metadata = json.loads(text)
    except json.JSONDecodeError:
        metadata = None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("constants", {}), dict):
        raise PersistorError(f"{path} has a damaged header")
    return metadata
