"""A program on Cortex-M boards, emulated by QEMU: answers, instructions, flash, stack.

With `-icount` QEMU's clock advances by 64 ns with every instruction, whatever it is, and the
board's timer by a tick every 40 ns: so the timer counts instructions. Cycles are more: a load or a
division takes several.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from persistor.export.compilers import run
from persistor.export.parts import template
from persistor.export.program import Program
from persistor.export.vectors import Vectors, sounds_text, vectors_text

SHIFT = 6  # 2^6 ns an instruction
TICK = 40  # ns
ROOM = 3_900_000  # bytes of constants that fit a board
TOOLS = ("arm-none-eabi-gcc", "qemu-system-arm")


@dataclass(frozen=True)
class Board:
    """A board of QEMU, and how to compile for it."""

    title: str
    machine: str
    options: tuple[str, ...]


BOARDS = (
    Board("Cortex-M3", "mps2-an385", ("-mcpu=cortex-m3", "-mthumb")),
    Board(
        "Cortex-M4",
        "mps2-an386",
        ("-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"),
    ),
)


@dataclass(frozen=True)
class Measured:
    """What a board did with vectors."""

    outputs: NDArray[np.float32]  # n o
    heard: NDArray[np.float32]  # of sounds: n o
    step: float  # instructions
    answer: float
    hear: float  # for a clip: features, steps and the answer
    flash: int  # bytes of the program and its constants, without the mathematical functions
    stack: int
    stack_hearing: int


def measured(
    program: Program, sources: Path, vectors: Vectors, board: Board, folder: Path
) -> Measured:
    """Compile for a board, run the vectors in QEMU, and read what it printed."""
    folder.mkdir()
    sounds = sounds_text(vectors.sounds) if vectors.sounds else ""
    (folder / "vectors.h").write_text(vectors_text(vectors) + sounds)
    (folder / "board.c").write_text(program.fill("board.c"))
    (folder / "board.ld").write_text(template("board.ld"))
    options = ["-std=c99", "-O2", "-Wall", "-Wextra", "-ffunction-sections", *board.options]
    compiled, linked = folder / "model.o", folder / "board.elf"
    gcc = "arm-none-eabi-gcc"
    run([gcc, *options, "-c", sources / f"{program.name}.c", "-o", compiled])
    run(
        [gcc, *options, "-Wno-unused-const-variable", f"-I{sources}", "-nostartfiles",
         "--specs=nano.specs", "-Wl,--gc-sections", "-T", folder / "board.ld",
         folder / "board.c", compiled, "-o", linked, "-lm"]
    )  # fmt: skip
    said = run(
        ["qemu-system-arm", "-M", board.machine, "-kernel", linked, "-display", "none",
         "-monitor", "none", "-serial", "none", "-icount", f"shift={SHIFT}",
         "-semihosting-config", "enable=on,target=native"]
    )  # fmt: skip
    return _read(program, vectors, said.decode(), _flash(compiled))


def _flash(compiled: Path) -> int:
    """Code and constants of an object file."""
    sizes = run(["arm-none-eabi-size", compiled]).decode().splitlines()[1].split()
    return int(sizes[0]) + int(sizes[1])


def _read(program: Program, vectors: Vectors, said: str, flash: int) -> Measured:
    lines: dict[str, list[int]] = defaultdict(list)
    for name, number in re.findall(r"^(\w+) ([0-9a-f]{8})$", said, re.MULTILINE):
        lines[name].append(int(number, 16))
    instructions = {
        name: lines[name][0] * TICK / 2**SHIFT if lines[name] else 0.0
        for name in ("step", "answer", "hear")
    }
    outputs = program.model.decoder.linear.weight.shape[1]
    return Measured(
        np.array(lines["output"], np.uint32).view(np.float32).reshape(-1, outputs),
        np.array(lines["heard"], np.uint32).view(np.float32).reshape(-1, outputs),
        instructions["step"] / sum(len(x) for x in vectors.inputs),
        instructions["answer"] / len(vectors.inputs),
        instructions["hear"] / max(1, len(vectors.sounds)),
        flash,
        lines["stack"][0],
        (lines["stack_hearing"] or [0])[0],
    )
