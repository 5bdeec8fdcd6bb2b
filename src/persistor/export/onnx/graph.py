"""A graph of standard ONNX operators that grows by calls, so that maths in it reads like maths."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError

OPSET = 18  # of the operators, from 2022
FORMAT = 8  # of the file, as old as that

Value = str  # a value in a graph is its name


def onnx() -> Any:
    """The package onnx; an error in one line if it is missing."""
    try:
        import onnx
    except ImportError:
        raise PersistorError("ONNX is not installed: pip install 'persistor[onnx]'") from None
    return onnx


class Graph:
    """Nodes and constants; a body inside it has nodes of its own, and shares the constants."""

    def __init__(self, outer: Graph | None = None):
        self.nodes: list[Any] = []
        self._root: Graph = outer._root if outer else self
        self._constants: dict[tuple[str, bytes, tuple[int, ...]], tuple[Value, NDArray[Any]]] = {}
        self._count = 0

    def __call__(self, operator: str, *inputs: Value, **attributes: Any) -> Value:
        """The value of an operator with one output."""
        return self.several(operator, 1, *inputs, **attributes)[0]

    def several(self, operator: str, count: int, *inputs: Value, **attributes: Any) -> list[Value]:
        """The values of an operator with some outputs."""
        names = [self.fresh(operator) for _ in range(count)]
        self.nodes.append(onnx().helper.make_node(operator, inputs, names, **attributes))
        return names

    def fresh(self, word: str) -> Value:
        """A name that no other value has."""
        self._root._count += 1
        return f"{word}_{self._root._count}"

    def constant(self, value: Any, dtype: Any = np.float32) -> Value:
        """A constant array, stored once."""
        array = np.asarray(value, dtype)
        known, key = self._root._constants, (str(array.dtype), array.tobytes(), array.shape)
        if key not in known:
            known[key] = (f"constant_{len(known)}", array)
        return known[key][0]

    def halves(self, x: Value) -> list[Value]:
        """The two halves of the last axis."""
        return self.several("Split", 2, x, axis=-1, num_outputs=2)

    def body(self, inputs: list[Any], outputs: list[Any]) -> Any:
        """This graph as the body of a loop in another."""
        return onnx().helper.make_graph(self.nodes, "body", inputs, outputs)

    def model(self, name: str, inputs: list[Any], outputs: list[Any], said: dict[str, str]) -> Any:
        """This graph as a model that onnx has checked; `said` goes into its metadata."""
        package = onnx()
        stored = [
            package.numpy_helper.from_array(array, constant)
            for constant, array in self._constants.values()
        ]
        graph = package.helper.make_graph(self.nodes, name, inputs, outputs, stored)
        made = package.helper.make_model(
            graph,
            producer_name="persistor",
            opset_imports=[package.helper.make_opsetid("", OPSET)],
            ir_version=FORMAT,
        )
        package.helper.set_model_props(made, said)
        package.checker.check_model(made, full_check=True)
        return made


def tensor(name: Value, shape: tuple[int | str, ...], whole: bool = False) -> Any:
    """The description of an input or output: floats, or whole numbers."""
    kinds = onnx().TensorProto
    return onnx().helper.make_tensor_value_info(name, kinds.INT64 if whole else kinds.FLOAT, shape)
