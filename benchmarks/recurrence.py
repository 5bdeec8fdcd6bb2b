"""The recurrence alone, forward and backward: native against plain JAX, by turns.

    python benchmarks/recurrence.py [--rounds 15] [--json]

Each row is one shape and cell. Engines run by turns in one process and the ratios are of medians,
so that a noisy machine slows all of them alike.
"""

import argparse
import json
import statistics
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from persistor.cells import CELLS
from persistor.kernels import fused_unroll
from persistor.sequence import Dense, Indexed, Positions
from persistor.unroll import unroll

ENGINES = ("native", "sequential", "parallel")


def dense(rng, p, b=64, t=784):
    return Dense(jnp.asarray(rng.normal(size=(b, t, p)), jnp.float32))


def indexed(rng, p, b=64, t=784, k=256, w=32):
    rows, mix, shift = (
        jnp.asarray(rng.normal(size=s), jnp.float32) for s in ((k, p), (w, p), (p,))
    )
    table = jnp.asarray(rng.normal(size=(t, w)) / w**0.5, jnp.float32)
    gain = jnp.asarray(0.5 + rng.random((k, t)), jnp.float32)
    ids = jnp.asarray(rng.integers(0, k, (b, t)), jnp.int32)
    return Indexed(rows, ids, Positions(table, mix, gain, shift))


CASES = {  # name: projections, state width, whether all states are read, cells
    "dense 64x784x64": (dense, 64, True, tuple(CELLS)),
    "indexed 64x784x32, k 256": (indexed, 32, False, ("cmru", "alpha-cmru", "mingru", "lru")),
    "indexed 64x1000x4, k 16": (
        lambda rng, p: indexed(rng, p, t=1000, k=16),
        4,
        False,
        ("cmru", "alpha-cmru"),
    ),
    "indexed 64x1000x1, k 2": (
        lambda rng, p: indexed(rng, p, t=1000, k=2),
        1,
        False,
        ("cmru",),
    ),
}


def step(engine, cell, sequence, every):
    """Forward and backward as one compiled function: states, and gradients of what made them."""
    inexact, rest = eqx.partition((cell, sequence), eqx.is_inexact_array)

    def read(inexact):
        cell, sequence = eqx.combine(inexact, rest)
        first = cell.first(sequence.batch)
        if engine == "native":
            parameters = cell.kernel_parameters()
            states, last = fused_unroll(cell.kernel, parameters, sequence, first, every=every)
        else:
            states, last = unroll(cell.gate(sequence.dense()), first, engine=engine)
        return states if every else last

    @jax.jit
    def run(inexact, cotangent):
        result, pull = jax.vjp(read, inexact)
        return result, pull(cotangent)

    cotangent = jnp.ones_like(jax.eval_shape(read, inexact))
    return lambda: jax.block_until_ready(run(inexact, cotangent))


def measure(steps, rounds):
    """Median seconds of each engine, run by turns."""
    for run in steps.values():
        run()
    seconds = {name: [] for name in steps}
    for _ in range(rounds):
        for name, run in steps.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--case", default="", help="only cases whose name contains this")
    arguments.add_argument("--native-only", action="store_true")
    arguments.add_argument("--json", action="store_true")
    given = arguments.parse_args()
    rows = []
    for case, (make, d, every, names) in CASES.items():
        if given.case not in case:
            continue
        for name in names:
            cell = CELLS[name](8, d, key=jax.random.key(0))
            sequence = make(np.random.default_rng(0), cell.project.weight.shape[1])
            engines = ENGINES[:1] if given.native_only else ENGINES
            steps = {engine: step(engine, cell, sequence, every) for engine in engines}
            seconds = measure(steps, given.rounds)
            others = [s for engine, s in seconds.items() if engine != "native"]
            ratio = min(others, default=float("nan")) / seconds["native"]
            rows.append({"case": case, "cell": name, "seconds": seconds, "ratio": ratio})
            if not given.json:
                times = "  ".join(f"{e} {1e3 * s:7.2f} ms" for e, s in seconds.items())
                print(f"{case:26} {name:10}  {times}  ratio {ratio:5.1f}", flush=True)
    if given.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
