"""Training in PyTorch follows training in JAX, from the same weights and with the same batches."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from torch_twins import in_torch

from persistor import ARCHITECTURES, CELLS, Backbone, Pooling
from persistor.training.schedule import paced

STEPS, RATE, DECAY = 200, 3e-3, 1e-2
# How far a loss may be from its twin after some steps, relative to it: rounding grows along a
# trajectory, and a hard gate that rounding turns moves it at once. In double precision neither
# has come far after 200 steps.
APART = 1e-6


def batches():
    """Is the sum of the first column positive? Other values in the second column."""
    draw = np.random.default_rng(0)
    for _ in range(STEPS):
        x = draw.normal(size=(16, 20, 2))
        yield x, (x[..., 0].sum(-1) > 0).astype(np.int32)


def model_of(names, architecture):
    *keys, last = jax.random.split(jax.random.key(5), len(names) + 1)
    cells = tuple(CELLS[name](16, 8, key=k) for name, k in zip(names, keys, strict=True))
    return Backbone(
        2, 2, cells, width=16, architecture=architecture, pooling=Pooling.MEAN, key=last
    )


def jax_losses(model):
    optimiser = optax.adamw(RATE, b1=0.9, b2=0.99, eps=1e-8, weight_decay=DECAY)
    params, fixed = eqx.partition(model, eqx.is_inexact_array)

    @jax.jit
    def step(params, state, number, x, y):
        def loss(params):
            logits = eqx.combine(params, fixed)(x)[0]
            return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

        value, gradients = jax.value_and_grad(loss)(params)
        updates, state = optimiser.update(gradients, state, params)
        updates = paced(updates, model.architecture, STEPS, number)
        return eqx.apply_updates(params, updates), state, value

    state = optimiser.init(params)
    losses = []
    for number, (x, y) in enumerate(batches()):
        params, state, value = step(params, state, number, jnp.asarray(x), jnp.asarray(y))
        losses.append(float(value))
    return losses


def torch_losses(model):
    optimiser = torch.optim.AdamW(
        model.parameter_groups(), lr=RATE, betas=(0.9, 0.99), eps=1e-8, weight_decay=DECAY
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, model.rates(STEPS))
    losses = []
    for x, y in batches():
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(
            model(torch.from_numpy(x))[0], torch.tensor(y).long()
        )
        loss.backward()
        optimiser.step()
        schedule.step()
        losses.append(loss.item())
    return losses


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "reading"),
    [(("cmru",), "paper"), (("mingru", "alpha-cmru"), "robust"), (("lru", "ladder"), "norm-first")],
)
def test_training_in_pytorch_follows_jax(names, reading, tmp_path):
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        model = model_of(names, ARCHITECTURES[reading])
        ours = jax_losses(model)
        theirs = torch_losses(in_torch(model, tmp_path))
    apart = np.abs(np.array(ours) - theirs) / np.abs(ours)
    print(f"{reading}: {ours[0]:.4f} -> {np.mean(ours[-10:]):.4f}, apart {apart.max():.1e}")
    assert np.mean(ours[-10:]) < 0.8 * ours[0]
    assert apart.max() < APART
