"""Mel-frequency cepstral coefficients, equal to librosa's defaults.

frames of 512 samples, 160 apart, zeros beyond both ends, Hann window
-> power spectrum -> 128 mel bands (Slaney) -> decibels, at most 80 below the loudest
-> the first 13 coefficients of an orthonormal cosine transform
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError

SAMPLE_RATE = 16_000
WINDOW = 512
HOP = 160
BANDS = 128
COEFFICIENTS = 13
QUIETEST = 1e-10
RANGE = 80.0  # decibels
STEPS = 1 + SAMPLE_RATE // HOP  # of one second


def mfcc(signal: NDArray[np.floating]) -> NDArray[np.float32]:
    """Coefficients (..., 1 + samples // 160, 13) of signals (..., samples) at 16 kHz."""
    signal = np.asarray(signal, np.float32)
    if signal.ndim == 0 or signal.shape[-1] == 0:
        raise PersistorError("the signal has no samples")
    ends = [(0, 0)] * (signal.ndim - 1) + [(WINDOW // 2, WINDOW // 2)]
    frames = np.lib.stride_tricks.sliding_window_view(np.pad(signal, ends), WINDOW, axis=-1)
    spectrum = np.fft.rfft(frames[..., ::HOP, :] * hann())
    power = np.square(spectrum.real) + np.square(spectrum.imag)
    level = 10 * np.log10(np.maximum(power @ mel_bands(), np.float32(QUIETEST)))
    level = np.maximum(level, level.max((-2, -1), keepdims=True) - np.float32(RANGE))
    return level @ cosines()


@functools.cache
def hann() -> NDArray[np.float32]:
    """The window (512,)."""
    return (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)).astype(np.float32)


@functools.cache
def mel_bands() -> NDArray[np.float32]:
    """Triangles of equal area (257, 128) on Slaney's scale: linear to 1 kHz, then logarithmic."""
    top = _to_mel(np.array(SAMPLE_RATE / 2))
    corners = _to_hertz(np.linspace(0, top, BANDS + 2))
    bins = np.fft.rfftfreq(WINDOW, 1 / SAMPLE_RATE)[:, None]
    rising = (bins - corners[:-2]) / np.diff(corners)[:-1]
    falling = (corners[2:] - bins) / np.diff(corners)[1:]
    triangles = np.maximum(0, np.minimum(rising, falling))
    return (triangles * 2 / (corners[2:] - corners[:-2])).astype(np.float32)


_LINEAR = 200 / 3  # hertz a mel, up to 1 kHz: mel 15
_LOG_STEP = np.log(6.4) / 27


def _to_mel(hertz: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(
        hertz < 1_000, hertz / _LINEAR, 15 + np.log(np.maximum(hertz, 1) / 1_000) / _LOG_STEP
    )


def _to_hertz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(mel < 15, mel * _LINEAR, 1_000 * np.exp(_LOG_STEP * (mel - 15)))


@functools.cache
def cosines() -> NDArray[np.float32]:
    """The orthonormal cosine transform's first columns (128, 13)."""
    angles = np.pi * np.outer(np.arange(BANDS) + 0.5, np.arange(COEFFICIENTS)) / BANDS
    basis = np.sqrt(2 / BANDS) * np.cos(angles)
    basis[:, 0] /= np.sqrt(2)
    return basis.astype(np.float32)
