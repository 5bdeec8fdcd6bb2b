"""The MFCC front end in C: its tables, and the text around them."""

from __future__ import annotations

import numpy as np

from persistor.data import mfcc
from persistor.export.parts import Parts, template

HALF = mfcc.WINDOW // 2


def front_end(parts: Parts) -> str:
    """The tables and functions that turn samples into inputs, for a program that scales inputs."""
    mel = mfcc.mel_bands().T
    starts = np.array([np.flatnonzero(band)[0] for band in mel], np.int16)
    sizes = np.array([np.flatnonzero(band)[-1] + 1 for band in mel], np.int16) - starts
    weights = [band[a : a + n] for band, a, n in zip(mel, starts, sizes, strict=True)]
    own = Parts("float")
    own.constant("window", mfcc.hann())
    own.constant("cosines", np.cos(2 * np.pi * np.arange(HALF + 1) / mfcc.WINDOW))
    own.constant("mel_starts", starts)
    own.constant("mel_sizes", sizes)
    own.constant("mel_weights", np.concatenate(weights))
    own.constant("transform_rows", mfcc.cosines().T)
    parts.bytes += own.bytes
    with parts.during("frame"):  # measured twice: for the loudest, and to be described
        butterflies = HALF // 2 * (HALF.bit_length() - 1)
        once = 2 * mfcc.WINDOW + 4 * butterflies + 10 * (HALF + 1) + int(sizes.sum())
        parts.spend("multiplications", 2 * once + mfcc.BANDS * mfcc.COEFFICIENTS)
        parts.spend("logarithms", 2 * mfcc.BANDS)
    return "".join(own.constants) + "\n" + template("features.c")
