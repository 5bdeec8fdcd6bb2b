"""Training that meets mismatch and noise: what they do to candidates, and where they reach."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from persistor import Experiment, ModelSpec
from persistor._tools.errors import PersistorError
from persistor.cells import CELLS, Ladder, PositiveCMRU
from persistor.cells.analog import AnalogCell
from persistor.nn.sequence import Dense, Indexed
from persistor.tasks import CopyFirstDiscrete

CIRCUITS = [PositiveCMRU, Ladder]


def make(kind, **options):
    cell = kind(6, 3, key=jax.random.key(0), **options)
    return jax.tree.map(lambda a: a * 2.0 if np.shape(a) == (3,) else a, cell)  # thresholds of 2


def differences(cell, keys=400):
    """What disturbance adds to candidates: (keys, b, t, d)."""
    candidates = Dense(jax.random.normal(jax.random.key(1), (2, 5, 3)))

    def added(key):
        return cell.disturbed(candidates, key).dense() - candidates.dense()

    return np.asarray(jax.vmap(added)(jax.random.split(jax.random.key(2), keys)))


@pytest.mark.parametrize("kind", CIRCUITS)
def test_mismatch_shifts_a_unit_once_for_the_whole_batch(kind):
    added = differences(make(kind, mismatch=0.1))
    np.testing.assert_allclose(added, added[:, :1, :1] + np.zeros_like(added), atol=1e-6)
    np.testing.assert_allclose(added[:, 0, 0].std(0), 0.2, rtol=0.15)
    assert abs(np.corrcoef(added[:, 0, 0].T)[0, 1]) < 0.2


@pytest.mark.parametrize("kind", CIRCUITS)
def test_noise_differs_from_step_to_step(kind):
    added = differences(make(kind, noise=0.1))
    np.testing.assert_allclose(added.std(0), 0.2, rtol=0.2)
    assert abs(np.corrcoef(added[:, 0, 0, 0], added[:, 0, 1, 0])[0, 1]) < 0.2
    assert abs(np.corrcoef(added[:, 0, 0, 0], added[:, 1, 0, 0])[0, 1]) < 0.2


@pytest.mark.parametrize("kind", CIRCUITS)
def test_a_shifted_candidate_is_shifted_thresholds(kind):
    """On a drawn chip a unit goes up above upper - shift, and down below lower - shift."""
    cell = make(kind, mismatch=0.5)
    candidates = Indexed(jnp.linspace(-4, 4, 81)[:, None] + jnp.zeros((1, 3)), jnp.arange(81))
    seen = cell.disturbed(candidates, jax.random.key(3))
    assert isinstance(seen, Indexed)
    shift = np.asarray(seen.rows[0] - candidates.rows[0])
    assert (np.abs(shift) > 0.05).all()
    moved = np.asarray(cell.gate(seen.dense())(jnp.full((81, 3), 0.5)) != 0.5)
    c = np.asarray(candidates.rows)
    np.testing.assert_array_equal(moved, (c >= 2 - shift) | (c <= -2 - shift))


@pytest.mark.parametrize("name", sorted(CELLS))
def test_it_acts_in_training_alone(name):
    """A model with a key meets it, one without does not; other cells never do."""
    own = {"mismatch": 0.5, "noise": 0.5} if issubclass(CELLS[name], AnalogCell) else {}
    spec = ModelSpec((name,), state_size=3, width=8, encoding=0, **own)
    experiment = Experiment(CopyFirstDiscrete(6), spec)
    model, batch = experiment.build(), experiment.task.split("test").at(jnp.arange(8))
    plain = Experiment(CopyFirstDiscrete(6), ModelSpec((name,), state_size=3, width=8, encoding=0))
    answer = eqx.filter_jit(lambda model, key=None: model(batch.inputs, key=key)[0])
    ideal = answer(plain.build())
    np.testing.assert_array_equal(answer(model), ideal)
    assert np.array_equal(answer(model, jax.random.key(0)), ideal) == (not own)


def test_names_stay_and_mistakes_are_refused():
    task = CopyFirstDiscrete(6)
    quiet, noisy = (ModelSpec(("positive-cmru",), noise=noise) for noise in (0.0, 0.1))
    assert "noise" not in Experiment(task, quiet).to_json()["model"]
    assert Experiment(task, quiet).hash != Experiment(task, noisy).hash
    assert Experiment.from_json(Experiment(task, noisy).to_json()) == Experiment(task, noisy)
    with pytest.raises(PersistorError, match=r"noise is 2; .* in \[0, 1\]"):
        ModelSpec(("positive-cmru",), noise=2.0)
    with pytest.raises(
        PersistorError, match="mismatch does not apply to cmru; use positive-cmru or ladder"
    ):
        ModelSpec(("cmru",), mismatch=0.1)
