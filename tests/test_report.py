"""The report page: whole, without network, and its playground computes what the library does.

And the demo, on runs that are hardly trained; the whole of it is `make demo`.
"""

import dataclasses
import html
import json
import re
import shutil
import subprocess
import webbrowser
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from many_runs import archive_of
from on_this_machine import in_browser, opened

from persistor import BMRU, CMRU, LRU, MinGRU
from persistor.cli import parse
from persistor.cli.shared import open_in_browser
from persistor.experiment import TrainingSpec
from persistor.paper.claims import CLAIMS, grouped
from persistor.paper.tables import tables
from persistor.report import demo
from persistor.report.page import page
from persistor.reproduction.comparison import compare_both, overall
from persistor.reproduction.outcomes import find_outcomes
from persistor.reproduction.standing import KINDS, in_words, standing

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
def outcomes():
    return find_outcomes(RESULTS)[0]


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
    assert {"playground", "tables", "learning", "map", "parity", "parity-0"} <= set(reader.ids)
    assert not re.search(r"""(?:src|href)=["']?(?!["']?(?:data:|#))|@import|url\(|fetch\(""", text)
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert [t["table"] for t in data["tables"]][:2] == ["parity", "copy-first-discrete"]
    for curve in data["curves"]:
        assert len(curve["steps"]) == len(curve["values"]) <= 101


def test_a_page_of_no_runs_says_so(tmp_path):
    text = page(tmp_path)
    assert "0 of 16 entries at full budget" in text
    assert "No run here has its weights" in text


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


def evaluated(script):
    """What an expression over the playground's script is in JavaScript."""
    code = (files("persistor.report") / "playground.js").read_text()
    code += f"console.log(JSON.stringify({script}))"
    done = subprocess.run(["node", "-e", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


in_node = pytest.mark.skipif(
    shutil.which("node") is None, reason="node is not installed: apt-get install nodejs"
)


@in_node
@pytest.mark.parametrize("name", ["BMRU", "CMRU", "LRU", "minGRU"])
def test_the_playground_computes_what_the_library_does(name):
    states = evaluated(f"persistor.unroll({json.dumps([name, INPUTS.tolist(), SETTINGS])[1:-1]})")
    np.testing.assert_allclose(states, library(name), rtol=1e-5, atol=1e-6)


@in_node
def test_an_address_says_all_of_the_playground_and_nothing_wrong_gets_in():
    """Presets and moves by hand return from their address; what is foreign is as at the start."""
    returned = evaluated("""(() => {
      const { toAddress, fromAddress, PRESETS } = persistor, start = fromAddress("");
      const hand = { ...start, preset: "", inputs: [0, 0, 1.5, -0.35, -0.35], epsilon: -0.5 };
      const preset = { ...start, preset: "noise", inputs: PRESETS.noise.inputs, decay: 0.7 };
      return { start, hand, preset, heard: [hand, preset].map((v) => fromAddress(toAddress(v))),
        addresses: [toAddress(start), toAddress(hand)],
        foreign: ["#tables", "#playground&input=zzz&epsilon=9", "#playground&input=1x9e9&scale=",
          "#playground&input=toString"].map(fromAddress),
        far: fromAddress("#playground&input=50x999_-50x999") };
    })()""")
    assert returned["heard"] == [returned["hand"], returned["preset"]]
    assert returned["addresses"] == [
        "#playground&input=events",
        "#playground&input=0x2_1.5_-0.35x2&epsilon=-0.5",
    ]
    assert all(values == returned["start"] for values in returned["foreign"])
    assert set(returned["far"]["inputs"]) == {-2}
    assert len(returned["far"]["inputs"]) == 400


@in_node
def test_presets_show_what_they_are_for():
    """Noise stays below the threshold but for three events; a silence is kept, or forgotten."""
    shown = evaluated("""Object.fromEntries(
      Object.entries(persistor.PRESETS).map(([name, { inputs }]) => [name, { inputs,
        ...Object.fromEntries(Object.keys(persistor.CELLS).map((cell) =>
          [cell, persistor.unroll(cell, inputs, persistor.fromAddress(""))])) }]))""")
    assert len(set(shown["noise"]["inputs"])) > 30
    assert shown["noise"]["BMRU"][10:30] == [1] * 20
    assert shown["silence"]["BMRU"][-1] == 1
    assert abs(shown["silence"]["LRU"][-1]) < 1e-6 > abs(shown["silence"]["minGRU"][-1])
    # the loop: two states at one input
    at_zero = {
        h for x, h in zip(shown["loop"]["inputs"], shown["loop"]["BMRU"], strict=True) if x == 0
    }
    assert {-1, 1} <= at_zero


def test_every_entry_of_the_paper_is_on_the_map(written, outcomes):
    """Each once, with a row of numbers to open; and the bars count what `overall` counts."""
    text = written.read_text()
    entries = sum(len(table.rows) for table in tables().values())
    cells = re.findall(r'data-row="([^"]+)" aria-label="([^"]+)"', text)
    assert len(cells) == len({row for row, _ in cells}) == entries
    assert all(f'<tr id="{row}"' in text for row, _ in cells)
    said = dict(cells)
    assert re.search(
        r"parity, cmru eps -1: .*our reading 100.00 .*full budget\): inside", said["parity-0"]
    )
    assert re.search(r"robust 100.00 .*4.3% of the steps\): inside", said["parity-0"])
    compared = [compare_both(table, outcomes) for table in tables().values()]
    counts = standing(compared)
    assert {c.total() for c in counts.values()} == {382}
    for verdict, count in counts["either"].items():
        assert f"{count} {KINDS[verdict]}" in text
    sentences = " ".join(overall(compared))
    assert (
        f"one or the other, {in_words(counts['either']).partition(' ')[0]} are measured"
        in sentences
    )


def test_a_reduced_run_is_never_filled(outcomes):
    """Runs at a share of the budget count as reduced, whatever they reached."""
    reduced = [outcome for outcome in outcomes if outcome.experiment.reduced]
    counts = standing(compare_both(table, reduced) for table in tables().values())
    assert set(counts["either"]) == {"reduced", "open"}


def test_claims_are_those_of_the_docs_and_share_no_table():
    page = (RESULTS.parent / "docs" / "explanation" / "claims.md").read_text()
    names = [name for group in grouped(list(tables())).values() for name in group]
    assert sorted(names) == sorted(tables())
    for claim in CLAIMS:
        assert f"| {claim.text} |" in page


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


def small(planned):
    """The same runs, hardly trained."""
    experiment = dataclasses.replace(
        planned.experiment,
        training=TrainingSpec(steps=2, batch=4, valid_batches=1),
        model=dataclasses.replace(planned.experiment.model, width=8, encoding=8),
    )
    return dataclasses.replace(planned, experiment=experiment)


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """The demo of a model of parity and one of copy-first, and its page."""
    folder = tmp_path_factory.mktemp("demo")
    planned = [small(demo.experiments()[i]) for i in (0, 4)]
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        assert demo.train_all(folder / "runs", planned) == {}
        rows = demo.finished(folder / "runs", planned)
        demo.demo_page(rows, folder / demo.PAGE)
    return rows, folder / demo.PAGE


@pytest.mark.slow
def test_the_demo_trains_and_shows_what_it_trained(shown):
    rows, page = shown
    text = page.read_text()
    assert len(rows) == 2
    assert str(rows[0]).endswith("100.00% [100.00%; 100.00%]  2 of 35,000 steps")
    assert all(f"{row.ours:.2%}</td>" in text for row in rows)
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    for line, row in zip(data["lengths"], rows, strict=False):
        counts = np.histogram(lengths_of(row.run), demo.LENGTH_BINS)[0]
        np.testing.assert_allclose(np.average(line["values"], weights=counts), row.ours, atol=1e-6)
    assert [len(run["examples"][0]["inputs"][0]) for run in data["states"]] == [60]
    (ramp,) = data["ramps"]
    assert len(ramp["states"]) == len(ramp["updates"]) == 4
    for states, marks in zip(ramp["states"], ramp["updates"], strict=True):
        moved = np.flatnonzero(np.diff(states, prepend=0))
        assert {marks[step] for step in moved} <= {"1"}
    for command, _ in demo.next_commands(rows):
        assert command in html.unescape(text)
        parse(command.split()[1:])
    heard = []  # once all is trained, nothing is trained again
    planned = [row.planned for row in rows]
    assert demo.train_all(page.parent / "runs", planned, heard.append) == {}
    assert heard == []


def lengths_of(run):
    split = run.experiment.task.split("test")
    return np.asarray(split.at(jnp.arange(split.size, dtype=jnp.int32)).lengths)


@pytest.mark.slow
@in_browser
def test_the_demos_page_opens_in_a_browser_without_errors(shown, tmp_path):
    document = opened(shown[1], tmp_path)
    assert 'data-ready="BMRU 1.000, CMRU 2.000' in document
    assert document.count('aria-label="Save ') >= 6


@pytest.mark.parametrize(
    ("display", "browser", "opens"),
    [
        ({"DISPLAY": ":0"}, webbrowser.BackgroundBrowser("x"), True),
        ({"DISPLAY": ":0"}, webbrowser.GenericBrowser("lynx"), False),
        ({"DISPLAY": ":0", "CI": "true"}, webbrowser.BackgroundBrowser("x"), False),
        ({}, webbrowser.BackgroundBrowser("x"), False),
    ],
)
def test_a_page_opens_only_where_somebody_sees_it(display, browser, opens, monkeypatch, tmp_path):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "CI"):
        monkeypatch.delenv(name, raising=False)
    for name, value in display.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr(webbrowser, "get", lambda: browser)
    asked = []
    browser.open = lambda url: asked.append(url) is None
    assert open_in_browser(tmp_path / "page.html") == opens
    assert asked == [(tmp_path / "page.html").as_uri()] * opens


@pytest.mark.slow
@in_browser
def test_a_page_of_500_runs_opens_at_once(tmp_path):
    """Its load takes well below a second on two idle cores; the limit leaves room for busy ones."""
    archive_of(tmp_path / "runs", 500)
    text = page(tmp_path / "runs")
    timed = """<script>addEventListener("load", () => {
      document.documentElement.dataset.took = performance.now();
    });</script></body>"""
    path = tmp_path / "many.html"
    path.write_text(text.replace("</body>", timed))
    document = opened(path, tmp_path / "browser")
    assert "500 of 500 runs" in document
    assert float(re.search(r'data-took="([^"]+)"', document)[1]) < 2000
