"""Exported C against the model: the same answers, bit after bit."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import persistor

PROGRAM = """
#include <stdio.h>
#include "parity.h"

int main(void)
{
    float bit, output[PARITY_OUTPUTS];
    parity_state state;

    parity_init(&state);
    while (scanf("%f", &bit) == 1) {
        parity_step(&bit, &state);
        parity_answer(&state, output);
        printf("%.9g %.9g\\n", output[0], output[1]);
    }
    return 0;
}
"""


def answers_of_c(bits):
    """Export the model that ships as `parity`, compile it, and feed it the bits."""
    with TemporaryDirectory() as name:
        folder = Path(name) / "parity"
        command = [sys.executable, "-m", "persistor.cli"]
        subprocess.run([*command, "export", "c", "parity", "--folder", folder], check=True)
        (folder / "main.c").write_text(PROGRAM)
        sources = [folder / "main.c", folder / "src" / "parity.c"]
        flags = ["-std=c99", "-O2", "-Wall", "-Werror", "-I", folder / "src"]
        subprocess.run(["cc", *flags, *sources, "-o", folder / "main", "-lm"], check=True)
        text = "\n".join(map(str, bits))
        done = subprocess.run(
            [folder / "main"], input=text, capture_output=True, text=True, check=True
        )
    return np.array([line.split() for line in done.stdout.splitlines()], np.float32)


def main(folder, steps=5_000):
    bits = np.random.default_rng(0).integers(0, 2, steps)
    in_c = answers_of_c(bits)

    model = persistor.load("parity")

    def step(memory, bit):
        answer, memory = model.step(bit[None], memory)
        return memory, answer

    _, in_jax = jax.lax.scan(step, model.initial_state(()), jnp.asarray(bits, jnp.float32))
    apart = np.abs(in_c - np.asarray(in_jax)).max(-1)
    odd = np.cumsum(bits) % 2
    print(f"{steps:,} steps: outputs at most {apart.max():.1e} apart, of {np.abs(in_c).max():.0f}")
    same = (in_c.argmax(-1) == np.asarray(in_jax).argmax(-1)).mean()
    print(f"the same answer at {same:.2%} of them, the right one at")
    print(f"{(in_c.argmax(-1) == odd).mean():.2%}")

    figure = Figure(figsize=(7, 3.6), layout="constrained")
    top, bottom = figure.subplots(2, 1)
    top.plot(in_c[:60, 1] - in_c[:60, 0], "o", markersize=4, label="C")
    top.plot(np.asarray(in_jax)[:60, 1] - np.asarray(in_jax)[:60, 0], linewidth=1, label="JAX")
    top.set(ylabel="odd minus even", xlabel="step")
    top.legend(fontsize="small", loc="upper right")
    bottom.plot(apart, linewidth=0.5)
    bottom.set(ylabel="difference", xlabel="step", ylim=(0, None))
    figure.savefig(folder / "exported_c.svg")


if __name__ == "__main__":
    main(Path(*sys.argv[1:]))
