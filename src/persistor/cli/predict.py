"""`persistor predict`: what a trained model says about new inputs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from persistor._tools.errors import PersistorError
from persistor.cli.shared import Json, Runs

EVERY = 0.25  # seconds of sound between two answers of a stream


@dataclass(frozen=True)
class Predict:
    """Say what a trained model makes of new inputs: sounds, pictures, arrays, tables or texts.

    A model reads the kind of input that it was trained on; its run holds all that this takes, and
    no training data are needed. A folder stands for all files in it that the model can read. With
    `-`, a model of sounds listens to raw PCM on standard input (16 kHz, 16 bits, one channel) and
    prints a running answer about the last seconds.

      persistor predict runs/NAME some.wav folder-of-sounds
      arecord -f S16_LE -r 16000 | persistor predict runs/NAME -
    """

    model: Annotated[
        Positional[Path],
        arg(metavar="MODEL", help="A run folder, the name of a run, or a saved model."),
    ]
    inputs: Annotated[
        Positional[tuple[str, ...]], arg(metavar="INPUT", help="Files and folders, or `-`.")
    ]
    top: Annotated[int, arg(help="How many classes to name, likeliest first.")] = 3
    runs: Runs = None
    json: Json = False

    def run(self) -> int:
        """Predict, and print one line for each input."""
        if self.top < 1:
            raise PersistorError(f"top is {self.top}; it must be at least 1")
        if not self.inputs:
            raise PersistorError("name a file or a folder to predict from, or - to listen")
        paths = [] if "-" in self.inputs else list(files(self.inputs))
        from persistor.training import load

        model = load(self.model, runs=self.runs)
        if model.preparation is None:
            raise PersistorError(
                f"{self.model} does not hold what prediction needs, for it was trained by an "
                f"earlier version; `persistor evaluate {self.model}` adds it, from its data"
            )
        if "-" in self.inputs:
            return self._listen(model)
        return self._answer(model, paths)

    def _answer(self, model: Any, paths: list[Path]) -> int:
        """Print what the model says about files."""
        from persistor._tools.progress import Counter
        from persistor.data.preparation import FILES
        from persistor.model.prediction import predictions

        endings = FILES[model.preparation.kind]
        named = [path for path in paths if path in chosen(self.inputs) or _ends(path, endings)]
        if not named:
            raise PersistorError(
                f"there are no files ({', '.join(endings)}) in {', '.join(self.inputs)}"
            )
        with Counter("predicting") as count:

            def examples():
                for number, path in enumerate(named, 1):
                    yield from model.preparation.read(path)
                    count(number, len(named))

            for prediction in predictions(model, examples()):
                print(self._line(prediction), flush=True)
        return 0

    def _listen(self, model: Any) -> int:
        """Print what the model says about the last seconds of a stream, as it comes."""
        from persistor.data.preparation import SECOND, Example, pcm
        from persistor.model.prediction import predictions

        preparation = model.preparation
        if preparation.kind != "sounds" or len(self.inputs) > 1:
            raise PersistorError("- is for a model of sounds, and stands alone")
        window, heard, seconds = round(preparation.clip * SECOND), b"", 0.0
        while content := sys.stdin.buffer.read(round(EVERY * SECOND)):
            heard = (heard + content)[-window:]
            seconds += len(content) / SECOND
            example = Example(f"{seconds:.2f} s", preparation.heard(pcm(heard)))
            print(self._line(next(predictions(model, [example]))), flush=True)
        return 0

    def _line(self, prediction: Any) -> str:
        """A prediction as a line of text, or of JSON."""
        if self.json:
            return json.dumps(prediction.to_json(self.top))
        if prediction.answer in ("numbers", "steps"):
            return f"{prediction.name}  {' '.join(map(_word, prediction.best))}"
        top = ", ".join(
            f"{name!r} {p:.3f}" if not name.strip() else f"{name} {p:.3f}"
            for name, p in prediction.top(self.top)
        )
        return f"{prediction.name}  {top}"


def chosen(inputs: tuple[str, ...]) -> set[Path]:
    """The inputs that are files, which are read whatever their names are."""
    return {Path(name) for name in inputs if not Path(name).is_dir()}


def files(inputs: tuple[str, ...]) -> Iterator[Path]:
    """The files, and those in the folders, in order; hidden ones are left out."""
    for name in inputs:
        path = Path(name)
        if not path.exists():
            raise PersistorError(f"{path} does not exist")
        if not path.is_dir():
            yield path
            continue
        for below in sorted(path.rglob("*")):
            hidden = any(part.startswith(".") for part in below.relative_to(path).parts)
            if below.is_file() and below.stat().st_size and not hidden:
                yield below


def _ends(path: Path, endings: tuple[str, ...]) -> bool:
    return path.suffix.lower() in endings


def _word(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
