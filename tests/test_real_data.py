"""The real data sets, where they are at hand: $PERSISTOR_DATA, or ../shared/data."""

import jax.numpy as jnp
import numpy as np
import pytest
from on_this_machine import use_real

from persistor import TASKS
from persistor.data import DATASETS, READERS, cifar10, imdb, mnist, shakespeare, speech
from persistor.data.dataset import SPLITS
from persistor.data.workers import silent

SIZES = {
    "smnist": (50_000, 10_000, 10_000),
    "pmnist": (50_000, 10_000, 10_000),
    "scifar10": (45_000, 5_000, 10_000),
    "imdb": (40_000, 5_000, 5_000),
    "listops": (96_000, 2_000, 2_000),
    "pathfinder": (160_000, 20_000, 20_000),
}


@pytest.fixture
def real(monkeypatch):
    """Call it with a data set that the test needs."""
    return lambda name: use_real(name, monkeypatch)


@pytest.mark.parametrize("name", sorted(DATASETS))
def test_it_is_whole(name, real):
    real(name)
    READERS[name](DATASETS[name], silent)


@pytest.mark.parametrize("name", sorted(SIZES))
def test_the_papers_sizes(name, real):
    task = TASKS[name]()
    real(task.data)
    assert tuple(task.split(split).size for split in SPLITS) == SIZES[name]


def test_digits_are_digits(real):
    real("mnist")
    pixels, digits = mnist.load()
    assert digits[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert np.bincount(digits[60_000:]).tolist() == [
        980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009
    ]  # fmt: skip
    assert round(pixels[:60_000].mean() / 255, 4) == 0.1307


def test_pictures_are_pictures(real):
    real("cifar10")
    pixels, classes = cifar10.load()
    assert [cifar10.NAMES[c] for c in classes[:3]] == ["frog", "truck", "truck"]
    assert (np.bincount(classes) == 6_000).all()
    means = pixels[:50_000].mean((0, 1)) / 255
    np.testing.assert_allclose(means, [0.4914, 0.4822, 0.4465], atol=1e-4)


def test_reviews_are_reviews(real):
    real("imdb")
    reviews = imdb.load()
    assert len(reviews.favourable) == 50_000
    assert reviews.favourable.mean() == 0.5
    by_length = 600 * jnp.arange(1, 9, dtype=jnp.int32)  # the shortest is a single sentence
    batch = TASKS["imdb"]().split("test").at(by_length)
    for row, length in zip(np.asarray(batch.inputs.ids), np.asarray(batch.lengths), strict=True):
        assert bytes(row[:length].astype(np.uint8)).count(b" ") > 10


def test_verse_is_verse(real):
    real("tinyshakespeare")
    assert shakespeare.load(shakespeare.TINY).startswith(b"First Citizen:\nBefore we proceed")
    real("shakespeare")
    works = shakespeare.load(shakespeare.SHAKESPEARE)
    assert b"To be, or not to be: that is the question" in works
    assert bytes(sorted(set(works))) == shakespeare.ALPHABET


@pytest.mark.parametrize("name", ["kws-digits", "kws-yes", "kws-all"])
def test_words_are_words(name, real):
    real("speech-commands")
    if len(speech.load().labels) < 60_000:
        pytest.skip("only some of the clips are here")
    task = TASKS[name]()
    sizes = [task.split(split).size for split in SPLITS]
    assert sizes[0] == 8 * sizes[1] == 8 * sizes[2]
    targets = np.asarray(task.split("test").targets)
    assert len(np.unique(targets)) in (task.outputs, speech.WORDS[task.version])
