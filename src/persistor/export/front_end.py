"""The MFCC front end in C: its tables, and the text around them."""

from __future__ import annotations

import numpy as np

from persistor.data import mfcc
from persistor.data.sounds import samples_of
from persistor.export.parts import Parts, template

STEPS = 256  # of a band in a decibel
EAR = 12 + 2 * mfcc.WINDOW  # bytes of an ear, without its bands


def frames_of(clip: float) -> int:
    """The number of frames in some seconds."""
    return 1 + samples_of(clip) // mfcc.HOP


def front_end(parts: Parts) -> str:
    """The tables and functions that turn samples into inputs, for a program that scales inputs."""
    mel = mfcc.mel_bands().T
    starts = np.array([np.flatnonzero(band)[0] for band in mel], np.int16)
    sizes = np.array([np.flatnonzero(band)[-1] + 1 for band in mel], np.int16) - starts
    weights = [band[a : a + n] for band, a, n in zip(mel, starts, sizes, strict=True)]
    folded = mfcc.cosines()[: mfcc.BANDS // 2].T  # the other half repeats them, or their negatives
    quarters = 5 * mfcc.WINDOW // 4  # a cosine is a sine a quarter later
    own = Parts("float")
    own.constant("sines", np.sin(2 * np.pi * np.arange(quarters) / mfcc.WINDOW))
    own.constant("mel_starts", starts.astype(np.uint8))
    own.constant("mel_sizes", sizes.astype(np.uint8))
    own.constant("mel_weights", np.concatenate(weights))
    own.constant("transform_rows", folded / STEPS)
    parts.bytes += own.bytes
    with parts.during("frame"):
        parts.spend("frames", 1)
    return "".join(own.constants) + "\n" + template("features.c")
