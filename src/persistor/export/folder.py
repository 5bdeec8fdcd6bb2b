"""The folder of a model in C: its files, and what it says about itself."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

from persistor._tools.errors import PersistorError
from persistor._tools.files import read_json
from persistor._tools.folders import MANIFEST, write_folder
from persistor.export.program import Program, names_of
from persistor.export.report import report, table
from persistor.export.vectors import Vectors, vectors_text


def files(program: Program, vectors: Vectors) -> dict[str, str]:
    """The files of an exported model, by path."""
    name, numbers = program.name, report(program)
    texts = {
        f"src/{name}.h": program.header,
        f"src/{name}.c": program.source,
        "extras/check.c": program.fill("check.c"),
        "extras/vectors.h": vectors_text(vectors),
        "Makefile": program.fill("Makefile").replace("PROGRAMS", _programs(program)),
        "library.properties": program.fill("library.properties").replace(
            "VERSION", version("persistor")
        ),
        "zephyr/module.yml": program.fill("module.yml"),
        "zephyr/CMakeLists.txt": program.fill("CMakeLists.txt"),
        "zephyr/Kconfig": program.fill("Kconfig"),
        "README.md": program.fill("README.md").replace("TABLE", table(numbers)),
    }
    if "words" in _programs(program):
        texts["extras/words.c"] = program.fill("words.c")
    return texts


def _programs(program: Program) -> str:
    """What the Makefile builds besides the library."""
    model = program.model
    named = names_of(model.preparation, model.decoder.linear.weight.shape[1])
    return "check words" if program.features and named else "check"


def write(folder: Path, program: Program, vectors: Vectors) -> dict[str, Any]:
    """Write the folder of an exported model, whole or not at all; what the model takes."""
    numbers = report(program)
    texts = files(program, vectors)
    write_folder(
        folder,
        {path: text.encode() for path, text in texts.items()},
        **{
            "made by": f"persistor {version('persistor')}",
            "name": program.name,
            "weights": program.weights,
            "features": program.features,
            "report": numbers,
        },
    )
    return numbers


def read_manifest(folder: Path) -> dict[str, Any]:
    """What a folder says about itself."""
    if not (folder / MANIFEST).is_file():
        raise PersistorError(f"{folder} is no folder of `persistor export`: it has no {MANIFEST}")
    manifest = read_json(folder / MANIFEST)
    wanted = {"name": str, "weights": str, "features": bool, "files": dict}
    if not isinstance(manifest, dict) or not all(
        isinstance(manifest.get(key), kind) for key, kind in wanted.items()
    ):
        raise PersistorError(f"{folder / MANIFEST} is damaged; export the model again")
    return manifest
