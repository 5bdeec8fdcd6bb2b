"""Sounds as they are: any sample rate, any number of channels, any length.

Wav files are read here. All other forms need soundfile.
"""

from __future__ import annotations

import functools
import io
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor._tools.files import reading
from persistor.data.contents import checksum, some, survey
from persistor.data.mfcc import HOP, SAMPLE_RATE, mfcc
from persistor.data.prepared import prepared, read_arrays
from persistor.data.workers import Report, in_order, silent

ENDINGS = (".wav", ".flac", ".ogg", ".opus", ".mp3", ".aiff", ".aif", ".au", ".caf")
LARGEST = 1 << 28  # bytes of a file
LONGEST = 60.0  # seconds of a clip
USUAL_LONGEST = 10.0  # seconds of a clip, unless another length is asked for
COVERED = 95  # percent of the sounds are not cut, unless another length is asked for
RATES = (1_000, 768_000)
TOGETHER = 64  # sounds that a process gets at a time
LOBES = 32  # of the resampler's sinc, on either side
ROLL_OFF = 0.94  # of the lower Nyquist frequency: where the resampler's filter begins to close
KAISER = 9.6  # about 95 decibels below the passband


@dataclass(frozen=True)
class Sound:
    """The samples of a sound, averaged over its channels."""

    signal: NDArray[np.float32]
    rate: int

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return len(self.signal) / self.rate


def read_sound(content: bytes, name: str) -> NDArray[np.float32]:
    """The samples of a sound that is expected to have 16 kHz."""
    try:
        sound = decoded(content)
    except ValueError as error:
        raise PersistorError(f"{name} {error}") from None
    if sound.rate != SAMPLE_RATE:
        raise PersistorError(
            f"{name} has a sample rate of {sound.rate} Hz; resample it to {SAMPLE_RATE}"
        )
    if not len(sound.signal):
        raise PersistorError(f"{name} holds no sound")
    return sound.signal


def one_second(signal: NDArray[np.float32]) -> NDArray[np.float32]:
    """The first second of a clip, padded with silence if the clip is shorter."""
    return fitted(signal, SAMPLE_RATE)


def fitted(signal: NDArray[np.float32], samples: int) -> NDArray[np.float32]:
    """The first samples of a signal, padded with silence if there are fewer."""
    return np.pad(signal[:samples], (0, max(0, samples - len(signal))))


def decoded(content: bytes) -> Sound:
    """The sound in the content of a file; a ValueError says what is wrong with it."""
    sound = _wav(content) if content[:4] == b"RIFF" and content[8:12] == b"WAVE" else None
    sound = _by_soundfile(content) if sound is None else sound
    if not RATES[0] <= sound.rate <= RATES[1]:
        raise ValueError(f"has a sample rate of {sound.rate:,} Hz")
    wrong = np.flatnonzero(~np.isfinite(sound.signal))
    if len(wrong):
        raise ValueError(f"holds a value that is not a finite number, at sample {wrong[0]:,}")
    return sound


def _wav(content: bytes) -> Sound | None:
    """A wav file of plain samples; None if they are encoded."""
    at, header = 12, b""
    while at + 8 <= len(content):
        kind, size = content[at : at + 4], int.from_bytes(content[at + 4 : at + 8], "little")
        at += 8
        if kind == b"fmt ":
            header = content[at : at + size]
        elif kind == b"data":
            there = len(content) - at
            if there < size < 0x7FFF0000:  # beyond: unknown when the header was written
                raise ValueError(f"is truncated: {there:,} of {size:,} bytes of sound are there")
            return _samples(header, content[at : at + size])
        at += size + size % 2
    raise ValueError("is truncated: it ends before the sound begins")


def _samples(header: bytes, content: bytes) -> Sound | None:
    if len(header) < 16:
        raise ValueError("is not a complete wav file")
    form, channels = (int.from_bytes(header[i : i + 2], "little") for i in (0, 2))
    rate, bits = int.from_bytes(header[4:8], "little"), int.from_bytes(header[14:16], "little")
    if form == 0xFFFE:  # extensible: the form is the beginning of a longer name
        form = int.from_bytes(header[24:26], "little")
    width = bits // 8
    if form not in (1, 3) or width not in ((1, 2, 3, 4) if form == 1 else (4, 8)) or bits % 8:
        return None
    if not channels:
        raise ValueError("has no channels")
    content = content[: len(content) // (width * channels) * width * channels]
    values = _numbers(content, width, is_float=form == 3).reshape(-1, channels)
    return Sound(_averaged(values), rate)


def _averaged(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The mean over channels (samples, channels)."""
    channels = values.shape[1]
    if channels == 1:
        return values[:, 0]
    return values @ np.full(channels, 1 / channels, np.float32)


def _numbers(content: bytes, width: int, *, is_float: bool) -> NDArray[np.float32]:
    if is_float:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.frombuffer(content, f"<f{width}").astype(np.float32)
    if width == 1:
        return (np.frombuffer(content, np.uint8).astype(np.float32) - np.float32(128)) / np.float32(
            128
        )
    if width == 3:
        padded = np.zeros((len(content) // 3, 4), np.uint8)
        padded[:, 1:] = np.frombuffer(content, np.uint8).reshape(-1, 3)
        content, width = padded.tobytes(), 4
    scale = np.float32(2.0 ** (1 - 8 * width))
    return np.frombuffer(content, f"<i{width}").astype(np.float32) * scale


def _by_soundfile(content: bytes) -> Sound:
    try:
        import soundfile
    except ImportError:
        raise PersistorError(
            "only plain wav files are read without soundfile; install it with: "
            "pip install 'persistor[audio]'"
        ) from None
    try:
        signal, rate = soundfile.read(io.BytesIO(content), dtype="float32", always_2d=True)
    except (soundfile.SoundFileError, TypeError, ValueError, OverflowError, MemoryError) as error:
        reason = str(getattr(error, "error_string", error)).rstrip(".")
        raise ValueError(f"is not a complete sound file ({reason})") from None
    return Sound(_averaged(np.asarray(signal, np.float32)), rate)


def resampled(sound: Sound, rate: int = SAMPLE_RATE) -> NDArray[np.float32]:
    """The signal at another rate, by a windowed sinc for each phase between the samples."""
    if sound.rate == rate or not len(sound.signal):
        return sound.signal
    common = math.gcd(sound.rate, rate)
    up, down = rate // common, sound.rate // common
    phases = _phases(up, down)
    taps = phases.shape[1]
    padded = np.pad(sound.signal, (taps // 2 - 1, taps + down))
    windows = np.lib.stride_tricks.sliding_window_view(padded, taps)
    count = -(-len(sound.signal) * rate // sound.rate)
    signal = np.empty((-(-count // up), up), np.float32)
    for i in range(up):  # outputs i, i + up, ... have the same phase and are `down` inputs apart
        begin, phase = divmod(i * down, up)
        signal[:, i] = windows[begin::down][: len(signal)] @ phases[phase]
    return signal.reshape(-1)[:count]


@functools.lru_cache(8)
def _phases(up: int, down: int) -> NDArray[np.float32]:
    """The filter's taps at each of the places that an output can have between two inputs."""
    cutoff = ROLL_OFF * min(1.0, up / down)
    half = math.ceil(LOBES / cutoff)
    places = np.arange(1 - half, half + 1)[None, :] - np.arange(up)[:, None] / up
    window = np.kaiser(2 * 4096 + 1, KAISER)
    shape = np.interp(np.abs(places) / half, np.linspace(0, 1, 4097), window[4096:])
    taps = cutoff * np.sinc(cutoff * places) * shape
    return (taps / taps.sum(1, keepdims=True)).astype(np.float32)


def clip_features(sound: Sound, seconds: float) -> NDArray[np.float32]:
    """The MFCCs of the first seconds of a sound, padded with silence if it is shorter."""
    enough = Sound(sound.signal[: math.ceil((seconds + 0.1) * sound.rate)], sound.rate)
    return mfcc(fitted(resampled(enough), samples_of(seconds)))


def clip_pcm(path: Path, seconds: float) -> NDArray[np.int16]:
    """The first seconds of a sound, at 16 kHz in 16 bits; a shorter one stays shorter."""
    signal = resampled(decoded(_content(path)))[: samples_of(seconds)]
    return np.clip(np.rint(32_768 * signal), -32_768, 32_767).astype("<i2")


def samples_of(seconds: float) -> int:
    """The number of samples of a clip at 16 kHz."""
    return round(seconds * SAMPLE_RATE)


@dataclass(frozen=True)
class Sounds:
    """The sounds below a folder, by name."""

    folder: Path
    names: tuple[str, ...]
    sums: tuple[str, ...]  # checksums of their files
    seconds: NDArray[np.float64]
    rates: NDArray[np.int64]
    quiet: NDArray[np.bool_]  # whether nothing can be heard
    skipped: Mapping[str, int]  # how many other files were left out, and why

    def only(self, kept: NDArray[np.bool_], reason: str) -> Sounds:
        """Some of the sounds; the others are left out for a reason."""
        left_out = int((~kept).sum())
        if not left_out:
            return self
        return replace(
            self,
            names=tuple(itertools.compress(self.names, kept)),
            sums=tuple(itertools.compress(self.sums, kept)),
            seconds=self.seconds[kept],
            rates=self.rates[kept],
            quiet=self.quiet[kept],
            skipped={**self.skipped, reason: self.skipped.get(reason, 0) + left_out},
        )

    def usual_clip(self) -> float:
        """The seconds that nearly all of the sounds fit into."""
        most = np.percentile(self.seconds, COVERED)
        tenths = math.ceil(round(float(most) * 10, 3))
        return min(USUAL_LONGEST, max(1, tenths) / 10)

    def cut(self, clip: float) -> int:
        """How many are longer than a clip, by more than the step between two features."""
        return int((self.seconds > clip + HOP / SAMPLE_RATE).sum())

    def padded(self, clip: float) -> int:
        """How many are shorter than a clip, by more than the step between two features."""
        return int((self.seconds < clip - HOP / SAMPLE_RATE).sum())

    def features(self, clip: float, key: str, report: Report = silent) -> NDArray[np.float16]:
        """The MFCCs of all, computed once and kept under a key that names the sounds."""
        path = prepared(f"sounds-{key[:24]}-{clip:g}", lambda: {"x": self._features(clip, report)})
        return read_arrays(path)["x"]

    def _features(self, clip: float, report: Report) -> NDArray[np.float16]:
        work = functools.partial(_features_of, self.folder, clip)
        parts = list(_over_batches(work, self.names, report))
        return np.concatenate(parts).astype(np.float16)


def sounds_in(folder: Path, report: Report = silent) -> Sounds:
    """Every sound below a folder; an error names those that are damaged."""
    found = survey(folder, ENDINGS)

    def examine():
        parts = list(_over_batches(functools.partial(_examined, folder), found.names, report))
        facts = [fact for part in parts for fact in part]
        columns = list(zip(*facts, strict=True)) or [[], [], [], [], []]
        kinds = (np.bytes_, np.float64, np.int64, np.bool_, np.str_)
        return {
            key: np.array(column, kind)
            for key, column, kind in zip(_FACTS, columns, kinds, strict=True)
        }

    if not found.names:
        raise PersistorError(
            f"{folder} holds no sounds; it should have one folder of sounds for each class"
        )
    facts = read_arrays(prepared(f"examined-{found.fingerprint}", examine))
    wrong = [i for i, problem in enumerate(facts["problem"]) if problem]
    if wrong:
        lines = [f"{folder / found.names[i]} {facts['problem'][i]}" for i in wrong]
        raise PersistorError(f"{some(lines)}; mend or remove {'it' if len(lines) == 1 else 'them'}")
    sounds = Sounds(
        folder,
        found.names,
        tuple(facts["sum"].astype(np.str_).tolist()),
        facts["seconds"],
        facts["rate"],
        facts["silent"],
        found.skipped,
    )
    return sounds.only(facts["seconds"] > 0, "empty")


_FACTS = ("sum", "seconds", "rate", "silent", "problem")


def _over_batches(work, names: tuple[str, ...], report: Report) -> Iterator:
    """The work done on batches of names, in several processes if there are many."""
    batches = [names[i : i + TOGETHER] for i in range(0, len(names), TOGETHER)]
    results = in_order(work, batches, 1 if len(batches) < 4 else None)
    for done, result in zip(itertools.count(1), results, strict=False):
        report(min(done * TOGETHER, len(names)), len(names))
        yield result


def _examined(folder: Path, names: tuple[str, ...]) -> list[tuple[str, float, int, bool, str]]:
    """Checksum, seconds, rate, whether it is silent, and what is wrong, of each sound."""
    facts = []
    for name in names:
        content = _content(folder / name)
        if len(content) > LARGEST:
            facts.append(("", 0.0, 0, False, f"has more than {LARGEST >> 20} MB"))
            continue
        try:
            sound = decoded(content)
        except ValueError as error:
            facts.append(("", 0.0, 0, False, str(error)))
            continue
        is_silent = bool(len(sound.signal)) and not np.ptp(sound.signal)
        facts.append((checksum(content), sound.seconds, sound.rate, is_silent, ""))
    return facts


def _features_of(folder: Path, clip: float, names: tuple[str, ...]) -> NDArray[np.float32]:
    return np.stack([clip_features(decoded(_content(folder / name)), clip) for name in names])


def _content(path: Path) -> bytes:
    with reading(path) as file:
        return file.read(LARGEST + 1)
