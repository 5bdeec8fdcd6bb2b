"""How long a batch of every task takes to come about: python benchmarks/loading.py [TASK ...]

Prints milliseconds for 64 examples gathered inside a compiled function, as in training. Tasks whose
data are not at hand are left out by name.
"""

import sys
import time

import jax
import jax.numpy as jnp

from persistor import TASKS, PersistorError

BATCH, REPEATS = 64, 50


@jax.jit
def gather(split, indices):
    return split.at(indices)


def milliseconds(split):
    drawn = jax.random.randint(jax.random.key(0), (REPEATS, BATCH), 0, split.size, jnp.int32)
    jax.block_until_ready(gather(split, drawn[0]))
    began = time.perf_counter()
    for indices in drawn:
        jax.block_until_ready(gather(split, indices))
    return (time.perf_counter() - began) / REPEATS * 1e3


if __name__ == "__main__":
    for name in sys.argv[1:] or TASKS:
        try:
            print(f"{name:20} {milliseconds(TASKS[name]().split('train')):8.2f} ms", flush=True)
        except PersistorError as error:
            print(f"{name:20} {error}")
