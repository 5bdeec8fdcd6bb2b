"""The start and the rates of `robust`: silence is retained, and solutions survive training."""

import dataclasses
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from persistor import Dense, Experiment
from persistor.cells import CELLS, Thresholded
from persistor.nn.pooling import Pooling
from persistor.nn.sequence import Indexed
from persistor.tasks import CopyFirstDiscrete, Parity
from persistor.tasks.task import Batch, Classification, Regression, Task, split_key
from persistor.training import Trainer

HARD = ("bmru", "cmru", "alpha-cmru")


@pytest.fixture(autouse=True)
def as_users_have_it():
    """optax relies on JAX's usual promotion."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def candidates_and_thresholds(model, xs):
    """What the first cell compares, at every step of inputs (t, i)."""
    block = model.blocks[0]
    us = block.cell_inputs(model.encode(Dense(xs)), model.encode_positions(len(xs))).dense()
    candidate, threshold, *_ = block.cell.parts(block.cell.project(us))
    return np.asarray(candidate), np.abs(np.asarray(threshold))


def test_the_cells_with_thresholds_are_these():
    cells = {name: Experiment.of("parity", cell=name).build().blocks[0].cell for name in CELLS}
    assert {name for name, cell in cells.items() if isinstance(cell, Thresholded)} == set(HARD)


@pytest.mark.slow
@pytest.mark.parametrize("cell", HARD)
def test_silence_is_retained_whatever_was_learned(cell):
    """Of trained weights too, and of any others that training may reach: c = 0 < beta."""
    experiment = Experiment.of(CopyFirstDiscrete(length=6), cell=cell, tiny=True, steps=40, batch=8)
    trainer = Trainer(experiment)
    checkpoint, _ = trainer.advance(trainer.start(), 40)
    noise = iter(jax.random.split(jax.random.key(3), 100))
    d = experiment.model.state_size
    disturbed = jax.tree.map(
        lambda x: x + 0.3 * jax.random.normal(next(noise), x.shape), checkpoint.params
    )
    bias = disturbed.blocks[0].cell.project.bias.at[:d].set(0.0)  # b_x is what stays zero
    disturbed = eqx.tree_at(lambda m: m.blocks[0].cell.project.bias, disturbed, bias)
    assert np.all(np.asarray(checkpoint.params.blocks[0].cell.project.bias)[:d] == 0)
    for params in (checkpoint.params, disturbed):
        model = trainer.model(params, checkpoint.step, trainer.frozen)
        candidate, threshold = candidates_and_thresholds(
            model, jnp.zeros((50, model_inputs(model)))
        )
        assert np.abs(candidate).max() < 1e-6  # zero, to rounding
        assert np.all(np.abs(candidate) < threshold)


def model_inputs(model):
    return model.encoder.linear.weight.shape[0]


def planted(task, cell, state_size, **options):
    """A trainer, and a start at which every unit updates on every input that is not empty."""
    experiment = Experiment.of(
        task, cell=cell, state_size=state_size, steps=1000, changes={"places": 0.0}, **options
    )
    return Trainer(experiment)


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["cmru", "alpha-cmru"])
def test_parity_survives_from_its_solution_and_is_read(cell):
    """Zeros are retained and ones update, at every position, from the first step to the last."""
    trainer = planted(Parity(), cell, 1, epsilon=-1.0)
    checkpoint = trainer.start()
    for _ in range(5):
        model = trainer.model(checkpoint.params, checkpoint.step, trainer.frozen)
        zero, one = (candidates_and_thresholds(model, jnp.full((500, 1), x)) for x in (0.0, 1.0))
        assert np.all(np.abs(zero[0]) < zero[1])
        assert np.all(np.abs(one[0]) > one[1])
        checkpoint, _ = trainer.advance(checkpoint, 200)
    assert trainer.validate(checkpoint)[1] == 1.0


@pytest.mark.slow
def test_copy_first_survives_10000_empty_steps_and_is_read():
    task = dataclasses.replace(CopyFirstDiscrete(), length=10_000)
    trainer = planted(task, "cmru", 4)
    checkpoint, _ = trainer.advance(trainer.start(), 1000)
    model, accuracy = trainer.validate(checkpoint)
    assert accuracy == 1.0
    symbols = model_inputs(model)
    candidate, threshold = candidates_and_thresholds(model, jnp.zeros((10_000, symbols)))
    assert np.all(np.abs(candidate) < threshold)


class Pulses(eqx.Module):
    """Rare pulses of +1 and -1 in silence, the first step always one; what follows from them."""

    key: jax.Array
    leak: float = eqx.field(static=True)
    length: int = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def at(self, indices):
        def draw(i):
            there, up = jax.random.split(jax.random.fold_in(self.key, i))
            there = jax.random.bernoulli(there, 0.1, (self.length,)).at[0].set(True)
            return there * jnp.where(jax.random.bernoulli(up, 0.5, (self.length,)), 1, -1)

        xs = jax.vmap(draw)(indices)
        inputs = Indexed(jnp.array([[-1.0], [0.0], [1.0]]), xs + 1)
        if not self.leak:  # a flip-flop: the sign of the last pulse
            last = self.length - 1 - jnp.argmax(xs[:, ::-1] != 0, axis=1)
            signs = jnp.take_along_axis(xs, last[:, None], axis=1)[:, 0]
            return Batch(inputs, (signs > 0).astype(jnp.int32))
        weights = self.leak * (1 - self.leak) ** jnp.arange(self.length)[::-1]
        return Batch(inputs, (xs @ weights)[:, None])


@dataclass(frozen=True)
class FlipFlop(Task):
    """Which sign had the last pulse?"""

    length: int = 200

    summary = "the sign of the last pulse"
    inputs = 1
    outputs = 2
    objective = Classification()
    pooling = Pooling.LAST
    chance = 0.5

    def split(self, name):
        return Pulses(split_key(name), 0.0, self.length, 2000)


@dataclass(frozen=True)
class Leaky(Task):
    """The pulses so far, each forgotten at a constant rate."""

    length: int = 200

    summary = "a leaky sum of pulses"
    inputs = 1
    outputs = 1
    objective = Regression()
    pooling = Pooling.LAST
    chance = 0.033  # of the answer 0

    def split(self, name):
        return Pulses(split_key(name), LEAK, self.length, 2000)


LEAK = 1 / 30


@pytest.mark.slow
@pytest.mark.parametrize(("cell", "options"), [("bmru", {}), ("alpha-cmru", {"epsilon": 0.0})])
def test_a_flip_flop_survives_from_its_solution_and_is_read(cell, options):
    """At epsilon 0, where CMRU is BMRU: pulses set a unit to their sign, silence keeps it."""
    trainer = planted(FlipFlop(), cell, 4, batch=16, **options)
    checkpoint = trainer.start()
    for _ in range(5):
        model = trainer.model(checkpoint.params, checkpoint.step, trainer.frozen)
        silent, down, up = (
            candidates_and_thresholds(model, jnp.full((200, 1), x)) for x in (0.0, -1.0, 1.0)
        )
        assert np.all(np.abs(silent[0]) < silent[1])
        both = (np.abs(down[0]) > down[1]) & (np.abs(up[0]) > up[1])
        assert np.any(np.all(both & (down[0] * up[0] < 0), axis=0))  # such a unit is a flip-flop
        checkpoint, _ = trainer.advance(checkpoint, 200)
    assert trainer.validate(checkpoint)[1] == 1.0


@pytest.mark.slow
def test_a_leaky_integrator_survives_from_its_solution_and_is_read():
    """minGRU with every gate at the leak of the target: the leak stays, the read-out learns."""
    trainer = planted(Leaky(), "mingru", 4, batch=16)
    checkpoint = trainer.start()
    project = checkpoint.params.blocks[0].cell.project
    at_leak = eqx.tree_at(
        lambda p: (p.weight, p.bias),
        project,
        (
            project.weight.at[:, :4].set(0.0),
            project.bias.at[:4].set(jnp.log(LEAK / (1 - LEAK))),
        ),
    )
    params = eqx.tree_at(lambda m: m.blocks[0].cell.project, checkpoint.params, at_leak)
    checkpoint = dataclasses.replace(checkpoint, params=params)
    checkpoint, _ = trainer.advance(checkpoint, 1000)
    after = leaks(trainer, checkpoint)
    np.testing.assert_array_less(np.abs(np.log(after / LEAK)), np.log(2.0))
    _, error = trainer.validate(checkpoint)
    assert error < 0.2 * Leaky.chance


@pytest.mark.slow
@pytest.mark.parametrize("longest", [1000.0])
def test_memory_times_of_mingru_survive_training(longest):
    """The leak of a gate in silence stays within a factor of two of where it started."""
    experiment = Experiment.of(
        "copy-first-discrete", cell="mingru", length=100, steps=200, batch=16
    )
    assert experiment.model.architecture.start("longest") == longest
    trainer = Trainer(experiment)
    before = leaks(trainer, trainer.start())
    checkpoint, _ = trainer.advance(trainer.start(), 200)
    after = leaks(trainer, checkpoint)
    assert before.max() / before.min() > 3
    np.testing.assert_array_less(np.abs(np.log(after / before)), np.log(2.0))


def leaks(trainer, checkpoint):
    """z of each unit when the input is empty."""
    model = trainer.model(checkpoint.params, checkpoint.step, trainer.frozen)
    inputs = jnp.zeros((100, model_inputs(model)))
    block = model.blocks[0]
    us = block.cell_inputs(model.encode(Dense(inputs)), model.encode_positions(100)).dense()
    gate, _ = block.cell.parts(block.cell.project(us))
    return np.asarray(jax.nn.sigmoid(gate))[-1]
