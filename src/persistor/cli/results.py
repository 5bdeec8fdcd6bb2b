"""`persistor results add | list | show | check`: finished runs, kept in a few files."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import OmitArgPrefixes, OmitSubcommandPrefixes, Positional, arg, subcommand

from persistor._tools.errors import PersistorError
from persistor.cli.shared import Json, Runs, open_run

if TYPE_CHECKING:
    from persistor.reproduction.archive import Archive
    from persistor.reproduction.record import Record

ArchiveFolder = Annotated[Path, arg(name="runs", help="Folder of the archive.")]
DEFAULT = Path("results")


@dataclass(frozen=True)
class ResultsAdd:
    """Add finished runs to an archive: one line each in runs.jsonl, and their curves in curves/.

    A run must be finished and pass the checks that `compare` makes. An archive keeps one result
    for each experiment; adding it again changes nothing. If one run is refused, none is added. If
    you saved the output of `evaluate --json` or `inspect --json` in the run folder, as
    evaluate.json or inspect.json, it is added too. For example:

      persistor results add runs/parity-*
      persistor results add parity-cmru-eps-1-d1-r1-seed0-4bb63854dd034dea --to results
    """

    names: Annotated[
        Positional[tuple[Path, ...]],
        arg(
            metavar="RUN",
            help="Run folders, or their names in the runs folder.",
            help_behavior_hint="(required)",
        ),
    ]
    to: Annotated[Path, arg(help="Folder of the archive.")] = DEFAULT
    runs: Runs = None
    json: Json = False

    def run(self) -> int:
        """Check all runs, then add all of them."""
        from persistor.reproduction.archive import Archive

        if not self.names:
            raise PersistorError("name a run; `persistor list` shows your runs")
        fates = Archive(self.to).add([self._finished(name) for name in self.names])
        if self.json:
            print(json.dumps({"archive": str(self.to), "runs": fates}))
            return 0
        for name, fate in fates.items():
            print(f"{fate}: {name}")
        return 0

    def _finished(self, name: Path) -> Record:
        """The record of a finished run."""
        from persistor.reproduction.record import read_folder

        path = open_run(name, self.runs).path.resolve()
        try:
            record = read_folder(path)
        except PersistorError as error:
            raise PersistorError(f"{path.name} is not added: {error}") from None
        if record is None:
            raise PersistorError(
                f"{path.name} is not finished; continue it with `persistor train` and its options"
            )
        return record


@dataclass(frozen=True)
class ResultsList:
    """List the runs of an archive with their test metrics, and the other outputs it keeps.

    Example: persistor results list --runs results
    """

    runs: ArchiveFolder = DEFAULT
    json: Json = False

    def run(self) -> int:
        """Print one line for each run."""
        archive = existing(self.runs)
        records, problems = archive.read()
        runs = {record.name: record.result.get("test") for record in records}
        printed = list(archive.printed())
        if self.json:
            print(json.dumps({"runs": runs, "printed": printed, "problems": problems}))
            return 0
        for record in records:
            print(f"{record.name}  {_test(record)}")
        for name in printed:
            print(name)
        for problem in problems:
            print(problem, file=sys.stderr)
        return 0


@dataclass(frozen=True)
class ResultsShow:
    """Print a run of an archive as JSON, its learning curve, or another output that is kept.

    A part of the name is enough if only one run matches it. For example:

      persistor results show 3249dcfa696e681e
      persistor results show 3249dcfa696e681e --curve > progress.jsonl
      persistor results show hardware/yield-ladder
    """

    name: Annotated[
        Positional[str],
        arg(metavar="NAME", help="A run, a part of its name, or the name of an output."),
    ]
    curve: Annotated[
        bool, arg(help="Print the run's learning curve instead, one JSON object per line.")
    ] = False
    runs: ArchiveFolder = DEFAULT

    def run(self) -> int:
        """Print the run, its curve or the output."""
        archive = existing(self.runs)
        printed = archive.printed()
        if self.name in printed and not self.curve:
            print(json.dumps(printed[self.name], indent=2))
            return 0
        record = record_named(archive, self.name)
        if self.curve:
            print(record.curve, end="")
        else:
            print(json.dumps({**record.result, **record.extras}, indent=2))
        return 0


@dataclass(frozen=True)
class ResultsCheck:
    """Check that names, results, curves and digests of an archive agree and nothing is left over.

    The command prints one line for each problem. If there is one, the exit status is 1.
    """

    runs: ArchiveFolder = DEFAULT
    json: Json = False

    def run(self) -> int:
        """Check everything."""
        archive = existing(self.runs)
        problems = archive.check()
        count = len(archive.read()[0])
        if self.json:
            print(json.dumps({"runs": count, "problems": problems}))
        else:
            for problem in problems:
                print(problem)
            print(f"{count} runs" if problems else f"{count} runs, all as they were written")
        return 1 if problems else 0


@dataclass(frozen=True)
class Results:
    """Keep finished runs in a few files that you can commit: add, list, show and check them."""

    command: Annotated[
        Annotated[ResultsAdd, subcommand("add")]
        | Annotated[ResultsList, subcommand("list")]
        | Annotated[ResultsShow, subcommand("show")]
        | Annotated[ResultsCheck, subcommand("check")],
        OmitSubcommandPrefixes,
        OmitArgPrefixes,
    ]

    def run(self) -> int:
        """Run the chosen command."""
        return self.command.run()


def existing(folder: Path) -> Archive:
    """The archive in a folder; an error if there is none."""
    from persistor.reproduction.archive import PRINTED, RUNS, Archive

    if not any((folder / name).is_file() for name in (RUNS, PRINTED)):
        raise PersistorError(
            f"there is no archive in {folder} (no {RUNS}); `persistor results add` makes one"
        )
    return Archive(folder)


def record_named(archive: Archive, name: str) -> Record:
    """The run with this name, or the only run whose name contains it."""
    records, _ = archive.read()
    matching = [record for record in records if name in record.name]
    exact = [record for record in matching if record.name == name]
    if not matching:
        raise PersistorError(
            f"no run {name!r} in {archive.folder}; "
            f"`persistor results list --runs {archive.folder}` shows them"
        )
    if len(matching) > 1 and not exact:
        raise PersistorError(
            f"{len(matching)} runs in {archive.folder} have {name!r} in their names, such as "
            f"{matching[0].name}; give more of the name"
        )
    return (exact or matching)[0]


def _test(record: Record) -> str:
    """A run's test metric, or why it does not count."""

    try:
        return f"{record.metric} {record.tested():.4f}"
    except PersistorError as error:
        return f"does not count: {error}"
