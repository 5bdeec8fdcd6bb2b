"""What must be measured in a fresh process: the start-up time, and the peak memory."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import time
from typing import Any

from persistor._tools.errors import PersistorError


def in_a_fresh_process(function: str, *arguments: int) -> dict[str, Any]:
    """Call a function of this module in a new Python process, and return its result."""
    call = f"{function}({', '.join(map(str, arguments))})"
    code = f"import json; from persistor.bench.fresh import *; print(json.dumps({call}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if done.returncode:
        raise PersistorError(f"{call} failed in a fresh process: {done.stderr[-500:]}")
    return json.loads(done.stdout)


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
