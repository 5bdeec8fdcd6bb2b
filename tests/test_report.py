"""The report page: whole, without network, and its playground computes what the library does.

And the pieces of the demo, on untrained runs; the whole of it is `make demo`.
"""

import dataclasses
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from on_this_machine import in_browser, opened

from persistor import BMRU, CMRU, LRU, MinGRU
from persistor._tools.progress import Watcher
from persistor.experiment import TrainingSpec
from persistor.report import demo
from persistor.report.page import page

RESULTS = Path(__file__).parents[1] / "results"
INPUTS = np.sin(np.arange(60) * 0.7).astype(np.float32) * 2
SETTINGS = {"epsilon": 0.6, "threshold": 0.9, "scale": 1.3, "decay": 0.9}
VOID = {"meta", "link", "input"}


class Balanced(HTMLParser):
    """Every tag that opens closes, and ids are unique."""

    def __init__(self):
        super().__init__()
        self.open, self.ids = [], []

    def handle_starttag(self, tag, attrs):
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page(RESULTS))
    return path


def test_the_page_is_whole_and_alone(written):
    text = written.read_text()
    reader = Balanced()
    reader.feed(text)
    assert reader.open == []
    assert len(set(reader.ids)) == len(reader.ids)
    assert {"playground", "tables", "learning", "plot-parity"} <= set(reader.ids)
    assert not re.search(r"""(?:src|href)=["']?(?!["']?data:)|@import|url\(|fetch\(""", text)
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert [t["table"] for t in data["tables"]][:2] == ["parity", "copy-first-discrete"]
    for curve in data["curves"]:
        assert len(curve["steps"]) == len(curve["values"]) <= 202


def test_a_page_of_no_runs_says_so(tmp_path):
    assert "No run here belongs to a table" in page(tmp_path)


def library(name):
    """The states of one unit whose candidate is the input."""
    key = jax.random.key(0)
    x = jnp.asarray(INPUTS)[:, None]
    if name == "LRU":
        nu = jnp.log(-jnp.log(jnp.array([SETTINGS["decay"]])))
        cell = LRU(1, 1, key=key)
        cell = eqx.tree_at(lambda c: (c.nu, c.theta), cell, (nu, jnp.array([-jnp.inf])))
        projections = jnp.concatenate([x, jnp.zeros_like(x)], -1)
    elif name == "minGRU":
        cell, projections = MinGRU(1, 1, key=key), jnp.concatenate([x, x], -1)
    else:
        cell = BMRU(1, 1, key=key)
        if name == "CMRU":
            cell = CMRU(1, 1, epsilon=SETTINGS["epsilon"], key=key)
        cell = eqx.tree_at(lambda c: c.scale, cell, jnp.array([SETTINGS["scale"]]))
        projections = jnp.concatenate([x, jnp.full_like(x, SETTINGS["threshold"])], -1)
    transitions, h, states = cell.gate(projections), 0.0, []
    for decay, drive in zip(
        np.asarray(transitions.decay), np.asarray(transitions.drive), strict=True
    ):
        h = decay * h + drive
        states.append(np.real(h)[0])
    return np.array(states)


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize("name", ["BMRU", "CMRU", "LRU", "minGRU"])
def test_the_playground_computes_what_the_library_does(name):
    code = (files("persistor.report") / "playground.js").read_text() + (
        f"console.log(JSON.stringify(persistor.unroll({json.dumps(name)}, {json.dumps(INPUTS.tolist())}, "
        f"{json.dumps(SETTINGS)})))"
    )
    done = subprocess.run(["node", "-e", code], capture_output=True, text=True, check=True)
    np.testing.assert_allclose(json.loads(done.stdout), library(name), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@in_browser
def test_the_page_opens_in_a_browser_without_errors(written, tmp_path):
    document = opened(written, tmp_path)
    # The script ran to its end: the example's inputs, and what CMRU makes of two updates each.
    assert 'data-ready="BMRU 1.000, CMRU 2.000' in document
    assert document.count("<polyline") >= 5
    assert document.count('class="range"') >= 2


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
