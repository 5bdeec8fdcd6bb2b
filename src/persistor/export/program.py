"""A backbone as a program in C99: one header, one source."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import jax
import numpy as np

from persistor._tools.errors import PersistorError
from persistor.data.preparation import Preparation
from persistor.data.sounds import samples_of
from persistor.export.block import BlockCode, Member, block_code, function, loop
from persistor.export.constants import Weights, decimal, string
from persistor.export.front_end import frames_of, front_end
from persistor.export.parts import Parts, template
from persistor.model import Backbone, Pooling
from persistor.model.backbone import Residual
from persistor.nn.positions import frequencies


@dataclass(frozen=True)
class Program:
    """A model in C, and what is known about it without a compiler."""

    name: str
    model: Backbone
    weights: Weights
    features: bool
    header: str
    source: str
    blocks: tuple[BlockCode, ...]
    members: tuple[Member, ...]
    parts: Parts

    def fill(self, name: str) -> str:
        """A template for this model."""
        return named(template(name), self.name)


def program(
    model: Any, name: str, *, weights: Weights = "float", features: bool = False
) -> Program:
    """The model as a program; an error by name if C cannot compute what it computes."""
    check(model, features=features)
    parts = Parts(weights)
    writer = _Writer(model, parts)
    functions = writer.functions()
    members = tuple(writer.members())
    header = _header(model, members, features=features)
    front = front_end(parts) if features else ""
    source = "\n".join(
        [_banner(model, weights), '#include "NAME.h"\n', "#include <math.h>\n",
         parts.text(), *functions, *_extras(model), front]
    )  # fmt: skip
    texts = named(header, name), named(source, name)
    return Program(name, model, weights, features, *texts, tuple(writer.blocks), members, parts)


def named(text: str, name: str) -> str:
    """A text with the name of a model for NAME; in capitals where it begins a macro."""
    return re.sub(r"NAME(?=_[A-Z])", name.upper(), text).replace("NAME", name)


def check(model: Any, *, features: bool) -> None:
    """Raise if C cannot compute what this model computes."""
    if not isinstance(model, Backbone):
        raise PersistorError(
            f"this is a {type(model).__name__}; a whole model (a Backbone) can be exported"
        )
    for path, leaf in jax.tree_util.tree_leaves_with_path(model):
        if isinstance(leaf, float | int):
            continue
        where = jax.tree_util.keystr(path)
        if leaf.dtype != np.float32:
            raise PersistorError(
                f"{where} is {leaf.dtype}; C computes in float32, and rounds otherwise: train or "
                "save the model in float32"
            )
        if not np.isfinite(np.asarray(leaf)).all():
            raise PersistorError(f"{where} holds a value that is not a finite number")
    if features and (model.preparation is None or model.preparation.kind != "sounds"):
        kind = (
            "inputs it does not describe" if model.preparation is None else model.preparation.kind
        )
        raise PersistorError(f"--features is for models of sounds; this one reads {kind}")


class _Writer:
    """Writes the functions of a model, and takes in what they need."""

    def __init__(self, model: Backbone, parts: Parts):
        self.model, self.parts, self.width = model, parts, model.width
        self.places = model.encoding_width
        self.is_mean = model.pooling is Pooling.MEAN
        self.is_empty = model.architecture.empty == "zero"
        self.blocks: list[BlockCode] = []

    @property
    def last(self) -> BlockCode:
        return self.blocks[-1]

    def functions(self) -> list[str]:
        """All functions, public ones last."""
        parts, model = self.parts, self.model
        if self.places:
            parts.constant("frequencies", frequencies(self.places, model.architecture.base))
            parts.need("place")
        coded = self._residual("encoder", model.encoder, "input", "wide", "x")
        self.blocks += [block_code(b, f"block{i}", parts) for i, b in enumerate(model.blocks)]
        texts = []
        for code in self.blocks:
            texts.append(code.update(parts))
            answers = code is self.last and not self.is_mean
            with parts.during("answer" if answers else "step"):
                texts.append(code.mix(parts))
        encode = function("void encode(const float *input, float *x)", coded)
        return [encode, *texts, self._init(), self._step(), self._answer()]

    def members(self) -> list[Member]:
        """What the state keeps."""
        m, last = self.width, self.last
        kept = [member for code in self.blocks for member in code.members()]
        if self.is_empty:
            kept.append(Member("float", "empty", m, "the code of an input of zeros"))
        if self.is_mean:
            kept.append(Member("float", "sum", m, "of the last block, over the steps so far"))
            kept.append(Member("float", "sum_hidden", last.hidden, "inside its MLP"))
        else:
            kept.append(Member("float", "x", m, "what the last block read"))
            if last.keeps_u:
                kept.append(Member("float", "u", m, "what its cell read"))
        if self.places or self.is_mean:
            kept.insert(0, Member("uint32_t", "position", 0, "steps so far"))
        return kept

    def _residual(self, name: str, layer: Residual, x: str, wide: str, y: str) -> list[str]:
        """x + MLP(x) of a linear map; `wide` is the name of an array that it declares."""
        parts, hidden = self.parts, layer.mlp.narrow.weight.shape[0]
        parts.linear(f"{name}_linear", layer.linear)
        parts.linear(f"{name}_widen", layer.mlp.widen)
        parts.linear(f"{name}_narrow", layer.mlp.narrow)
        parts.need("silu" if layer.mlp.gate == "silu" else "glu")
        parts.spend("exponentials", hidden)
        return [
            f"float {wide}[{2 * hidden}];",
            parts.applied(f"{name}_linear", layer.linear, x, "0", y),
            parts.applied(f"{name}_widen", layer.mlp.widen, y, "0", wide),
            f"gate({wide}, {hidden});",
            parts.applied(f"{name}_narrow", layer.mlp.narrow, wide, y, y),
        ]

    def _init(self) -> str:
        body = [
            "unsigned char *byte = (unsigned char *)state;",
            "for (unsigned i = 0; i < sizeof *state; i++)",
            "    byte[i] = 0;",
        ]
        if self.is_empty:
            inputs = self.model.encoder.linear.weight.shape[0]
            body.insert(0, f"float zeros[{inputs}];")
            body += [*loop(inputs, ["zeros[i] = 0.0f;"]), "encode(zeros, state->empty);"]
        return function("void NAME_init(NAME_state *state)", body, public=True)

    def _step(self) -> str:
        """Encode, run the blocks, and keep what the answer needs."""
        model, parts, m = self.model, self.parts, self.width
        x, u = ("x", "u") if self.is_mean else ("state->x", "state->u")
        u = u if self.is_mean or self.last.keeps_u else "u"
        local = [n for n in (x, u) if n in ("x", "u")]
        mixes = len(self.blocks) > 1 or self.is_mean
        local += ["y"] if mixes else []
        widest = max(code.block.mlp.widen.weight.shape[1] for code in self.blocks)
        arrays = [f"{n}[{m}]" for n in local] + ([f"wide[{widest}]"] if mixes else [])
        arrays += [f"places[{self.places}]"] if self.places else []
        body = [f"float {', '.join(arrays)};"] if arrays else []
        body.append(f"encode(input, {x});")
        if self.is_empty:
            body += loop(m, [f"{x}[i] -= state->empty[i];"])
        if model.encoder_norm is not None:
            parts.norm("encoder_norm", model.encoder_norm)
            body.append(parts.normed("encoder_norm", model.encoder_norm, x, x))
        if self.places:
            parts.spend("sines and cosines", self.places)
            body.append(f"place(state->position, frequencies, {self.places // 2}, places);")
        for code in self.blocks:
            given = f"{x}, places, {u}" if self.places else f"{x}, {u}"
            body.append(f"{code.name}_update({given}, state);")
            if code is not self.last:
                body += [code.mixed(x, u), *code.finished(parts, x)]
        if self.is_mean:
            body.append(self.last.mixed(x, u))
            body += loop(m, ["state->sum[i] += y[i];"])
            body += loop(self.last.hidden, ["state->sum_hidden[i] += wide[i];"])
        if self.places or self.is_mean:
            body += ["if (state->position < UINT32_MAX)", "    state->position++;"]
        head = "void NAME_step(const float *input, NAME_state *state)"
        return function(head, body, public=True)

    def _answer(self) -> str:
        """Finish the last block and decode."""
        model, parts, m, last = self.model, self.parts, self.width, self.last
        with parts.during("answer"):
            body = [f"float y[{m}], wide[{last.block.mlp.widen.weight.shape[1]}];"]
            if self.is_mean:
                count = "(float)(state->position ? state->position : 1u)"
                body.append(f"const float steps = {count};")
                body += loop(m, ["y[i] = state->sum[i] / steps;"])
                body += loop(last.hidden, ["wide[i] = state->sum_hidden[i] / steps;"])
            else:
                body.append(last.mixed("state->x", "state->u"))
            body += last.finished(parts, "y")
            if model.decoder_norm is not None:
                parts.norm("decoder_norm", model.decoder_norm)
                body.append(parts.normed("decoder_norm", model.decoder_norm, "y", "y"))
            declared, *decode = self._residual("decoder", model.decoder, "y", "decoded", "output")
        body = [declared, *body, *decode]
        head = "void NAME_answer(const NAME_state *state, float *output)"
        return function(head, body, public=True)


def names_of(preparation: Preparation | None, outputs: int) -> tuple[str, ...]:
    """What the outputs are called; nothing if they are numbers or the model does not say."""
    if preparation is None or preparation.answer == "numbers":
        return ()
    is_named = preparation.letters if preparation.answer == "next" else preparation.classes
    return preparation.names(outputs) if is_named else ()


def _banner(model: Backbone, weights: Weights) -> str:
    cells = ", ".join(type(block.cell).__name__ for block in model.blocks)
    return (
        f"/* Written by persistor {version('persistor')}. Width {model.width}, {cells}.\n"
        f"   Weights: {weights}. Pooling: {model.pooling}. Change the model, not this. */\n"
    )


def _extras(model: Backbone) -> list[str]:
    """The names of the outputs, and how inputs are scaled."""
    texts, preparation = [], model.preparation
    names = names_of(preparation, model.decoder.linear.weight.shape[1])
    if names:
        listed = ",\n".join(f"    {string(name)}" for name in names)
        texts.append(f"const char *const NAME_classes[NAME_OUTPUTS] = {{\n{listed}}};\n")
    if preparation is not None and preparation.mean:
        for name in ("mean", "deviation"):
            numbers = ", ".join(map(decimal, getattr(preparation, name)))
            texts.append(f"static const float {name}[NAME_INPUTS] = {{{numbers}}};\n")
        scaled = loop(
            model.encoder.linear.weight.shape[0], ["input[i] = (raw[i] - mean[i]) / deviation[i];"]
        )
        texts.append(
            function("void NAME_scale(const float *raw, float *input)", scaled, public=True)
        )
    return texts


def _header(model: Backbone, members: tuple[Member, ...], *, features: bool) -> str:
    """The header: sizes, the state, and what can be called."""
    preparation, outputs = model.preparation, model.decoder.linear.weight.shape[1]
    optional = []
    if names_of(preparation, outputs):
        optional.append(
            "/* What the outputs are called. */\n"
            "extern const char *const NAME_classes[NAME_OUTPUTS];\n"
        )
    if preparation is not None and preparation.mean:
        optional.append(
            "/* An input as it was measured, scaled as in training. */\n"
            "void NAME_scale(const float *raw, float *input);\n"
        )
    if features and preparation is not None:
        clip = {
            "CLIP_SAMPLES": samples_of(preparation.clip),
            "FRAME_COUNT": frames_of(preparation.clip),
        }
        heard = template("features.h")
        for mark, number in clip.items():
            heard = heard.replace(mark, str(number))
        optional.append(heard)
    state = "\n".join(f"    {member}" for member in members)
    text = template("header.h")
    for mark, value in {
        "INPUT_COUNT": str(model.encoder.linear.weight.shape[0]),
        "OUTPUT_COUNT": str(outputs),
        "/*MEMBERS*/": state,
        "/*OPTIONAL*/": "\n".join(optional),
    }.items():
        text = text.replace(mark, value)
    return text
