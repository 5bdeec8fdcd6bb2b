"""Is the number of ones odd? One unit that was trained on 400 bits still knows after 100,000."""

import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import persistor


def main(folder, longest=100_000, strings=8):
    model = persistor.load("parity")  # it comes with persistor: 1 unit, trained on 50 to 400 bits
    lengths = [n for n in (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000) if n <= longest]
    bits = jax.random.bernoulli(jax.random.key(0), 0.5, (strings, longest)).astype(jnp.float32)
    odd = jnp.cumsum(bits, axis=1) % 2

    answer = eqx.filter_jit(lambda bits: model(bits[..., None])[0])
    right = []
    for length in lengths:
        said = answer(bits[:, :length]).argmax(-1)
        right.append(float((said == odd[:, length - 1]).mean()))
        print(f"{length:7,} bits: {right[-1]:.0%} of {strings} strings")

    memory, states = model.initial_state((1,)), []
    step = eqx.filter_jit(model.step)
    for bit in bits[0, :60]:
        _, memory = step(bit[None, None], memory)
        states.append(np.asarray(memory.cells[0])[0])

    figure = Figure(figsize=(7, 4.4), layout="constrained")
    top, middle, bottom = figure.subplots(3, 1, height_ratios=(2, 1, 1))
    top.axvspan(50, 400, color="0.85", label="lengths seen in training")
    top.semilogx(lengths, right, marker="o", label="CMRU, epsilon -1, one unit")
    top.axhline(0.5, color="0.5", linestyle=":", label="a blind guess")
    top.set(ylabel="accuracy", xlabel="length", ylim=(0.4, 1.05))
    top.legend(fontsize="small", loc="center right")
    middle.step(range(60), bits[0, :60], where="post", color="0.5")
    middle.set(ylabel="bit", xticklabels=[])
    bottom.step(range(60), states, where="post")
    bottom.set(ylabel="state", xlabel="step")
    figure.savefig(folder / "parity.svg")


if __name__ == "__main__":
    main(Path(*sys.argv[1:]))
