"""A program on this machine: compiled, called from Python, and timed."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from persistor.export.compilers import run
from persistor.export.program import Program

FLOATS = ctypes.POINTER(ctypes.c_float)
DOUBLES = ctypes.POINTER(ctypes.c_double)
SHORTS = ctypes.POINTER(ctypes.c_int16)
WARM_STEPS, TIMED_STEPS, TIMES = 1_000, 1_000, 100  # short: some find the processor free


class Host:
    """A program as a shared object in a folder of its own."""

    def __init__(self, program: Program, sources: Path, folder: Path, compiler: str):
        self.program = program
        probes = ["probe.c", "probe_ear.c"] if program.features else ["probe.c"]
        for name in probes:
            text = program.fill(name).replace("/*STATES*/", _states(program))
            (folder / name).write_text(text)
        library = folder / f"{compiler}.so"
        files = [sources / f"{program.name}.c", *(folder / name for name in probes)]
        options = ["-std=c99", "-O3", "-shared", "-fPIC", f"-I{sources}"]
        run([compiler, *options, *files, "-o", library, "-lm"])
        self.library = ctypes.CDLL(str(library))

    def answers(self, x: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """The answer after every step of a sequence (t, i), and the states (t, all)."""
        x = np.ascontiguousarray(x, np.float32)
        outputs = np.zeros((len(x), self._outputs), np.float32)
        sizes = [len(code.cell.kept) * code.block.cell.state_size for code in self.program.blocks]
        states = np.zeros((len(x), sum(sizes)), np.float64)
        self.library.probe_run(
            x.ctypes.data_as(FLOATS),
            ctypes.c_int(len(x)),
            outputs.ctypes.data_as(FLOATS),
            states.ctypes.data_as(DOUBLES),
        )
        return outputs, states

    def heard(self, *buffers: NDArray[np.int16]) -> NDArray[np.float32]:
        """The answer about a sound, in buffers of any sizes."""
        output = np.zeros(self._outputs, np.float32)
        self.library.probe_silence()
        for buffer in map(np.ascontiguousarray, buffers):
            self.library.probe_hear(buffer.ctypes.data_as(SHORTS), ctypes.c_int(len(buffer)))
        self.library.probe_word(output.ctypes.data_as(FLOATS))
        return output

    def state_bytes(self) -> int:
        """The size of a state."""
        return int(self.library.probe_bytes())

    def seconds_a_step(self, x: NDArray[np.float32]) -> float:
        """The time of one step, without an answer: the best of a few measurements."""
        given = np.ascontiguousarray(x, np.float32).ctypes.data_as(FLOATS)
        self.library.probe_repeat(given, ctypes.c_int(WARM_STEPS))
        times = []
        for _ in range(TIMES):
            begin = time.perf_counter()
            self.library.probe_repeat(given, ctypes.c_int(TIMED_STEPS))
            times.append((time.perf_counter() - begin) / TIMED_STEPS)
        return min(times)

    @property
    def _outputs(self) -> int:
        return self.program.model.decoder.linear.weight.shape[1]


def _states(program: Program) -> str:
    """The lines that write all states as numbers, block by block."""
    return "\n    ".join(
        f"for (int i = 0; i < {code.block.cell.state_size}; i++)\n"
        f"        *number++ = (double)state.{member}[i];"
        for code in program.blocks
        for member in code.cell.kept
    )
