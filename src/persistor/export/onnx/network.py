"""A model as two ONNX graphs of standard operators: one step of a stream, and a whole sequence.

Both are emitted by the same lines. What acts on each step by itself reads (b, m) in the one and
(b, t, m) in the other. Only the recurrence differs: the step advances the state once, the sequence
does it in a `Scan` whose body has the same nodes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from persistor._tools.errors import PersistorError
from persistor.export.onnx import cells
from persistor.export.onnx.cells import linear, state_width
from persistor.export.onnx.graph import Graph, Value, onnx, tensor
from persistor.model import Backbone, Block, Pooling
from persistor.model.file import HEADER, describe
from persistor.nn.layers import MLP, LayerNorm
from persistor.nn.positions import frequencies

STEP, SEQUENCE = "step", "sequence"  # the two graphs


def graphs(model: Backbone) -> dict[str, Any]:
    """The two graphs of a model, checked by onnx, by name."""
    for name, leaf in jax.tree_util.tree_leaves_with_path(model):
        if hasattr(leaf, "dtype") and leaf.dtype != np.float32:
            raise PersistorError(
                f"{jax.tree_util.keystr(name)} is {leaf.dtype}; ONNX export takes float32"
            )
    return {
        name: _Emission(model, Graph(), name == SEQUENCE).model(name) for name in (STEP, SEQUENCE)
    }


def state_names(model: Backbone) -> list[str]:
    """What a stream carries: the names of inputs of a graph; its outputs are `next_` of them."""
    names = [f"state_{i}" for i in range(len(model.blocks))]
    if model.pooling is Pooling.MEAN:
        names.append("total")
    return [*names, "position"] if _counts(model) else names


def _counts(model: Backbone) -> bool:
    """Whether the position in the stream matters."""
    return bool(model.encoding_width) or model.pooling is Pooling.MEAN


@dataclass(frozen=True)
class _Emission:
    """The maths of a model, emitted into a graph of a step or of a sequence."""

    backbone: Backbone
    g: Graph
    whole: bool  # sequences, (b, t, m), rather than steps, (b, m)

    def model(self, name: str) -> Any:
        """The checked graph, with the description of the model in its metadata."""
        model = self.backbone
        steps = ("batch", "steps") if self.whole else ("batch",)
        features, outputs = (
            model.encoder.linear.weight.shape[0],
            model.decoder.linear.weight.shape[1],
        )
        answers = steps if model.pooling is Pooling.NONE else ("batch",)
        nexts = self._emit()
        inputs = [
            tensor("x", (*steps, features)),
            *(self._carried(n, n) for n in state_names(model)),
        ]
        results = [tensor("y", (*answers, outputs))]
        results += [self._carried(n, f"next_{n}") for n in state_names(model)]
        for value, result in zip(nexts, results, strict=True):
            self.g.nodes.append(onnx().helper.make_node("Identity", [value], [result.name]))
        said = {HEADER: json.dumps(_metadata(model))}
        return self.g.model(f"persistor_{name}", inputs, results, said)

    def _carried(self, name: str, called: str) -> Any:
        """The description of something that a stream carries."""
        if name == "position":
            return tensor(called, (), whole=True)
        if name == "total":
            return tensor(called, ("batch", self.backbone.width))
        return tensor(called, ("batch", state_width(self.backbone.blocks[int(name[6:])].cell)))

    def _emit(self) -> list[Value]:
        """The answer, and what the stream carries on."""
        g, model = self.g, self.backbone
        y, states = self._encoded("x"), []
        for i, block in enumerate(model.blocks):
            y, state = self._block(block, y, f"state_{i}", i == len(model.blocks) - 1)
            states.append(state)
        if model.pooling is Pooling.MEAN:
            count = self._steps()
            position = g("Add", "position", count)
            total = g("Add", "total", self._summed(y))
            y = g("Div", total, g("Cast", position, to=onnx().TensorProto.FLOAT))
            states += [total, position]
        elif _counts(model):
            states.append(g("Add", "position", self._steps()))
        if model.decoder_norm is not None:
            y = self._norm(model.decoder_norm, y)
        return [self._residual(model.decoder, y), *states]

    def _steps(self) -> Value:
        """How many steps the input has, as a scalar."""
        if not self.whole:
            return self.g.constant(1, np.int64)
        shape = self.g("Shape", "x", start=1, end=2)
        return self.g("Squeeze", shape)

    def _summed(self, y: Value) -> Value:
        """The sum over time."""
        if not self.whole:
            return y
        return self.g("ReduceSum", y, self.g.constant([1], np.int64), keepdims=0)

    def _encoded(self, x: Value) -> Value:
        g, model = self.g, self.backbone
        code = self._residual(model.encoder, x)
        if model.architecture.empty == "zero":
            features = model.encoder.linear.weight.shape[0]
            empty = model.encoder(jnp.zeros((1, features), np.float32))
            code = g("Sub", code, g.constant(np.asarray(empty)[0]))
        return code if model.encoder_norm is None else self._norm(model.encoder_norm, code)

    def _residual(self, layer: Any, x: Value) -> Value:
        y = linear(self.g, layer.linear, x)
        return self.g("Add", y, linear(self.g, layer.mlp.narrow, self._hidden(layer.mlp, y)))

    def _hidden(self, mlp: MLP, x: Value) -> Value:
        one, other = self.g.halves(linear(self.g, mlp.widen, x))
        gate = self.g("Sigmoid", other)
        gate = self.g("Mul", other, gate) if mlp.gate == "silu" else gate
        return self.g("Mul", one, gate)

    def _norm(self, layer: LayerNorm, x: Value) -> Value:
        scale, shift = self.g.constant(layer.scale), self.g.constant(layer.shift)
        return self.g("LayerNormalization", x, scale, shift, axis=-1, epsilon=layer.epsilon)

    def _positioned(self, block: Block, x: Value) -> Value:
        """Linear([x; PE])."""
        g, mix = self.g, block.position.positions
        y = linear(g, block.position.values, x)
        if not mix.shape[0]:
            return y
        base, width = self.backbone.architecture.base, mix.shape[0]
        start = g("Reshape", "position", g.constant([1, 1], np.int64))
        if self.whole:
            zero, one = g.constant(0, np.int64), g.constant(1, np.int64)
            order = g("Range", zero, self._steps(), one)
            start = g("Add", start, g("Unsqueeze", order, g.constant([1], np.int64)))
        times = g("Cast", start, to=onnx().TensorProto.FLOAT)  # (t, 1), or (1, 1)
        angles = g("Mul", times, g.constant(np.asarray(frequencies(width, base))[None]))
        codes = g("Concat", g("Sin", angles), g("Cos", angles), axis=-1)
        return g("Add", y, g("MatMul", codes, g.constant(mix)))

    def _volume(self, block: Block, x: Value) -> Value:
        """How loud an input is: sqrt(v / (v + loudness)), v its variance."""
        g, axis = self.g, self.g.constant([-1], np.int64)
        centred = g("Sub", x, g("ReduceMean", x, axis, keepdims=1))
        variance = g("ReduceMean", g("Mul", centred, centred), axis, keepdims=1)
        loudness = g.constant(np.float32(block.loudness))
        return g("Sqrt", g("Div", variance, g("Add", variance, loudness)))

    def _block(self, block: Block, x: Value, state: Value, is_last: bool) -> tuple[Value, Value]:
        """A block's outputs, and the cell's last state."""
        g = self.g
        normed = self._norm(block.norm, x) if block.norm_first else x
        u = self._positioned(block, normed)
        u = u if block.norm_first else self._norm(block.norm, u)
        u = g("Mul", u, self._volume(block, x)) if block.loudness else u
        states, last = self._states(block.cell, u, state)
        gated = normed if block.gate_before else u
        if is_last and self.whole and self.backbone.pooling is Pooling.LAST:
            x, u, gated, states = (self._ended(value) for value in (x, u, gated, states))
        read = linear(g, block.readout, cells.read(g, block.cell, states, u))
        read = self._norm(block.readout_norm, read)
        read = g("Mul", read, g("Sigmoid", linear(g, block.output_gate, gated)))
        y = g("Add", g("Mul", g.constant(block.skip), x), read)
        mixed = linear(g, block.mlp.narrow, self._hidden(block.mlp, self._norm(block.mlp_norm, y)))
        return g("Add", g("Mul", g.constant(block.mlp_skip), y), mixed), last

    def _ended(self, value: Value) -> Value:
        """The last step of a sequence."""
        return self.g("Gather", value, self.g.constant(-1, np.int64), axis=1)

    def _states(self, cell: Any, u: Value, state: Value) -> tuple[Value, Value]:
        """All states, and the last one."""
        g, p = self.g, linear(self.g, cell.project, u)
        if not self.whole:
            after = cells.advance(g, cell, p, state)
            return after, after
        body, before, given = Graph(g), g.fresh("before"), g.fresh("given")
        after = cells.advance(body, cell, given, before)
        kept = body("Identity", after)
        width = ("batch", state_width(cell))
        inputs = [tensor(before, width), tensor(given, ("batch", cell.project.weight.shape[1]))]
        loop = body.body(inputs, [tensor(after, width), tensor(kept, width)])
        axes = {"scan_input_axes": [1], "scan_output_axes": [1]}
        last, states = g.several("Scan", 2, state, p, body=loop, num_scan_inputs=1, **axes)
        return states, last


def _metadata(model: Backbone) -> dict[str, Any]:
    """What a model file says about the model."""
    preparation = {} if model.preparation is None else {"preparation": model.preparation.to_json()}
    return {"model": describe(model), **preparation}
