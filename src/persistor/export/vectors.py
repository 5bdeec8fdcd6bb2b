"""Test vectors: inputs, and what the model answers about them, as constants of C."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from persistor.data.preparation import Preparation
from persistor.data.sounds import Sound, samples_of
from persistor.export.constants import Weights, array, decimal
from persistor.export.truth import Truth, computed_by, truth
from persistor.model import Backbone

NUMBER, STEPS = 4, 24
# How far answers may be apart, relative to the largest: of sums in another order, and of sums
# whose inputs have 16 bits.
ROUNDING = {"float": 1e-5, "int8": 5e-4}


class Vectors(NamedTuple):
    """Sequences (t, i), the expected answers (o,) after their last steps, and how near is equal."""

    inputs: list[NDArray[np.float32]]
    outputs: NDArray[np.float32]
    tolerance: float
    sounds: list[NDArray[np.int16]]


def invented(model: Backbone, weights: Weights, *, features: bool) -> Vectors:
    """Vectors from random inputs, cut before the first decision that rounding might change."""
    x = inputs_like(model, NUMBER, STEPS)
    found = truth(computed_by(model, weights), x)
    steps = np.maximum(found.sure(weights).sum(1), 1)
    outputs = np.stack([of[n - 1] for of, n in zip(found.outputs, steps, strict=True)])
    sounds = [invented_sound(model.preparation)] if features and model.preparation else []
    cut = [sequence[:n] for sequence, n in zip(x, steps, strict=True)]
    return Vectors(cut, outputs, tolerance(found, weights), sounds)


def tolerance(found: Truth, weights: Weights) -> float:
    """How near to the model's an answer must be."""
    return float(ROUNDING[weights] * (1 + np.abs(found.outputs).max()))


def inputs_like(model: Backbone, number: int, steps: int, seed: int = 0) -> NDArray[np.float32]:
    """Random sequences (n, t, i) of the kind that the model reads."""
    inputs, preparation = model.encoder.linear.weight.shape[0], model.preparation
    draw = np.random.default_rng(seed)
    if preparation is not None and preparation.letters:
        return np.eye(inputs, dtype=np.float32)[draw.integers(0, inputs, (number, steps))]
    if preparation is not None and preparation.kind == "pixels":
        return draw.random((number, steps, inputs), np.float32)
    return draw.normal(size=(number, steps, inputs)).astype(np.float32)


def invented_sound(preparation: Preparation, seed: int = 0) -> NDArray[np.int16]:
    """A clip: a voice of three tones that rises and falls, in noise, with silence at both ends."""
    draw, n = np.random.default_rng(seed), samples_of(preparation.clip)
    time = np.arange(n) / 16_000
    pitch = 2 * np.pi * draw.uniform(100, 300) * time
    voice = sum(np.sin(k * pitch + draw.uniform(0, 6)) / k for k in (1, 3, 7))
    signal = np.hanning(n) ** 2 * (0.3 * voice + 0.05 * draw.normal(size=n))
    signal[: n // 16] = signal[n - n // 16 :] = 0.0
    return np.round(32_767 * np.clip(signal, -1, 1)).astype(np.int16)


def heard(preparation: Preparation, samples: NDArray[np.int16]) -> NDArray[np.float32]:
    """What the model reads of samples."""
    return preparation.heard(Sound(samples.astype(np.float32) / np.float32(2**15), 16_000))


def vectors_text(vectors: Vectors) -> str:
    """The vectors as a header."""
    texts = [
        "/* Written by persistor: inputs, and what the model answers about them. */\n",
        "#include <stdint.h>\n",
        f"enum {{ VECTORS = {len(vectors.inputs)} }};",
        f"#define TOLERANCE {decimal(vectors.tolerance)}\n",
        array("vector_steps", np.array([len(x) for x in vectors.inputs], np.int32)),
        array("vector_inputs", np.concatenate(vectors.inputs).reshape(-1).astype(np.float32)),
        array("vector_outputs", np.asarray(vectors.outputs, np.float32).reshape(-1)),
    ]
    return "\n".join(texts)


def sounds_text(sounds: list[NDArray[np.int16]]) -> str:
    """Sounds as a header, for a board."""
    sizes = array("vector_sizes", np.array([len(s) for s in sounds], np.int32))
    samples = array("vector_samples", np.concatenate(sounds))
    return f"enum {{ SOUNDS = {len(sounds)} }};\n{sizes}{samples}"
