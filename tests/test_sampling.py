"""Sampling is the model as a stream: it writes what the model reads as likeliest."""

import jax
import jax.numpy as jnp
import pytest

from persistor import AlphaCMRU, Backbone, Indexed, MinGRU, Pooling
from persistor.analysis.sampling import sample

LETTERS = tuple("abcdefgh ")


@pytest.fixture
def model(key):
    cells = (AlphaCMRU(16, 5, key=key), MinGRU(16, 5, key=key))
    return Backbone(9, 9, cells, width=16, pooling=Pooling.NONE, key=key)


def write(model, prompt, count, *, window, temperature=0.0, seed=0):
    key = jax.random.key(seed)
    options = {"window": window, "temperature": temperature, "key": key}
    return "".join(sample(model, LETTERS, prompt, count, **options))


def likeliest(model, text):
    ids = jnp.array([LETTERS.index(letter) for letter in text], jnp.int32)
    outputs, _ = model(Indexed(jnp.eye(len(LETTERS)), ids))
    return "".join(LETTERS[i] for i in outputs.argmax(-1))


def test_without_chance_every_letter_is_the_likeliest_after_all_before(model):
    text = "bad cab" + write(model, "bad cab", 20, window=100)
    assert likeliest(model, text)[6:-1] == text[7:]


def test_beyond_the_window_the_second_half_is_read_again(model):
    text = "a" + write(model, "a", 9, window=8)
    assert len(text) == 10
    assert text[9] == likeliest(model, text[5:9])[-1]


def test_a_seed_decides_what_is_drawn(model):
    drawn = [write(model, "a", 30, window=50, temperature=2.0, seed=s) for s in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
