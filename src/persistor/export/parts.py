"""What a program in C is put together from: constants, maps and the functions that it needs."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

import numpy as np
from jax.typing import ArrayLike

from persistor.export.constants import Weights, array
from persistor.model.eight_bits import rounded
from persistor.nn.layers import LayerNorm, Linear


@cache
def template(name: str) -> str:
    """The text of a file in the folder `c`."""
    return (resources.files("persistor.export") / "c" / name).read_text()


@cache
def functions() -> dict[str, tuple[tuple[str, ...], str]]:
    """The functions of `functions.c`: what each needs, and its text."""
    _, *pieces = re.split(r"^/\*: (.+) \*/\n", template("functions.c"), flags=re.MULTILINE)
    found = {}
    for head, text in zip(pieces[::2], pieces[1::2], strict=True):
        name, _, needs = head.partition(" needs ")
        found[name] = (tuple(needs.split(", ")) if needs else (), text.strip() + "\n")
    return found


@dataclass
class Parts:
    """The constants and functions of a program, and what it costs in each of its phases."""

    weights: Weights
    constants: list[str] = field(default_factory=list)
    needed: set[str] = field(default_factory=set)
    phase: str = "step"
    cost: Counter[tuple[str, str]] = field(default_factory=Counter)
    bytes: int = 0
    largest_input: int = 0

    @contextlib.contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Count what is computed here as part of a phase."""
        before, self.phase = self.phase, phase
        yield
        self.phase = before

    def spend(self, what: str, count: int) -> None:
        """Note that this many operations of a kind are made."""
        self.cost[self.phase, what] += count

    def need(self, name: str) -> None:
        """Take in a function, and what it needs."""
        self.needed.add(name)
        for other in functions()[name][0]:
            self.need(other)

    def constant(self, name: str, values: ArrayLike) -> str:
        """Take in an array, in single precision or as integers; its name."""
        numbers = np.asarray(values)
        numbers = numbers.astype(np.float32) if numbers.dtype.kind == "f" else numbers
        self.constants.append(array(name, numbers))
        self.bytes += numbers.nbytes
        return name

    def linear(self, name: str, layer: Linear) -> None:
        """Take in a linear map."""
        self.map(name, layer.weight, layer.bias)

    def map(self, name: str, weight: ArrayLike, bias: ArrayLike | None = None) -> None:
        """Take in a matrix (inputs, outputs), and a bias, as a map of that name."""
        matrix = np.asarray(weight, np.float32)
        inputs, outputs = matrix.shape
        if self.weights == "int8":
            small = rounded(matrix)
            fields = [self.constant(f"{name}_weights", small.integers.T.reshape(-1))]
            fields.append(self.constant(f"{name}_scales", small.scales))
        else:
            fields = [self.constant(f"{name}_weights", matrix.reshape(-1))]
        fields.append("0" if bias is None else self.constant(f"{name}_bias", bias))
        described = ", ".join([*fields, str(inputs), str(outputs)])
        self.constants.append(f"static const map {name} = {{{described}}};\n")
        self.largest_input = max(self.largest_input, inputs)
        self.need(f"apply {self.weights}")

    def applied(self, name: str, layer: Linear | ArrayLike, x: str, begin: str, y: str) -> str:
        """The call of a map that was taken in: y = begin + bias + x W."""
        weight = layer.weight if isinstance(layer, Linear) else np.asarray(layer)
        self.spend("multiplications", int(np.prod(weight.shape)))
        return f"apply(&{name}, {x}, {begin}, {y});"

    def norm(self, name: str, layer: LayerNorm) -> None:
        """Take in a layer norm."""
        self.constant(f"{name}_scale", layer.scale)
        self.constant(f"{name}_shift", layer.shift)
        self.need("norm")

    def loud(self, loudness: float, width: int) -> str:
        """The call that scales what a cell reads by how loud the input is (`Block.volume`)."""
        self.need("loud")
        self.spend("norms", 1)
        return f"loud(x, {np.float32(loudness):.9e}f, {width}, u);"

    def normed(self, name: str, layer: LayerNorm, x: str, y: str) -> str:
        """The call of a norm that was taken in."""
        self.spend("norms", 1)
        epsilon = f"{np.float32(layer.epsilon):.9e}f"
        n = layer.scale.shape[0]
        return f"norm({x}, {name}_scale, {name}_shift, {epsilon}, {n}, {y});"

    def text(self) -> str:
        """The functions in the order of their file, then the constants."""
        taken = "\n".join(text for name, (_, text) in functions().items() if name in self.needed)
        largest = f"enum {{ LARGEST_INPUT = {self.largest_input} }};\n\n"
        return (largest if self.weights == "int8" else "") + taken + "\n" + "".join(self.constants)
