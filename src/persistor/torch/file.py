"""Model files for PyTorch: the same safetensors files that `persistor.save` writes.

A file has persistor's names and layouts: its `.blocks[0].norm.scale` is `blocks.0.norm.weight`
here, and the weight of a linear map is transposed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from safetensors.torch import save as serialise
from torch import Tensor, nn

from persistor._tools.errors import PersistorError, unknown
from persistor._tools.files import write_atomically
from persistor.torch.backbone import Backbone
from persistor.torch.block import Block
from persistor.torch.cell import Cell
from persistor.torch.cells import CELLS

M = TypeVar("M", bound=Backbone | Cell)
EPSILON = "epsilon"
NORM = {"weight": "scale", "bias": "shift"}  # PyTorch's names in a norm, and persistor's


def save(model: Backbone | Cell, path: str | Path) -> None:
    """Write a model, or a single cell, to one file that `persistor.load` and `load` can open."""
    from persistor.model.file import HEADER

    if not isinstance(model, Backbone | Cell):
        raise PersistorError(f"save takes a model or a cell, not {type(model).__name__}")
    metadata: dict[str, Any] = {"model": describe(model), "constants": {}}
    if isinstance(model, Backbone) and model.preparation is not None:
        metadata["preparation"] = model.preparation
    arrays = {}
    for name, stored, tensor in _tensors(model):
        if isinstance(tensor, nn.Parameter):
            arrays[stored] = (
                _turned(*_owner(model, name), tensor.detach()).cpu().clone().contiguous()
            )
        else:
            metadata["constants"][stored] = _constant(tensor)
    write_atomically(Path(path), serialise(arrays, {HEADER: json.dumps(metadata)}))


def load(path: str | Path, kind: type[M] = Backbone) -> M:
    """The model in a file that `persistor.save` or `save` wrote, or of a run folder.

    `load("cell.safetensors", CMRU)` opens a single cell. No code of the file runs.
    """
    from persistor.model.file import check_sizes, opened, read_metadata
    from persistor.training.run import BEST

    path = Path(path)
    path = path / BEST if path.is_dir() else path
    with opened(path, "pt") as file:
        metadata = read_metadata(path, file)
        description = metadata.get("model")
        if description is None:
            raise PersistorError(f"{path} has no description of its model")
        check_sizes(path, file, description)
        model = _blank(path, description, metadata.get("preparation"))
        if not isinstance(model, kind):
            raise PersistorError(f"{path} holds a {type(model).__name__}, not a {kind.__name__}")
        _fill(path, file, model, metadata.get("constants"))
    return model


def describe(model: Backbone | Cell) -> dict[str, Any]:
    """What `persistor.model.file.describe` says of the twin."""
    if isinstance(model, Cell):
        name = next((name for name, known in CELLS.items() if known is type(model)), None)
        return {"cell": name or type(model).__name__, **model.settings()}
    return {
        "inputs": model.encoder.linear.in_features,
        "outputs": model.decoder.linear.out_features,
        "width": model.width,
        "pooling": model.pooling,
        "dropout": model.dropout,
        "architecture": model.architecture.to_json(),
        "cells": [describe(block.cell) for block in model._blocks()],
    }


def _blank(path: Path, description: dict[str, Any], preparation: Any) -> Backbone | Cell:
    """The model of a description, with shapes instead of numbers: nothing is allocated."""
    from persistor.model.architecture import PAPER

    try:
        with torch.device("meta"):
            if "cell" in description:
                return _cell(description)
            return Backbone(
                description["inputs"],
                description["outputs"],
                [_cell(cell) for cell in description["cells"]],
                width=description["width"],
                architecture=PAPER.but(description["architecture"]),
                pooling=description["pooling"],
                dropout=description["dropout"],
                preparation=preparation,
            )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise PersistorError(f"{path}: its description is damaged ({error})") from None


def _cell(description: dict[str, Any]) -> Cell:
    settings = dict(description)
    name = settings.pop("cell")
    if name not in CELLS:
        raise unknown("cell", name, CELLS)
    make: Any = CELLS[name]
    return make(settings.pop("input_size"), settings.pop("state_size"), **settings)


def _fill(path: Path, file: Any, model: Backbone | Cell, constants: dict[str, Any] | None) -> None:
    """Give the model its numbers: arrays, and the constants of the header."""
    from persistor.model.file import constant

    wanted = {stored: _owner(model, name) for name, stored, _ in _tensors(model)}
    given = set(file.keys())
    fixed = {stored for stored, (_, leaf) in wanted.items() if leaf == EPSILON}
    if given - set(wanted) or set(wanted) - given - (fixed & set(constants or {})):
        raise PersistorError(f"{path} was made by a different model or version")
    for stored, (owner, leaf) in wanted.items():
        if stored not in given:
            owner.keep_epsilon(constant(path, stored, (constants or {})[stored]), learn=False)
        elif stored in fixed:
            owner.keep_epsilon(file.get_tensor(stored), learn=constants is not None)
        else:
            tensor = file.get_tensor(stored)
            owner.register_parameter(leaf, _parameter(path, stored, owner, leaf, tensor))
    for module in model.modules():
        if isinstance(module, Block):
            module.keep_still()


def _parameter(path: Path, stored: str, owner: Any, leaf: str, tensor: Tensor) -> nn.Parameter:
    """An array of a file as a parameter; it must have the shape of the one in its place."""
    tensor, expected = _turned(owner, leaf, tensor), tuple(getattr(owner, leaf).shape)
    if tuple(tensor.shape) != expected:
        raise PersistorError(f"{path}: {stored} has shape {tuple(tensor.shape)}, not {expected}")
    if not tensor.is_floating_point():
        raise PersistorError(f"{path}: {stored} is {tensor.dtype}, not floating")
    return nn.Parameter(tensor.contiguous())


def _tensors(model: Backbone | Cell) -> list[tuple[str, str, Tensor]]:
    """Parameters and constants: their names here, in a file, and they themselves."""
    found = [*model.named_parameters(), *model.named_buffers()]
    return [(name, _stored(_renamed(model, name)), tensor) for name, tensor in found]


def _renamed(model: nn.Module, name: str) -> str:
    owner, leaf = _owner(model, name)
    return name[: -len(leaf)] + NORM[leaf] if isinstance(owner, nn.LayerNorm) else name


def _stored(name: str) -> str:
    """`blocks.0.skip` as persistor writes it: `.blocks[0].skip`."""
    return "".join(f"[{p}]" if p.isdigit() else f".{p}" for p in name.split("."))


def _owner(model: nn.Module, name: str) -> tuple[Any, str]:
    """The module that has a parameter, and its name there."""
    place, _, leaf = name.rpartition(".")
    return model.get_submodule(place), leaf


def _turned(owner: nn.Module, leaf: str, tensor: Tensor) -> Tensor:
    """The weight of a linear map transposed; all else as it is."""
    return tensor.T if isinstance(owner, nn.Linear) and leaf == "weight" else tensor


def _constant(tensor: Tensor) -> float | list[float]:
    """Numbers with the digits that they need: 0.1, also in single precision."""
    values = tensor.detach().cpu()
    values = values.float() if values.dtype in (torch.bfloat16, torch.float16) else values
    numbers = [float(str(number)) for number in np.ravel(values.numpy())]
    return numbers if values.dim() else numbers[0]
