"""All that this machine can prove about an exported folder, one finding after the other."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor._tools.folders import checksum
from persistor.data import mfcc
from persistor.export import boards
from persistor.export.agreement import Agreement, Examples, agreement
from persistor.export.compilers import STRICT, Failed, host_compilers, missing, run
from persistor.export.folder import read_manifest
from persistor.export.host import Host
from persistor.export.program import Program, program
from persistor.export.report import report
from persistor.export.truth import computed_by, truth
from persistor.export.vectors import ROUNDING, Vectors, heard, tolerance, vectors_text
from persistor.model import Backbone

SANITIZERS = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
SAME = 0.99  # share of the answers that must be the model's; in eight bits it is stated
WORDS = 0.995  # share of the sounds whose word must be the model's; stated of invented sounds
ON_BOARD = 3  # sequences that a board computes
BOARD_WORK = 3_000_000  # multiplications that a board makes for them, about
HEARING = 500_000_000  # instructions that a board spends on sounds, about


@dataclass(frozen=True)
class Finding:
    """What one check found. It holds, or does not, or (None) could not be made here."""

    name: str
    text: str
    holds: bool | None = True
    numbers: dict[str, Any] = field(default_factory=dict)


def opened(folder: Path, model: Backbone) -> Program:
    """The program in a folder, which must be this model's and unchanged."""
    manifest = read_manifest(folder)
    for path, expected in manifest["files"].items():
        if not (folder / path).is_file():
            raise PersistorError(f"{folder / path} is missing; export the model again")
        if checksum((folder / path).read_bytes()) != expected:
            raise PersistorError(f"{folder / path} was changed after the export; export it again")
    made = program(
        model, manifest["name"], weights=manifest["weights"], features=manifest["features"]
    )
    for name, text in ((f"{made.name}.h", made.header), (f"{made.name}.c", made.source)):
        if (folder / "src" / name).read_text() != text:
            raise PersistorError(
                f"{folder} was exported from another model, or by another version of persistor"
            )
    return made


def verify(folder: Path, model: Backbone, examples: Examples) -> Iterator[Finding]:
    """Check a folder against its model, and say what was found as it is found."""
    made = opened(folder, model)
    yield Finding("files", f"{len(read_manifest(folder)['files'])} files as they were exported")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        hosts = []
        for compiler in ("gcc", "clang"):
            yield _compiled(folder, made, compiler, place)
        hosts = [Host(made, folder / "src", place, compiler) for compiler in host_compilers()]
        yield _agrees(hosts[0], examples)
        if examples.sounds:
            yield _hears(hosts[0], examples)
        yield _sanitized(folder, made, examples, place)
        for board in boards.BOARDS:
            yield _on_board(hosts[0], folder / "src", examples, board, place)
        yield _fast(hosts, examples)


def _compiled(folder: Path, made: Program, compiler: str, place: Path) -> Finding:
    """Every source without a warning."""
    absent = missing(compiler)
    if absent:
        return Finding(compiler, f"not run: {absent}", None)
    sources = [folder / "src" / f"{made.name}.c", *sorted((folder / "extras").glob("*.c"))]
    try:
        for source in sources:
            command = [compiler, *STRICT, "-O2", f"-I{folder / 'src'}", "-c", source]
            run([*command, "-o", place / "strict.o"])
    except Failed as error:
        return Finding(compiler, str(error), False)
    return Finding(compiler, f"no warning under {' '.join(STRICT)}")


def _agrees(host: Host, examples: Examples) -> Finding:
    found = agreement(host, examples)
    enough = found.same >= SAME or host.program.weights == "int8"
    numbers = {**found.__dict__, "examples": examples.source}
    return Finding(
        "model", _sentence(host.program, examples, found), found.holds and enough, numbers
    )


def _sentence(made: Program, examples: Examples, found: Agreement) -> str:
    """What an agreement says, in words."""
    which = "the model" if made.weights == "float" else "the model in eight bits"
    text = (
        f"{found.sequences} sequences ({examples.source}): states equal to those of {which} at "
        f"{found.steps - found.wrong_states:,} of {found.steps:,} steps, outputs within "
        f"{found.difference:.2g} ({found.tolerance:.2g} allowed); {found.ties} sequences reach a "
        f"decision that rounding may change, and count up to there; same answers as the trained "
        f"model: {found.same:.2%}"
    )
    if found.score is not None and found.model_score is not None:
        text += f"; {examples.metric} {found.score:.4f}, of the model {found.model_score:.4f}"
    return text


def _hears(host: Host, examples: Examples) -> Finding:
    """The features in C and in Python lead to the same words."""
    model, preparation = host.program.model, host.program.model.preparation
    assert preparation is not None
    x = np.stack([heard(preparation, samples) for samples in examples.sounds])
    wanted = np.concatenate([truth(model, x[i : i + 64]).last for i in range(0, len(x), 64)])
    outputs = np.stack([host.heard(samples) for samples in examples.sounds])
    words = float((outputs.argmax(-1) == wanted.argmax(-1)).mean())
    apart = float(np.median(np.abs(outputs - wanted).max(-1)))
    numbers: dict[str, Any] = {"words": words, "sounds": len(x)}
    text = (
        f"{len(x)} sounds as PCM: the trained model's word for {words:.2%} "
        f"({WORDS:.1%} wanted), outputs within {apart:.2g} for half of them"
    )
    if examples.recorded and examples.score is not None:
        numbers |= {"score": examples.score(outputs), "model score": examples.score(wanted)}
        text += (
            f"; {examples.metric} {numbers['score']:.4f}, of the model {numbers['model score']:.4f}"
        )
    stated = host.program.weights == "int8" and not examples.recorded
    return Finding("sounds", text, words >= WORDS or stated, numbers)


def _sanitized(folder: Path, made: Program, examples: Examples, place: Path) -> Finding:
    """The test program, and the one that prints words, under the sanitizers."""
    compiler, sources = host_compilers()[0], folder / "src"
    (place / "vectors.h").write_text(vectors_text(_vectors(made, examples)))
    try:
        for path in sorted((folder / "extras").glob("*.c")):
            built = place / path.stem
            copied = place / path.name
            copied.write_text(path.read_text())
            command = [compiler, "-std=c99", *SANITIZERS, f"-I{sources}", f"-I{place}", copied]
            run([*command, sources / f"{made.name}.c", "-o", built, "-lm"])
            pcm = b"".join(s.tobytes() for s in examples.sounds[:ON_BOARD])
            run([built], given=pcm or bytes(32_000))
    except Failed as error:
        return Finding("sanitizers", str(error), False)
    return Finding("sanitizers", "addresses and undefined behaviour: nothing found")


def _vectors(made: Program, examples: Examples) -> Vectors:
    """A few of the examples, cut before the first tie, and what the model answers about them."""
    inputs, outputs, allowed = [], [], 0.0
    reference = computed_by(made.model, made.weights)
    for x in examples.inputs[:ON_BOARD]:
        found = truth(reference, x[None])
        n = max(1, int(found.sure(made.weights).sum()))
        inputs.append(x[:n])
        outputs.append(found.outputs[0, n - 1])
        allowed = max(allowed, tolerance(found, made.weights))
    return Vectors(inputs, np.stack(outputs), allowed, list(examples.sounds))


def _on_board(
    host: Host, sources: Path, examples: Examples, board: boards.Board, place: Path
) -> Finding:
    """The same answers on a board, and what they cost there."""
    absent = missing(*boards.TOOLS)
    if absent:
        return Finding(board.title, f"not run: {absent}", None)
    made = host.program
    if made.parts.bytes > boards.ROOM:
        text = (
            f"not run: {made.parts.bytes:,} bytes of constants, and {boards.ROOM:,} fit the board"
        )
        return Finding(board.title, text, None)
    most = max(4, BOARD_WORK // (ON_BOARD * made.parts.cost["step", "multiplications"]))
    shorter = [x[:most] for x in examples.inputs[:ON_BOARD]]
    sounds = _some_sounds(made, examples, board)
    vectors = _vectors(made, replace(examples, inputs=shorter, sounds=sounds))
    try:
        found = boards.measured(made, sources, vectors, board, place / board.machine)
    except Failed as error:
        return Finding(board.title, str(error), False)
    here = np.stack([host.answers(x)[0][-1] for x in vectors.inputs])
    apart = float(np.abs(found.outputs - here).max())
    allowed = ROUNDING[made.weights] * (1 + float(np.abs(here).max()))
    text = (
        f"in QEMU ({board.machine}): answers of this machine within {apart:.2g}; "
        f"{found.step:,.0f} instructions a step, {found.answer:,.0f} an answer; "
        f"{found.flash:,} bytes of flash without the mathematical library, "
        f"{host.state_bytes():,} of state, {found.stack:,} of stack"
    )
    same = True
    if vectors.sounds:
        answers = np.stack([host.heard(samples) for samples in vectors.sounds])
        apart = max(apart, float(np.abs(found.heard - answers).max()))
        words = int((found.heard.argmax(-1) == answers.argmax(-1)).sum())
        same = words == len(answers)
        text += (
            f"; the word of this machine for {words} of {len(answers)} sounds, within {apart:.2g}; "
            f"{found.hear:,.0f} instructions for one, with {found.stack_hearing:,} of stack and "
            f"{report(made)['bytes of memory']['ear']:,} of what was heard"
        )
    numbers = {k: v for k, v in found.__dict__.items() if not isinstance(v, np.ndarray)}
    return Finding(board.title, text, same and apart <= allowed, numbers)


def _some_sounds(
    made: Program, examples: Examples, board: boards.Board
) -> tuple[NDArray[np.int16], ...]:
    """As many of the sounds as a board holds and hears in some seconds, from all over the list."""
    sounds = examples.sounds
    if not sounds:
        return ()
    about = report(made)["instructions, about"][board.title]
    each = len(sounds[0]) // mfcc.HOP * (about["frame"] + about["step"]) + about["answer"]
    fitting = (boards.ROOM - made.parts.bytes) // (2 * len(sounds[0]))
    most = max(1, min(len(sounds), HEARING // each, fitting))
    return tuple(sounds[i * len(sounds) // most] for i in range(most))


def _fast(hosts: list[Host], examples: Examples) -> Finding:
    """The time of a step on this machine."""
    names = host_compilers()
    times = {n: h.seconds_a_step(examples.inputs[0][0]) for n, h in zip(names, hosts, strict=True)}
    listed = ", ".join(
        f"{name} {1e6 * seconds:.2f} microseconds" for name, seconds in times.items()
    )
    return Finding("latency", f"a step on this machine: {listed}", True, times)
