"""`persistor predict`: what a trained model says about new inputs."""

from __future__ import annotations

import contextlib
import json
import sys
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
    no training data are needed. A folder stands for all files in it that the model can read, and a
    list (.txt) for the files that it names, as paths from where it is. With
    `-`, a model of sounds listens to raw PCM on standard input (16 kHz, 16 bits, one channel) and
    prints a running answer about the last seconds.

      persistor predict runs/NAME some.wav folder-of-sounds
      arecord -f S16_LE -r 16000 | persistor predict runs/NAME -
    """

    model: Annotated[
        Positional[Path],
        arg(
            metavar="MODEL",
            help="A run folder, the name of a run or of a shipped model, or a saved model.",
        ),
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
        from persistor.model.trained import load_described

        model = load_described(self.model, runs=self.runs)
        if model is None:  # an older run: what knows about runs takes longer to import
            from persistor.training import load

            model = load(self.model, runs=self.runs)
        return self._listen(model) if "-" in self.inputs else self._answer(model)

    def _answer(self, model: Any) -> int:
        """Print what the model says about files."""
        from persistor.data.preparation import FILES
        from persistor.model.prediction import predictions, preparation_of

        preparation = preparation_of(model)
        named = files(self.inputs, FILES[preparation.kind])
        with _counter(len(named)) as count:

            def examples():
                for number, path in enumerate(named, 1):
                    yield from preparation.read(path)
                    count(number, len(named))

            for prediction in predictions(model, examples()):
                print(self._line(prediction), flush=True)
        return 0

    def _listen(self, model: Any) -> int:
        """Print what the model says about the last seconds of a stream, as it comes."""
        from persistor.data.preparation import SECOND, Example, pcm
        from persistor.model.prediction import predictions, preparation_of

        preparation = preparation_of(model)
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


def _counter(inputs: int) -> Any:
    """Shows the progress of many inputs; one needs none, and no time to import it."""
    if inputs == 1:
        return contextlib.nullcontext(lambda done, total: None)
    from persistor._tools.progress import Counter

    return Counter("predicting")


def files(inputs: tuple[str, ...], endings: tuple[str, ...]) -> list[Path]:
    """The files, whatever their names are, and those in the folders with one of the endings.

    A folder of .npy files, among them x.npy, is one input. A text file, unless the model reads
    texts, is a list of files beside it or below.
    """
    from persistor.data.contents import survey

    found: list[Path] = []
    for path in map(Path, inputs):
        if not path.exists():
            raise PersistorError(f"{path} does not exist")
        if path.is_dir() and not (".npz" in endings and (path / "x.npy").exists()):
            found += [path / name for name in survey(path, endings).names]
        elif path.suffix == ".txt" and ".txt" not in endings:
            found += _listed(path)
        else:
            found.append(path)
    if not found:
        raise PersistorError(f"there are no files ({', '.join(endings)}) in {', '.join(inputs)}")
    return found


def _listed(path: Path) -> list[Path]:
    """The files that a list names, which must all be there."""
    from persistor._tools.files import reading
    from persistor.data.contents import some

    with reading(path) as file:
        lines = file.read().decode(errors="replace").splitlines()
    found = [path.parent / line.strip() for line in lines if line.strip()]
    absent = [str(name) for name in found if not name.is_file()]
    if absent:
        raise PersistorError(f"{path} lists {some(absent)}, which cannot be found")
    return found


def _word(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
