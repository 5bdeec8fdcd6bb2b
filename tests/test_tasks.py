"""Laws of the tasks: what a batch holds, and that an index always means the same example."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from publishers import publish_all

from persistor import TASKS, PersistorError
from persistor.tasks.task import SPLITS

NAMES = sorted(TASKS)
COPY = [name for name in NAMES if name.startswith("copy")]
ANY_LENGTH = [*COPY, "parity"]
SIZES = {
    **dict.fromkeys(COPY, (10_000, 2_000, 2_000)),
    **dict.fromkeys(["smnist", "pmnist", "pmnist-24", "pmnist-36"], (50_000, 10_000, 10_000)),
    "parity": (2**31 - 1, 2**31 - 1, 3_200),
}


@pytest.fixture(scope="module", autouse=True)
def data(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        publish_all(tmp_path_factory.mktemp("data"), patch)
        yield


def small(name):
    if name == "parity":
        return TASKS[name](train_lengths=(5, 9), test_lengths=(5, 20))
    return TASKS[name](length=12) if name in COPY else TASKS[name]()


def test_registry_is_not_empty():
    assert len(NAMES) >= 4


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("split", SPLITS)
def test_an_index_always_means_the_same_example(name, split):
    data = small(name).split(split)
    one = data.at(jnp.array([3, 17, 4], jnp.int32))
    two = data.at(jnp.array([17], jnp.int32))
    np.testing.assert_array_equal(one.inputs.dense()[1], two.inputs.dense()[0])
    np.testing.assert_array_equal(one.targets[1], two.targets[0])


@pytest.mark.parametrize("name", NAMES)
def test_shapes_and_scores(name):
    task = small(name)
    batch = task.split("test").at(jnp.arange(8, dtype=jnp.int32))
    assert batch.inputs.dense().shape[-1] == task.inputs
    outputs = jax.random.normal(jax.random.key(0), (8, task.outputs))
    assert task.objective.loss(outputs, batch.targets).shape == (8,)
    assert task.objective.score(outputs, batch.targets).shape == (8,)


@pytest.mark.parametrize("name", NAMES)
def test_splits_differ_and_have_the_papers_sizes(name):
    task = small(name)
    splits = {s: task.split(s) for s in SPLITS}
    assert tuple(splits[s].size for s in SPLITS) == SIZES[name]
    index = jnp.arange(64, dtype=jnp.int32)
    targets = [np.asarray(splits[s].at(index).targets).tobytes() for s in SPLITS]
    assert len(set(targets)) == 3


def test_copy_first_shows_its_target_once():
    batch = small("copy-first-discrete").split("train").at(jnp.arange(50, dtype=jnp.int32))
    x = np.asarray(batch.inputs.dense())
    assert np.array_equal(x[:, 0].argmax(-1), batch.targets)
    assert np.array_equal(x[:, 0].sum(-1), np.ones(50))
    assert not x[:, 1:].any()
    for name in ("copy-first-clean", "copy-first-noisy"):
        batch = small(name).split("train").at(jnp.arange(500, dtype=jnp.int32))
        x = np.asarray(batch.inputs.dense())
        np.testing.assert_array_equal(x[:, 0], batch.targets)
        assert -1 <= x.min() < -0.9
        assert 0.9 < x.max() <= 1
        assert x[:, 1:].any() == (name == "copy-first-noisy")


def test_symbols_are_uniform():
    symbols = np.asarray(small("copy-first-discrete").split("train").symbols)
    assert np.bincount(symbols, minlength=15).min() > 550  # 667 expected


def test_parity_is_parity_within_its_lengths():
    for split, (shortest, longest) in (("train", (5, 9)), ("test", (5, 20))):
        batch = small("parity").split(split).at(jnp.arange(400, dtype=jnp.int32))
        bits, lengths = np.asarray(batch.inputs.dense())[..., 0], np.asarray(batch.lengths)
        assert (lengths.min(), lengths.max()) == (shortest, longest)
        for row, length, target in zip(bits, lengths, np.asarray(batch.targets), strict=True):
            assert row[:length].sum() % 2 == target
            assert not row[length:].any()
        assert 0.4 < np.mean(batch.targets) < 0.6


@pytest.mark.parametrize("name", ANY_LENGTH)
def test_another_length(name):
    batch = small(name).with_length(31).split("test").at(jnp.arange(2, dtype=jnp.int32))
    assert batch.inputs.steps == 31


@pytest.mark.parametrize("name", ["smnist", "pmnist"])
def test_an_image_has_no_other_length(name):
    with pytest.raises(PersistorError, match="784"):
        TASKS[name]().with_length(31)


@pytest.mark.parametrize("name", ANY_LENGTH)
@pytest.mark.parametrize("length", [0, -5])
def test_a_length_without_steps_is_refused(name, length):
    with pytest.raises(PersistorError, match="at least 1"):
        small(name).with_length(length)


def test_permuted_pixels_are_the_same_pixels():
    index = jnp.arange(20, dtype=jnp.int32)
    plain = np.asarray(TASKS["smnist"]().split("train").at(index).inputs.dense())[..., 0]
    orders = set()
    for name in ("pmnist", "pmnist-24", "pmnist-36"):
        mixed = np.asarray(TASKS[name]().split("train").at(index).inputs.dense())[..., 0]
        np.testing.assert_array_equal(np.sort(mixed), np.sort(plain))
        assert (mixed != plain).any()
        orders.add(mixed.tobytes())
    assert len(orders) == 3
