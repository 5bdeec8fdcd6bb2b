"""Mel-frequency cepstral coefficients, equal to librosa's defaults, and the sound they come from.

frames of 512 samples, 160 apart, zeros beyond both ends, Hann window
-> power spectrum -> 128 mel bands (Slaney) -> decibels, at most 80 below the loudest
-> the first 13 coefficients of an orthonormal cosine transform
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import itertools
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from persistor.data.parts import Report, in_order, silent
from persistor.errors import PersistorError
from persistor.files import replacing, writing

SAMPLE_RATE = 16_000
SAMPLES = SAMPLE_RATE  # a clip is one second
WINDOW = 512
HOP = 160
BANDS = 128
COEFFICIENTS = 13
QUIETEST = 1e-10
RANGE = 80.0  # decibels
STEPS = 1 + SAMPLES // HOP
CHUNK = 256  # clips a process takes at a time
SETTINGS = f"mfcc {SAMPLE_RATE} {SAMPLES} {WINDOW} {HOP} {BANDS} {COEFFICIENTS} {QUIETEST} {RANGE}"


def mfcc(signal: NDArray[np.floating], sample_rate: int = SAMPLE_RATE) -> NDArray[np.float32]:
    """Coefficients (..., 1 + samples // 160, 13) of signals (..., samples)."""
    signal = np.asarray(signal, np.float32)
    if signal.ndim == 0 or signal.shape[-1] == 0:
        raise PersistorError("the signal has no samples")
    ends = [(0, 0)] * (signal.ndim - 1) + [(WINDOW // 2, WINDOW // 2)]
    frames = np.lib.stride_tricks.sliding_window_view(np.pad(signal, ends), WINDOW, axis=-1)
    spectrum = np.fft.rfft(frames[..., ::HOP, :] * _hann())
    power = np.square(spectrum.real) + np.square(spectrum.imag)
    level = 10 * np.log10(np.maximum(power @ _mel(sample_rate), np.float32(QUIETEST)))
    level = np.maximum(level, level.max((-2, -1), keepdims=True) - np.float32(RANGE))
    return level @ _cosines()


@functools.cache
def _hann() -> NDArray[np.float32]:
    return (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)).astype(np.float32)


@functools.cache
def _mel(sample_rate: int) -> NDArray[np.float32]:
    """Triangles of equal area on Slaney's scale: linear below 1 kHz, logarithmic above."""
    top = _to_mel(np.array(sample_rate / 2))
    corners = _to_hertz(np.linspace(0, top, BANDS + 2))
    bins = np.fft.rfftfreq(WINDOW, 1 / sample_rate)[:, None]
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
def _cosines() -> NDArray[np.float32]:
    angles = np.pi * np.outer(np.arange(BANDS) + 0.5, np.arange(COEFFICIENTS)) / BANDS
    basis = np.sqrt(2 / BANDS) * np.cos(angles)
    basis[:, 0] /= np.sqrt(2)
    return basis.astype(np.float32)


def read_clip(sound: bytes, name: str) -> NDArray[np.float32]:
    """One second of a wav or flac file: cut at its end, or filled up with silence; one channel."""
    try:
        import soundfile
    except ImportError:
        raise PersistorError(
            "reading sound needs soundfile; install it with: pip install 'persistor[audio]'"
        ) from None
    try:
        signal, rate = soundfile.read(io.BytesIO(sound), dtype="float32", always_2d=True)
    except (soundfile.SoundFileError, TypeError, ValueError) as error:
        raise PersistorError(f"{name} is not a whole wav or flac file ({error})") from None
    if rate != SAMPLE_RATE:
        raise PersistorError(f"{name} has {rate} samples a second; resample it to {SAMPLE_RATE}")
    if not len(signal) or not np.isfinite(signal).all():
        raise PersistorError(f"{name} holds no sound")
    clip = np.zeros(SAMPLES, np.float32)
    clip[: len(signal)] = signal[:SAMPLES].mean(1)
    return clip


Clip = tuple[str, bytes]


def clips(source: Path, names: Sequence[str]) -> Iterator[Clip]:
    """The named files of a folder, a zip or a tar archive; of a tar, in the archive's order."""
    try:
        if source.is_dir():
            for name in names:
                yield name, (source / name).read_bytes()
        elif zipfile.is_zipfile(source):
            with zipfile.ZipFile(source) as archive:
                for name in names:
                    yield name, archive.read(name)
        else:
            wanted = set(names)
            with tarfile.open(source, "r|*") as archive:
                for member in archive:
                    name = member.name.removeprefix("./")
                    if name in wanted and (file := archive.extractfile(member)):
                        wanted.discard(name)
                        yield name, file.read()
            for name in sorted(wanted):
                raise KeyError(name)
    except (OSError, KeyError, EOFError, zipfile.BadZipFile, tarfile.TarError) as error:
        raise PersistorError(f"{source} is damaged or lacks a file: {error}") from None


def features(
    source: Path,
    names: Sequence[str],
    cache: Path,
    *,
    report: Report = silent,
    processes: int | None = None,
) -> NDArray[np.float32]:
    """The coefficients (n, 101, 13) of the named clips, in their order, as a memory map.

    They are computed once and kept in the folder `cache`, under a name that stands for the
    settings, the source and the clips.
    """
    if not names:
        raise PersistorError(f"{source}: no clips are named")
    path = cache / f"mfcc-{_key(source, names)}.npy"
    if not path.exists():
        with writing(cache):
            cache.mkdir(parents=True, exist_ok=True)
        _compute(source, names, path, report, processes)
    return np.load(path, mmap_mode="r")


def _key(source: Path, names: Sequence[str]) -> str:
    """Sixteen hex digits for the settings, the clips, and the size of what holds them."""
    try:
        holders = [source / name for name in names] if source.is_dir() else [source]
        sizes = [holder.stat().st_size for holder in holders]
    except OSError as error:
        raise PersistorError(f"{error.filename} cannot be read: {error.strerror}") from None
    text = "\n".join([SETTINGS, *names, *map(str, sizes)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _compute(
    source: Path, names: Sequence[str], path: Path, report: Report, processes: int | None
) -> None:
    place = {name: i for i, name in enumerate(names)}
    result = np.empty((len(names), STEPS, COEFFICIENTS), np.float32)
    done = 0
    with contextlib.closing(in_order(_chunk, _chunks(clips(source, names)), processes)) as chunks:
        for some, coefficients in chunks:
            result[[place[name] for name in some]] = coefficients
            done += len(some)
            report(done, len(names))
    with replacing(path) as file:
        np.save(file, result)


def _chunks(each: Iterator[Clip]) -> Iterator[tuple[Clip, ...]]:
    while some := tuple(itertools.islice(each, CHUNK)):
        yield some


def _chunk(some: tuple[Clip, ...]) -> tuple[list[str], NDArray[np.float32]]:
    # One at a time: a clip's frames fit into the cache, a thousand's do not.
    coefficients = [mfcc(read_clip(sound, name)) for name, sound in some]
    return [name for name, _ in some], np.stack(coefficients)
