"""The command line. A command is a frozen dataclass with a `run` method, listed in `commands`.

Nothing is imported here that takes time, so that `main` hears a Ctrl-C from the start.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from persistor._tools.errors import PersistorError
from persistor._tools.files import FULL

LITTER = 100_000  # objects after which Python looks for garbage: its 700 take a tenth of a start


def commands() -> dict[str, Any]:
    """The commands by name."""
    from persistor.cli.about import Bench, Completion, Demo, Doctor, List
    from persistor.cli.data import Data
    from persistor.cli.evaluate import Evaluate
    from persistor.cli.export import Export
    from persistor.cli.hardware import Hardware
    from persistor.cli.models import Models
    from persistor.cli.predict import Predict
    from persistor.cli.reproduce import Compare, DrawFigure, Report, Reproduce
    from persistor.cli.results import Results
    from persistor.cli.train import Inspect, Sample, Train

    return {
        "train": Train,
        "predict": Predict,
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
        "export": Export,
        "list": List,
        "models": Models,
        "doctor": Doctor,
        "bench": Bench,
        "demo": Demo,
        "completion": Completion,
    }


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit. What goes wrong outside persistor is one line, not a traceback.

    The exit status is 2 after a user's mistake, 1 if the output or a file has no room, 130 after
    Ctrl-C and 143 after SIGTERM.
    """
    handlers = {number: signal.signal(number, _stop) for number in (signal.SIGINT, signal.SIGTERM)}
    hook, sys.unraisablehook = sys.unraisablehook, _stop_anyway
    try:
        status = _run(sys.argv[1:] if arguments is None else arguments)
    finally:
        sys.unraisablehook = hook
        for number, handler in handlers.items():
            signal.signal(number, handler)
    sys.exit(status)


def parse(arguments: list[str]) -> Any:
    """The command that the arguments stand for. Help, a mistake or a completion script exits."""
    if os.environ.get("NO_COLOR") or not (sys.stdout.isatty() and sys.stderr.isatty()):
        os.environ["PYTHON_TYRO_ANSI_CODES"] = "False"  # tyro reads it when it is imported
    import tyro

    try:
        return tyro.extras.subcommand_cli_from_dict(
            commands(),
            prog="persistor",
            description="Recurrent networks with persistent memory. --version prints the version.",
            args=arguments,
        )
    except SystemExit as mistake:
        runs = [path for path in arguments if Path(path, "experiment.json").exists()]
        if mistake.code == 2 and len(runs) > 1:  # a pattern such as runs/parity-*
            _fail(f"{len(runs)} runs were given, and this command takes one; name it", 2)
        raise


def _stop(number: int, frame: FrameType | None) -> None:
    """Hear a signal. In the middle of an import an exception might be taken for another."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            _leave(number)
        frame = frame.f_back
    raise KeyboardInterrupt(number)


def _stop_anyway(unraisable: Any) -> None:
    """Stop even if the signal came where Python lets no exception out, as in a destructor."""
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        _leave(*unraisable.exc_value.args)
    sys.__unraisablehook__(unraisable)


def _leave(number: int = signal.SIGINT) -> NoReturn:
    """Exit at once: XLA may be computing in other threads, and crashes if Python takes its time."""
    _fail("stopped", 1)
    if os.isatty(2):
        os.write(2, b"\x1b[?25h")  # show the cursor, which a progress bar hides
    os._exit(128 + number)


def _run(arguments: list[str]) -> int:
    """Run a command, and return its exit status."""
    try:
        try:
            return _obey(arguments)
        finally:
            sys.stdout.flush()  # here, where an error can be caught
    except PersistorError as error:
        return _fail(str(error), error.status)
    except KeyboardInterrupt as stop:
        _leave(*stop.args)
    except BrokenPipeError:
        _close_output()
        return 1
    except OSError as error:
        if error.errno not in FULL:
            raise
        _close_output()
        return _fail(f"cannot write to standard output: {error.strerror}", 1)
    except Exception:
        from persistor.kernels.doctor import missing_backend

        problem = missing_backend()
        if problem is None:
            raise
        return _fail(problem, 2)


def _obey(arguments: list[str]) -> int:
    if arguments == ["--version"]:
        from importlib.metadata import version

        print(f"persistor {version('persistor')}")
        return 0
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    gc.set_threshold(LITTER)
    command = parse(arguments)
    from persistor._tools.machine import keep_freed_memory
    from persistor._tools.programs import keep_programs

    keep_freed_memory()
    keep_programs()
    return command.run()


def _fail(reason: str, status: int) -> int:
    with contextlib.suppress(OSError, RuntimeError):  # closed too, or interrupted while printing
        print(f"persistor: {reason}", file=sys.stderr)
    return status


def _close_output() -> None:
    """Send what is still to be printed nowhere: Python would try, and fail, again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
