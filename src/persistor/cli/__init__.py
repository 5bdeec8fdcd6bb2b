"""The command line. A command is a frozen dataclass with a `run` method, listed in `COMMANDS`."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version

import tyro

from persistor._tools.errors import PersistorError
from persistor._tools.machine import keep_freed_memory
from persistor.cli.about import Bench, Demo, Doctor, List
from persistor.cli.data import Data
from persistor.cli.hardware import Hardware
from persistor.cli.reproduce import Compare, DrawFigure, Report, Reproduce
from persistor.cli.results import Results
from persistor.cli.train import Evaluate, Inspect, Sample, Train

COMMANDS = {
    "train": Train,
    "evaluate": Evaluate,
    "inspect": Inspect,
    "sample": Sample,
    "data": Data,
    "reproduce": Reproduce,
    "compare": Compare,
    "figure": DrawFigure,
    "report": Report,
    "results": Results,
    "hardware": Hardware,
    "list": List,
    "doctor": Doctor,
    "bench": Bench,
    "demo": Demo,
}


def main(arguments: list[str] | None = None) -> None:
    """Run a command. A user's mistake is reported in one line, with exit status 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--version"]:
        print(f"persistor {version('persistor')}")
        sys.exit(0)
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    command = tyro.extras.subcommand_cli_from_dict(
        COMMANDS,
        prog="persistor",
        description="Recurrent networks with persistent memory. --version prints the version.",
        args=arguments,
    )
    keep_freed_memory()
    try:
        status = command.run()
    except PersistorError as error:
        print(f"persistor: {error}", file=sys.stderr)
        status = error.status
    except KeyboardInterrupt:
        status = 130
    except BrokenPipeError:
        status = 1
    sys.exit(status)
