"""`persistor export c | onnx | verify`: a trained model for other machines and runtimes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.conf import OmitArgPrefixes, OmitSubcommandPrefixes, Positional, arg

from persistor._tools.errors import PersistorError
from persistor.cli.shared import DataDir, Json, Runs, use_data_folder

Model = Annotated[
    Positional[Path],
    arg(
        metavar="MODEL",
        help="A run folder, the name of a run or of a shipped model, or a saved model.",
    ),
]
RANDOM, STEPS = 32, 100  # sequences, and their steps, where there are no others


@dataclass(frozen=True)
class WriteC:
    """Write a model as C99: one header, one source, no allocation, nothing beyond math.h.

    The folder also holds test vectors and is a library for Arduino and a module for Zephyr. Its
    name becomes the name of the model in C. For example:

      persistor export c runs/NAME --folder kws --weights int8 --features
      make -C kws check
      persistor export verify kws runs/NAME
    """

    model: Model
    folder: Annotated[Path, arg(metavar="PATH", help="Folder to write.")]
    weights: Annotated[
        Literal["float", "int8"],
        arg(help="Weights as they are, or as integers of eight bits with a scale for each row."),
    ] = "float"
    features: Annotated[
        bool, arg(help="Add the front end of a model of sounds: PCM goes in, a word comes out.")
    ] = False
    runs: Runs = None
    json: Json = False

    def run(self) -> int:
        """Write the folder, and print what the model takes."""
        from persistor.export.constants import identifier
        from persistor.export.folder import write
        from persistor.export.program import program
        from persistor.export.report import table
        from persistor.export.vectors import invented
        from persistor.training import load

        model = load(self.model, runs=self.runs)
        name = identifier(self.folder.absolute().name)
        made = program(model, name, weights=self.weights, features=self.features)
        vectors = invented(model, self.weights, features=self.features)
        numbers = write(self.folder, made, vectors)
        if self.json:
            print(json.dumps({"folder": str(self.folder), "name": name, **numbers}))
        else:
            print(f"{self.folder}: src/{name}.h, src/{name}.c\n{table(numbers)}")
        return 0


@dataclass(frozen=True)
class WriteOnnx:
    """Write a model as two ONNX graphs of standard operators: a step, and a whole sequence.

    The state goes in and comes out of both. Before they are written, onnx checks the graphs, and
    ONNX Runtime runs them beside the model from states that are not zero. For example:

      persistor export onnx runs/NAME --folder kws
    """

    model: Model
    folder: Annotated[Path, arg(metavar="PATH", help="Folder to write.")]
    runs: Runs = None
    json: Json = False

    def run(self) -> int:
        """Emit, prove and write the graphs."""
        from importlib.metadata import version

        from persistor._tools.folders import check_replaceable, write_folder
        from persistor.export.onnx import graphs, prove
        from persistor.training import load

        check_replaceable(self.folder)
        model = load(self.model, runs=self.runs)
        made = graphs(model)
        agreements = prove(model, made)
        for name, agreement in agreements.items():
            if not agreement.holds:
                raise PersistorError(
                    f"the {name} differs from the model by {agreement.outputs:.1e} (outputs) and "
                    f"{agreement.states:.1e} (states) in ONNX Runtime; nothing was written"
                )
        contents = {f"{name}.onnx": graph.SerializeToString() for name, graph in made.items()}
        apart = {name: asdict(agreement) for name, agreement in agreements.items()}
        write_folder(
            self.folder,
            contents,
            **{"made by": f"persistor {version('persistor')}", "apart": apart},
        )
        if self.json:
            print(json.dumps({"folder": str(self.folder), "apart": apart}))
            return 0
        for name, agreement in agreements.items():
            print(
                f"{self.folder / name}.onnx: apart from the model by {agreement.outputs:.1e} "
                f"(outputs), {agreement.states:.1e} (states)"
            )
        return 0


@dataclass(frozen=True)
class Verify:
    """Prove that an exported folder computes what its model computes, as far as this machine can.

    The C is compiled and compared with the model on the run's test data, on given files, or on
    random inputs; run under sanitizers; run on an emulated Cortex-M3 and M4, where instructions are
    counted; and timed. If something does not hold, the exit status is 1.
    """

    folder: Annotated[Positional[Path], arg(metavar="FOLDER", help="What `export c` wrote.")]
    model: Model
    inputs: Annotated[
        tuple[str, ...],
        arg(
            metavar="PATH",
            help="Files, folders and lists of files (.txt) for the model to read. Sounds also go "
            "into the C as PCM, and 99.5% of its words must be the model's.",
            help_behavior_hint="(default: the test data of the run, else random inputs)",
        ),
    ] = ()
    examples: Annotated[int, arg(help="Number of the run's test sequences, at most.")] = 200
    runs: Runs = None
    data_dir: DataDir = None
    json: Json = False

    def run(self) -> int:
        """Verify, and print a line for every check."""
        if self.examples < 1:
            raise PersistorError(f"examples is {self.examples}; it must be at least 1")
        use_data_folder(self.data_dir)
        from persistor.export.verification import verify
        from persistor.training import load

        model = load(self.model, runs=self.runs)
        findings = []
        for finding in verify(self.folder, model, self._examples(model)):
            findings.append(finding)
            if not self.json:
                word = {True: "holds", False: "FAILS", None: "-"}[finding.holds]
                print(f"{finding.name:10} {word:5}  {finding.text}", flush=True)
        if self.json:
            listed = {f.name: {"holds": f.holds, "text": f.text, **f.numbers} for f in findings}
            print(json.dumps(listed))
        return int(any(finding.holds is False for finding in findings))

    def _examples(self, model: Any) -> Any:
        """The sequences to compare on."""
        from persistor.export.agreement import Examples
        from persistor.export.vectors import inputs_like, invented_sound

        if self.inputs:
            return self._from_files(model)
        sounds = ()
        if model.preparation is not None and model.preparation.kind == "sounds":
            sounds = tuple(invented_sound(model.preparation, seed) for seed in range(8))
        found, why = self._from_run(model)
        if found is None:
            x = inputs_like(model, min(self.examples, RANDOM), STEPS, seed=1)
            found = Examples(f"random, for {why}", list(x))
        return Examples(found.source, found.inputs, found.score, found.metric, sounds)

    def _from_files(self, model: Any) -> Any:
        """Files that the model can read."""
        from persistor.cli.predict import files
        from persistor.data.preparation import FILES
        from persistor.data.sounds import clip_pcm
        from persistor.export.agreement import Examples
        from persistor.model.prediction import preparation_of

        preparation = preparation_of(model)
        paths = files(self.inputs, FILES[preparation.kind])
        inputs = [example.x for path in paths for example in preparation.read(path)]
        source = f"{len(paths):,} files"
        if preparation.kind != "sounds":
            return Examples(source, inputs)
        sounds = tuple(clip_pcm(path, preparation.clip) for path in paths)
        score = _by_folder(paths, preparation.classes)
        return Examples(source, inputs, score, "accuracy", sounds, recorded=True)

    def _from_run(self, model: Any) -> tuple[Any, str]:
        """The test data of the model's run; if there are none, why."""
        import jax.numpy as jnp
        import numpy as np

        from persistor.cli.shared import open_run
        from persistor.export.agreement import Examples
        from persistor.training import find_run

        if not find_run(self.model, self.runs).is_dir():
            return None, "this is a file, without data"
        task = open_run(self.model, self.runs).experiment.task
        try:
            split = task.split("test")
        except PersistorError as error:
            return None, f"the test data are not here ({error})"
        batch = split.at(jnp.arange(min(self.examples, split.size), dtype=jnp.int32))
        x = np.asarray(batch.inputs.dense(), np.float32)
        lengths = [x.shape[1]] * len(x) if batch.lengths is None else batch.lengths.tolist()

        def score(outputs: Any) -> float:
            return float(task.objective.score(jnp.asarray(outputs), batch.targets).mean())

        sequences = [row[:n] for row, n in zip(x, lengths, strict=True)]
        return Examples(f"test data of {task.name}", sequences, score, task.objective.metric), ""


def _by_folder(paths: list[Path], classes: tuple[str, ...]) -> Any:
    """The accuracy of outputs about files, if every folder has the name of a class.

    Folders of Speech Commands have them too: its noise is silence, and all other words unknown.
    """
    import numpy as np

    words = ["silence" if p.parent.name == "_background_noise_" else p.parent.name for p in paths]
    words = ["unknown" if word not in classes else word for word in words]
    if not set(words) <= set(classes):
        return None
    truth = np.array([classes.index(word) for word in words])
    return lambda outputs: float((np.asarray(outputs).argmax(-1) == truth).mean())


@dataclass(frozen=True)
class Export:
    """Take a trained model elsewhere, as C or ONNX, with a proof that it computes the same."""

    command: Annotated[
        Annotated[WriteC, tyro.conf.subcommand("c")]
        | Annotated[WriteOnnx, tyro.conf.subcommand("onnx")]
        | Annotated[Verify, tyro.conf.subcommand("verify")],
        OmitSubcommandPrefixes,
        OmitArgPrefixes,
    ]

    def run(self) -> int:
        """Run the chosen command."""
        return self.command.run()
