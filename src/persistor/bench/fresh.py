"""What must be measured in a fresh process: the start-up time, and the peak memory."""

from __future__ import annotations

import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from persistor._tools.errors import PersistorError
from persistor._tools.programs import VARIABLE


def in_a_fresh_process(function: str, *arguments: int) -> dict[str, Any]:
    """Call a function of this module in a new Python process, and return its result."""
    call = f"{function}({', '.join(map(str, arguments))})"
    code = f"import json; from persistor.bench.fresh import *; print(json.dumps({call}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if done.returncode:
        raise PersistorError(f"{call} failed in a fresh process: {done.stderr[-500:]}")
    return json.loads(done.stdout)


SHORT_RUN = ["-m", "persistor.cli", "train", "parity", "--steps", "64"]
ONE_FUNCTION = ["-c", "import jax; jax.jit(lambda x: x + 1)(1.0)"]


def processor_seconds(turns: int) -> dict[str, float]:
    """Processor time of a short run without and with compiled programs, and of JAX alone."""
    seconds: dict[str, list[float]] = {"JAX": [], "cold": [], "warm": []}
    for _ in range(turns):
        with tempfile.TemporaryDirectory() as folder:
            seconds["JAX"].append(_spent(ONE_FUNCTION, folder))
            for name in ("cold", "warm"):
                seconds[name].append(_spent([*SHORT_RUN, "--runs", f"{folder}/{name}"], folder))
    return {name: statistics.median(values) for name, values in seconds.items()}


def _spent(arguments: list[str], folder: str) -> float:
    """Processor time of a Python process that keeps its programs in a folder."""
    others = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    environment = {**others, "JAX_PLATFORMS": "cpu", VARIABLE: f"{folder}/compiled"}
    before = os.times()
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    after = os.times()
    if done.returncode:
        raise PersistorError(f"{' '.join(command)} failed: {done.stderr[-500:]}")
    return sum(after[2:4]) - sum(before[2:4])  # of children: in Python, and in the system


def start(length: int) -> dict[str, float]:
    """Seconds until the second training step: imports, building, compiling with the first step."""
    marks = [time.perf_counter()]
    import jax

    marks.append(time.perf_counter())
    from persistor.bench.workloads import training, Pictures  # noqa: I001

    marks.append(time.perf_counter())
    trainer = training(Pictures(length), batch=64, state_size=32)
    state = jax.block_until_ready(trainer.start())
    marks.append(time.perf_counter())
    state, _ = trainer.advance(state, 1)
    marks.append(time.perf_counter())
    trainer.advance(state, 1)
    marks.append(time.perf_counter())
    names = ("import jax", "import persistor", "build", "compile and first step", "second step")
    return {n: b - a for n, a, b in zip(names, marks, marks[1:], strict=False)}


def memory(length: int) -> dict[str, float]:
    """Peak memory of a training step on copy-first of this length, in megabytes."""
    import jax

    from persistor.bench.workloads import training
    from persistor.tasks import CopyFirstDiscrete

    trainer = training(CopyFirstDiscrete(length), batch=64, state_size=4)
    state, _ = trainer.advance(trainer.start(), 1)
    ctypes.CDLL(None).malloc_trim(0)  # return the compiler's memory to the system
    before = _status("VmRSS")
    with open("/proc/self/clear_refs", "w") as reset:
        reset.write("5")  # reset the peak
    trainer.advance(state, 2)
    held = sum(array.nbytes for array in jax.live_arrays()) / 2**20
    return {"peak": held + _status("VmHWM") - before}


def _status(field: str) -> float:
    """A size of this process, in megabytes."""
    with open("/proc/self/status") as lines:
        line = next(line for line in lines if line.startswith(field))
    return int(line.split()[1]) / 1024
