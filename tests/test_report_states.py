"""The viewer of states: what it shows is what the library computes, and nothing breaks the page."""

import html
import json
import os
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from on_this_machine import in_browser, opened

from persistor import Experiment, ModelSpec
from persistor.analysis.examples import spread
from persistor.model.file import write_arrays
from persistor.nn.sequence import Dense
from persistor.report import states
from persistor.report.page import page
from persistor.tasks import SMNIST, CopyFirstDiscrete, CopyFirstNoisy, Parity, own_task
from persistor.training import Run


def made(folder, task, *cells, state, blocks=1, seed=0, **model):
    """A run whose best weights are those it begins with."""
    spec = ModelSpec(cells, state_size=state, blocks=blocks, width=16, encoding=16, **model)
    run = Run.create(Experiment(task, spec, seed=seed), folder)
    weights = eqx.filter(run.experiment.build(), eqx.is_array)
    write_arrays(run.best, weights, {"experiment": run.experiment.hash})
    return run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs of every kind of input, the oldest first."""
    folder = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    np.savez(folder / "own.npz", x=rng.normal(size=(30, 12, 6)), y=np.arange(30) % 3)
    (folder / "own.txt").write_text("".join(rng.choice(list('ab "<\n'), 20_000)))
    found = {
        "parity": made(folder, Parity(test_lengths=(20, 40)), "cmru", "lru", state=12, blocks=2),
        "symbols": made(folder, CopyFirstDiscrete(length=20), "mingru", state=2),
        "noisy": made(folder, CopyFirstNoisy(length=3_000), "mingru", state=16),
        "cumulative": made(folder, CopyFirstNoisy(length=1_500), "cmru", state=16, epsilon=1.0),
        "arrays": made(folder, own_task(folder / "own.npz"), "cmru", state=3),
        "text": made(folder, own_task(folder / "own.txt"), "cmru", state=3),
    }
    for age, run in enumerate(found.values()):
        os.utime(run.best, (age, age))
    return folder, found


@pytest.fixture(scope="module")
def written(runs, tmp_path_factory):
    with jax.numpy_dtype_promotion("standard"):
        text = page(runs[0])
    assert "is not shown" not in text
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def watched(written):
    """What the page holds of every run."""
    data = re.search(r'id="data">(.*?)</script>', written.read_text(), re.DOTALL)[1]
    return {run["run"]: run for run in json.loads(data)["states"]}


def streamed(run, example):
    """The states of every block after every step, one step of the stream after another."""
    model = run.model()
    batch = spread(run.experiment.task.split("test"), states.EXAMPLES)
    inputs = batch.inputs.dense()[example]
    steps = len(inputs) if batch.lengths is None else int(batch.lengths[example])

    @eqx.filter_jit
    def step(memory, x):
        _, memory = model(Dense(x[None]), memory)
        return memory

    memory, seen = model.initial_state(), []
    for x in inputs[:steps]:
        memory = step(memory, x)
        seen.append([np.real(np.asarray(cell)) for cell in memory.cells])
    return [np.stack(block) for block in zip(*seen, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["parity", "symbols", "arrays", "text", "cumulative"])
def test_states_are_those_of_a_stream(name, runs, watched):
    run = runs[1][name]
    shown = watched[run.path.name]["examples"][1]
    kept = states.kept_steps(shown["steps"], shown["every"])
    with jax.numpy_dtype_promotion("standard"):
        blocks = streamed(run, 1)
    assert len(shown["blocks"]) == len(blocks)
    for block, expected in zip(shown["blocks"], blocks, strict=True):
        assert len(expected) == shown["steps"]
        expected = expected[kept][:, : states.UNITS]
        np.testing.assert_allclose(np.array(block["states"]).T, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "thinned"), [("parity", False), ("cumulative", True)])
def test_a_mark_is_an_update_since_the_last_step_shown(name, thinned, runs, watched):
    """At epsilon 1 an update adds alpha, so a state changes where it is updated, and only there."""
    run = runs[1][name]
    shown = watched[run.path.name]["examples"][0]
    assert (shown["every"] > 1) == thinned
    kept = states.kept_steps(shown["steps"], shown["every"])
    with jax.numpy_dtype_promotion("standard"):
        whole = streamed(run, 0)[0][:, : states.UNITS]
    changed = np.diff(whole, axis=0, prepend=0) != 0
    starts = [0, *(kept[:-1] + 1)]
    expected = [changed[a : b + 1].any(0) for a, b in zip(starts, kept, strict=True)]
    marks = np.array([[mark == "1" for mark in unit] for unit in shown["blocks"][0]["updates"]])
    assert marks.any()
    assert not marks.all()
    np.testing.assert_array_equal(marks.T, expected)


def test_kept_steps_have_both_ends():
    for steps in (1, 2, 7, 100):
        for every in (1, 2, 3, 50, 200):
            kept = states.kept_steps(steps, every)
            assert (kept[0], kept[-1]) == (0, steps - 1)
            assert (np.diff(kept) <= every).all()
            assert (np.diff(kept) > 0).all()


@pytest.mark.slow
def test_a_page_stays_small_and_says_what_is_left_out(runs, watched):
    for run in watched.values():
        assert len(states.as_text(run)) <= states.BYTES
        assert len(run["examples"]) == states.EXAMPLES
    of = {name: watched[run.path.name] for name, run in runs[1].items()}
    assert of["noisy"]["examples"][0]["every"] > 3
    assert of["noisy"]["left"] == ["the first 8 of 16 units"]
    assert of["parity"]["left"] == ["the first 8 of 12 units", "the real part of complex states"]
    assert of["arrays"]["inputs"] == ["input 0", "input 1", "input 2", "input 3"]
    assert of["arrays"]["left"] == ["the first 4 of 6 inputs of a step"]
    assert of["symbols"]["inputs"] == ["symbol"]
    text = of["text"]["examples"][0]
    assert text["target"] == "what follows"
    assert set(text["letters"]) == set('ab "<\n')


def test_runs_that_cannot_be_looked_into_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PERSISTOR_DATA", str(tmp_path / "nothing"))
    runs = tmp_path / "runs"
    good = made(runs, CopyFirstDiscrete(length=5), "cmru", state=2)
    image = made(runs, SMNIST(), "cmru", state=2)
    broken = made(runs, CopyFirstDiscrete(length=6), "cmru", state=2)
    broken.best.write_bytes(b"no weights")
    infinite = made(runs, CopyFirstDiscrete(length=7), "cmru", state=2)
    bad = eqx.tree_at(lambda m: m.blocks[0].cell.scale, infinite.model(), jnp.full(2, jnp.inf))
    write_arrays(
        infinite.best, eqx.filter(bad, eqx.is_array), {"experiment": infinite.experiment.hash}
    )
    with jax.numpy_dtype_promotion("standard"):
        text = html.unescape(page(runs))
    assert f'<option value="0">{good.path.name}</option>' in text
    assert re.search(f"{image.path.name} is not shown: .*mnist", text)
    assert re.search(f"{broken.path.name} is not shown: .*damaged", text)
    assert f"{infinite.path.name} is not shown: its states are not finite" in text


def test_only_the_newest_are_shown(tmp_path):
    runs = [made(tmp_path, CopyFirstDiscrete(length=n), "cmru", state=1) for n in (3, 4, 5)]
    for age, run in enumerate(runs):
        os.utime(run.best, (age, age))
    counted = []
    with jax.numpy_dtype_promotion("standard"):
        count = lambda done, total: counted.append((done, total))  # noqa: E731
        seen, left = states.watched(tmp_path, count, most=2)
    assert [run["run"] for run in seen] == [runs[2].path.name, runs[1].path.name]
    assert left == ["Of 3 runs with weights, the 2 newest are shown."]
    assert counted == [(0, 2), (1, 2)]


def test_without_weights_the_page_says_how_to_get_some(tmp_path):
    text = page(tmp_path)
    assert "No run here has its weights" in text
    assert "inside-step" not in re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)


@pytest.mark.slow
@in_browser
def test_the_browser_reads_out_the_librarys_values(runs, watched, written, tmp_path):
    """Every run, its second example and last block, at three steps, as a person would choose."""
    driver = """<script>
      const set = (id, value, kind) => {
        field(id).value = value;
        field(id).dispatchEvent(new Event(kind));
      };
      const heard = data.states.flatMap((run, number) => {
        set("inside-run", number, "change");
        set("inside-example", 1, "change");
        set("inside-block", run.examples[1].blocks.length - 1, "change");
        return [0, 5, Number(field("inside-step").max)].map((at) => {
          set("inside-step", at, "input");
          const texts = (row) => [...row.cells].map((cell) => cell.textContent);
          return { run: run.run, at, rows: [...field("inside-values").rows].map(texts),
            says: field("inside-step").getAttribute("aria-valuetext"),
            lanes: document.querySelectorAll("#inside-lanes polyline").length,
            caption: field("inside-caption").textContent };
        });
      });
      document.documentElement.dataset.heard = JSON.stringify(heard);
    </script></body>"""
    driven = tmp_path / "driven.html"
    driven.write_text(written.read_text().replace("</body>", driver))
    document = opened(driven, tmp_path)
    heard = json.loads(html.unescape(re.search(r'data-heard="([^"]*)"', document)[1]))
    assert len(heard) == 3 * len(runs[1])
    for said in heard:
        run = watched[said["run"]]
        shown = run["examples"][1]
        step = states.kept_steps(shown["steps"], shown["every"])[said["at"]]
        block = shown["blocks"][-1]
        rows = {name: (value, updated) for name, value, updated in said["rows"]}
        assert said["caption"] == f"Values at step {step}"
        assert said["says"].startswith(f"step {step}: ")
        assert said["lanes"] == len(rows) == len(run["inputs"]) + len(block["states"])
        for name, values in zip(run["inputs"], shown["inputs"], strict=True):
            value, _, letter = rows[name][0].partition(" ")
            assert float(value) == values[said["at"]]
            if shown["letters"]:
                assert json.loads(letter) == shown["letters"][said["at"]]
        for unit, (values, marks) in enumerate(zip(block["states"], block["updates"], strict=True)):
            value, updated = rows[f"unit {unit}"]
            assert float(value) == values[said["at"]]
            assert updated == ("yes" if marks[said["at"]] == "1" else "no")
