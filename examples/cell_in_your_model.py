"""A CMRU in a model of your own: say at every step in which direction the last event went."""

import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from matplotlib.figure import Figure

from persistor import CMRU


class Follower(eqx.Module):
    cell: CMRU
    readout: eqx.nn.Linear

    def __init__(self, key):
        one, two = jax.random.split(key)
        self.cell = CMRU(1, 8, epsilon=0.0, hold=1.0, gain=4.0, key=one)
        self.readout = eqx.nn.Linear(8, 1, key=two)

    def __call__(self, xs):  # (t, 1) -> (t,), and the states
        states, _ = self.cell(xs)
        return jax.vmap(self.readout)(states)[:, 0], states


def draw(key, sequences, steps):
    """Noise with rare events of +1 or -1, and which sign the last event had."""
    rare, sign, noise = jax.random.split(key, 3)
    shape = (sequences, steps)
    events = jax.random.bernoulli(rare, 0.04, shape).at[:, 0].set(True)
    signs = jnp.where(jax.random.bernoulli(sign, 0.5, shape), 1.0, -1.0)
    last = jax.lax.cummax(jnp.where(events, jnp.arange(steps), 0), axis=1)
    xs = jnp.where(events, signs, 0.15 * jax.random.normal(noise, shape))
    return xs[..., None], jnp.take_along_axis(signs, last, axis=1) > 0


def loss(model, xs, up):
    logits, _ = jax.vmap(model)(xs)
    return optax.sigmoid_binary_cross_entropy(logits, up).mean()


def main(folder, steps=300):
    model = Follower(jax.random.key(0))
    params, fixed = eqx.partition(model, eqx.is_inexact_array)
    optimiser = optax.adamw(1e-2)
    state = optimiser.init(params)

    @eqx.filter_jit
    def step(params, state, key):
        batch = draw(key, 64, 50)
        value, grads = jax.value_and_grad(lambda p: loss(eqx.combine(p, fixed), *batch))(params)
        updates, state = optimiser.update(grads, state, params)
        return eqx.apply_updates(params, updates), state, value

    losses = []
    for key in jax.random.split(jax.random.key(1), steps):
        params, state, value = step(params, state, key)
        losses.append(float(value))
    model = eqx.combine(params, fixed)

    for length in (50, 1_000, 20_000):
        xs, up = draw(jax.random.key(2), 16, length)
        logits, _ = jax.vmap(model)(xs)
        print(f"{length:6,} steps: {((logits > 0) == up).mean():.2%} of all answers right")

    xs, up = draw(jax.random.key(3), 1, 200)
    logits, states = model(xs[0])
    figure = Figure(figsize=(7, 5), layout="constrained")
    top, middle, bottom, below = figure.subplots(4, 1, height_ratios=(1, 1, 1, 1))
    top.plot(losses, color="C0")
    top.set(ylabel="loss", xlabel="step of training")
    middle.plot(xs[0, :, 0], color="0.5")
    middle.set(ylabel="input", xticklabels=[])
    bottom.step(range(200), states, where="post", linewidth=1)
    bottom.set(ylabel="states", xticklabels=[])
    below.step(range(200), 1 / (1 + jnp.exp(-logits)), where="post", label="the model says up")
    below.step(range(200), up[0], where="post", color="C1", linestyle=":", label="it was up")
    below.set(ylabel="answer", xlabel="step of the sequence")
    below.legend(fontsize="small", loc="center right")
    figure.savefig(folder / "cell_in_your_model.svg")


if __name__ == "__main__":
    main(Path(*sys.argv[1:]))
