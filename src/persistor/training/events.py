"""A run's progress in the format of TensorBoard: an event file beside `progress.jsonl`.

The file is a TFRecord (length, its checksum, data, their checksum) of `Event` messages in protocol
buffers. A curve needs only five of their fields, which does not justify a library.
"""

from __future__ import annotations

import functools
import struct
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from persistor._tools.files import writing
from persistor.training.run import Run

NAME = "events.out.tfevents.persistor"


class EventFile:
    """Follows a run: writes all its evaluations so far, then every new one.

    Only the first update creates the file: a process that may not train the run must not touch
    its curves.
    """

    def __init__(self, run: Run):
        self.run, self.written = run, 0
        self.began = (run.path / "experiment.json").stat().st_mtime
        self.file: BinaryIO | None = None

    @property
    def path(self) -> Path:
        """The path of the event file."""
        return self.run.path / NAME

    def update(self) -> None:
        """Write the evaluations since the last update."""
        lines = self.run.progress()
        with writing(self.path):
            if self.file is None:
                self.file = self.path.open("wb")
                self.file.write(_record(_event(self.began, 0, _field(3, b"brain.Event:2"))))
            for line in lines[self.written :]:
                self.file.write(_record(self._scalars(line)))
            self.file.flush()
        self.written = len(lines)

    def _scalars(self, line: dict[str, Any]) -> bytes:
        """An evaluation as an event. The event has its own fields for the step and the time."""
        values = b"".join(
            _field(1, _field(1, name.encode()) + b"\x15" + struct.pack("<f", value))
            for name, value in line.items()
            if name not in ("step", "seconds")
        )
        return _event(self.began + line["seconds"], line["step"], _field(5, values))

    def __enter__(self) -> EventFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.file is not None:
            with writing(self.path):
                self.file.close()


def _record(event: bytes) -> bytes:
    """A record of the file: its length and the event, each with a checksum."""
    length = struct.pack("<Q", len(event))
    return length + _checksum(length) + event + _checksum(event)


def _event(seconds: float, step: int, content: bytes) -> bytes:
    """An `Event`: 1 is the time, 2 the step, 3 a file's version, 5 a summary."""
    return b"\x09" + struct.pack("<d", seconds) + b"\x10" + _varint(step) + content


def _field(number: int, data: bytes) -> bytes:
    """A field that is a string or a message."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    """A number as bytes of seven bits each, lowest bits first."""
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _checksum(data: bytes) -> bytes:
    """CRC-32C, rotated and shifted as TFRecord wants it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _remainders()[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


@functools.cache
def _remainders() -> list[int]:
    """The remainder of every byte, divided by Castagnoli's polynomial."""
    remainders = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        remainders.append(byte)
    return remainders
