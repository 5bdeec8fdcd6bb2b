"""The demo's pieces, on untrained runs; the whole of it is `make demo`."""

import dataclasses

import jax
import pytest

from persistor._tools.progress import Watcher
from persistor.experiment import TrainingSpec
from persistor.report import demo


@pytest.fixture(autouse=True)
def as_users_have_it():
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def test_the_demo_trains_compares_and_draws(tmp_path):
    short = TrainingSpec(steps=2, batch=4, valid_batches=1)
    small = [
        (
            name,
            dataclasses.replace(
                e, training=short, model=dataclasses.replace(e.model, width=8, encoding=8)
            ),
            published,
        )
        for name, e, published in demo.experiments()
    ]
    said = []
    rows = demo.run_demo(tmp_path, Watcher, said.append, small)
    assert len(rows) == len(said) == 6
    assert "100.00% [100.00%; 100.00%]" in said[0]
    for name in demo.PICTURES:
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
