"""Laws of the tasks: what a batch holds, and that an index always means the same example."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from publishers import SHARE, publish_all

from persistor import TASKS, PersistorError, Pooling
from persistor.data import shakespeare
from persistor.tasks.task import SPLITS

NAMES = sorted(TASKS)
COPY = [name for name in NAMES if name.startswith("copy")]
MNIST = ["smnist", "pmnist", "pmnist-24", "pmnist-36"]
TEXT = ["imdb", "shakespeare", "tinyshakespeare"]
ANY_LENGTH = [*COPY, *TEXT, "parity"]
SIZES = {
    **dict.fromkeys(COPY, (10_000, 2_000, 2_000)),
    **dict.fromkeys(MNIST, (50_000, 10_000, 10_000)),
    "parity": (2**31 - 1, 2**31 - 1, 3_200),
    "scifar10": (45_000, 5_000, 10_000),
    "imdb": tuple(n // SHARE for n in (40_000, 5_000, 5_000)),
    "pathfinder": tuple(n // SHARE for n in (160_000, 20_000, 20_000)),
    "listops": (96_000, 2_000, 2_000),
    "kws-digits": tuple(11 * n for n in (96, 12, 12)),  # of 120 clips a word
    "kws-yes": tuple(2 * n for n in (96, 12, 12)),
    "kws-all": tuple(35 * n for n in (96, 12, 12)),
    "shakespeare": (34_020 - 256, 1_890 // 256, 1_890 // 256),  # of 42 * 900 characters
    "tinyshakespeare": (36_000 - 256, 2_000 // 256, 2_000 // 256),
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
    one = data.at(jnp.array([3, 5, 4], jnp.int32))
    two = data.at(jnp.array([5], jnp.int32))
    np.testing.assert_array_equal(one.inputs.dense()[1], two.inputs.dense()[0])
    np.testing.assert_array_equal(one.targets[1], two.targets[0])


@pytest.mark.parametrize("name", NAMES)
def test_shapes_and_scores(name):
    task = small(name)
    batch = task.split("test").at(jnp.arange(6, dtype=jnp.int32))
    assert batch.inputs.dense().shape[-1] == task.inputs
    steps = (batch.inputs.length,) if task.pooling is Pooling.NONE else ()
    outputs = jax.random.normal(jax.random.key(0), (6, *steps, task.outputs))
    assert task.objective.loss(outputs, batch.targets).shape == (6,)
    assert task.objective.score(outputs, batch.targets).shape == (6,)
    if batch.targets.dtype == jnp.int32:
        assert 0 <= batch.targets.min() <= batch.targets.max() < task.outputs


@pytest.mark.parametrize("name", NAMES)
def test_splits_differ_and_have_the_papers_sizes(name):
    task = small(name)
    splits = {s: task.split(s) for s in SPLITS}
    assert tuple(splits[s].size for s in SPLITS) == SIZES[name]
    index = jnp.arange(6, dtype=jnp.int32)
    batches = [splits[s].at(index) for s in SPLITS]
    contents = [np.asarray(b.inputs.dense()[..., :20, :]).tobytes() for b in batches]
    targets = [np.asarray(b.targets).tobytes() for b in batches]
    assert len({*zip(contents, targets, strict=True)}) == 3


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
    assert batch.inputs.length == 31


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(ANY_LENGTH)))
def test_what_has_a_length_of_its_own_has_no_other(name):
    with pytest.raises(PersistorError, match="leave the length out"):
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
    for name in MNIST[1:]:
        mixed = np.asarray(TASKS[name]().split("train").at(index).inputs.dense())[..., 0]
        np.testing.assert_array_equal(np.sort(mixed), np.sort(plain))
        assert (mixed != plain).any()
        orders.add(mixed.tobytes())
    assert len(orders) == 3


def test_reviews_are_read_to_their_end_or_the_length():
    split = TASKS["imdb"](length=500).split("train")
    batch = split.at(jnp.linspace(0, split.size - 1, 200).astype(jnp.int32))  # short and long ones
    ids, lengths = np.asarray(batch.inputs.ids), np.asarray(batch.lengths)
    assert ids.shape == (200, 500)
    assert lengths.max() == 500 > lengths.min()
    for row, length, target in zip(ids, lengths, np.asarray(batch.targets), strict=True):
        text = bytes(row[:length].astype(np.uint8)).decode()
        assert (" pos " in text) == bool(target)
        assert not row[length:].any()


@pytest.mark.parametrize("split", SPLITS)
def test_half_of_the_reviews_are_favourable(split):
    assert float(TASKS["imdb"]().split(split).targets.mean()) == 0.5


def test_reviews_and_clips_are_in_one_part_only():
    starts = [np.asarray(TASKS["imdb"]().split(s).starts) for s in SPLITS]
    assert len(np.unique(np.concatenate(starts))) == 50_000 // SHARE
    for name in ("kws-digits", "kws-yes", "kws-all"):
        clips = np.concatenate([TASKS[name]().split(s).features for s in SPLITS])
        assert len(np.unique(clips.reshape(len(clips), -1), axis=0)) == len(clips)


@pytest.mark.parametrize("name", ["kws-digits", "kws-yes", "kws-all"])
@pytest.mark.parametrize("split", SPLITS)
def test_classes_of_words_are_balanced(name, split):
    data = TASKS[name]().split(split)
    assert len(set(np.bincount(data.targets))) == 1
    if split == "train":
        x = np.asarray(data.at(jnp.arange(data.size, dtype=jnp.int32)).inputs.dense())
        np.testing.assert_allclose(x.mean((0, 1)), 0, atol=1e-2)
        np.testing.assert_allclose(x.std((0, 1)), 1, atol=1e-2)


def test_what_follows_is_what_follows():
    task = TASKS["shakespeare"](length=40)
    batch = task.split("train").at(jnp.array([0, 1, 40], jnp.int32))
    ids, targets = np.asarray(batch.inputs.ids), np.asarray(batch.targets)
    np.testing.assert_array_equal(ids[:, 1:], targets[:, :-1])
    np.testing.assert_array_equal(ids[1], targets[0])
    assert ids[2, 0] == targets[0, -1]
    test = task.split("test")
    pieces = np.asarray(test.at(jnp.arange(test.size, dtype=jnp.int32)).inputs.ids)
    text = "".join(task.letters[i] for i in pieces.ravel())
    assert text.encode() in shakespeare.load_works()


def test_a_text_that_is_too_short_is_refused():
    with pytest.raises(PersistorError, match="too few"):
        TASKS["shakespeare"](length=5_000).split("test")


def test_a_run_stays_with_its_version_of_the_words():
    with pytest.raises(PersistorError, match=r"0\.02 is there"):
        TASKS["kws-digits"](version="0.01").split("train")
    with pytest.raises(PersistorError, match=r"0\.01 or 0\.02"):
        TASKS["kws-digits"](version="3")
