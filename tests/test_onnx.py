"""Exported graphs run in ONNX Runtime and compute what the model computes, over the registries."""

import json
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
import test_architecture
from torch_twins import draw, moved

import persistor
from persistor import CELLS, Backbone, PersistorError, Pooling
from persistor.cli import main
from persistor.data.preparation import Preparation
from persistor.export.onnx import SEQUENCE, STEP, graphs, prove
from persistor.export.onnx.cells import ADVANCE
from persistor.export.onnx.proof import carried, session

NAMES = sorted(name for name, kind in CELLS.items() if kind in ADVANCE)
HYBRID = ("mingru", "cmru", "lru")
CASES = [((name,), Pooling.LAST) for name in NAMES] + [(HYBRID, pooling) for pooling in Pooling]


def network(names=("cmru",), pooling=Pooling.LAST, **settings):
    *keys, last = jax.random.split(jax.random.key(5), len(names) + 1)
    made = tuple(
        CELLS[name](8, 3, key=k, **({"epsilon": 0.5} if "cmru" in name else {}))
        for name, k in zip(names, keys, strict=True)
    )
    return moved(Backbone(2, 4, made, width=8, pooling=pooling, key=last, **settings))


def test_every_cell_of_the_package_can_be_exported():
    assert len(NAMES) == len(ADVANCE) >= 7


@pytest.mark.parametrize(("names", "pooling"), CASES)
def test_graphs_compute_what_the_model_computes(names, pooling):
    """From states that are not zero; the states of cells that are levels are the same bits."""
    model = network(names, pooling)
    for agreement in prove(model, graphs(model)).values():
        assert agreement.outputs < 1e-5
        assert agreement.states < (1e-5 if set(names) - {"bmru", "ladder"} else 1e-30)


@pytest.mark.parametrize("reading", list(test_architecture.READINGS))
def test_every_point_of_an_architecture_is_honoured(reading):
    model = test_architecture.model_of(test_architecture.READINGS[reading])
    for agreement in prove(model, graphs(model)).values():
        assert max(agreement.outputs, agreement.states) < 1e-5


@pytest.mark.parametrize("pooling", Pooling)
def test_streamed_and_chunked_equal_whole(pooling):
    model = network(HYBRID, pooling)
    runs = {name: session(graph.SerializeToString()) for name, graph in graphs(model).items()}
    x = draw(3, 2, 9, 2)
    start = carried(model, model.initial_state((2,)))
    names = list(start)
    whole, *end = runs[SEQUENCE].run(None, {"x": x, **start})
    state = start
    for t in range(9):
        y, *values = runs[STEP].run(None, {"x": x[:, t], **state})
        state = dict(zip(names, values, strict=True))
    answer = whole[:, -1] if pooling is Pooling.NONE else whole
    np.testing.assert_allclose(y, answer, atol=2e-5)
    for value, wanted in zip(values, end, strict=True):
        np.testing.assert_allclose(value, wanted, atol=2e-5)
    _, *values = runs[SEQUENCE].run(None, {"x": x[:, :4], **start})
    chunked, *_ = runs[SEQUENCE].run(None, {"x": x[:, 4:], **dict(zip(names, values, strict=True))})
    answer = whole[:, 4:] if pooling is Pooling.NONE else whole
    np.testing.assert_allclose(chunked, answer, atol=2e-5)
    expected, _ = model(jnp.asarray(x))
    np.testing.assert_allclose(whole, np.asarray(expected), atol=2e-5)


def nodes(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes(attribute.g)


def test_operators_are_standard_and_the_sequence_is_a_scan():
    model = network(tuple(NAMES), Pooling.MEAN)
    made = graphs(model)
    for name, graph in made.items():
        assert {imported.domain for imported in graph.opset_import} == {""}
        assert not graph.functions
        used = [node.op_type for node in nodes(graph.graph)]
        assert used.count("Scan") == (len(NAMES) if name == SEQUENCE else 0)
        assert {node.domain for node in nodes(graph.graph)} == {""}


def test_a_tie_updates_as_in_the_model():
    """Whole numbers add up exactly: every candidate is its threshold, and H(0) = 1."""
    cell = CELLS["cmru"](8, 3, epsilon=0.5, key=jax.random.key(0))
    weight = jnp.tile(jnp.arange(8.0)[:, None] - 3, (1, 6))
    cell = eqx.tree_at(lambda c: c.project.weight, cell, weight)
    model = Backbone(2, 4, (cell,), width=8, key=jax.random.key(1))
    states = {
        name: session(graph.SerializeToString()).run(
            None,
            {
                "x": draw(1, 2, 2) if name == STEP else draw(1, 2, 1, 2),
                **carried(model, model.initial_state((2,))),
            },
        )[1]
        for name, graph in graphs(model).items()
    }
    for found in states.values():
        assert (np.abs(found) == 1).all()  # zeros if no unit had updated


def test_a_graph_says_what_it_is():
    preparation = Preparation("arrays", inputs=2, classes=("a", "b", "c", "d"))
    for graph in graphs(network(preparation=preparation)).values():
        (entry,) = graph.metadata_props
        said = json.loads(entry.value)
        assert said["preparation"]["classes"] == ["a", "b", "c", "d"]
        assert said["model"]["cells"][0]["cell"] == "cmru"
        onnx.checker.check_model(graph, full_check=True)


class Own(CELLS["mingru"]):
    """A cell that nobody registered."""


def test_what_cannot_be_exported_is_named():
    model = network(("mingru",))
    own = eqx.tree_at(lambda m: m.blocks[0].cell, model, Own(8, 3, key=jax.random.key(0)))
    with pytest.raises(PersistorError, match="Own cannot be exported to ONNX yet; these can: "):
        graphs(own)
    half = jax.tree.map(lambda a: a.astype("bfloat16") if eqx.is_array(a) else a, model)
    with pytest.raises(PersistorError, match="is bfloat16; ONNX export takes float32"):
        graphs(half)


@pytest.fixture
def saved(tmp_path):
    persistor.save(network(), tmp_path / "m.safetensors")
    return tmp_path / "m.safetensors"


def export(*arguments):
    with pytest.raises(SystemExit) as stop:
        main(["export", "onnx", *map(str, arguments)])
    return stop.value.code


def test_the_command_writes_a_folder_and_may_write_it_again(saved, tmp_path, capsys):
    folder = tmp_path / "out"
    assert export(saved, "--folder", folder, "--json") == 0
    assert json.loads(capsys.readouterr().out)["apart"]["step"]["outputs"] < 1e-5
    assert sorted(p.name for p in folder.iterdir()) == [
        "persistor.json",
        "sequence.onnx",
        "step.onnx",
    ]
    first = (folder / "step.onnx").read_bytes()
    assert export(saved, "--folder", folder) == 0
    assert "step.onnx: apart from the model by" in capsys.readouterr().out
    assert (folder / "step.onnx").read_bytes() == first
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.safetensors", "out"]


def put(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("before", "message"),
    [
        (lambda out: put(out / "mine.txt", "x"), "was not made by `persistor export`"),
        (lambda out: put(out / "persistor.json", "[]"), "was not made by"),
        (lambda out: put(out / "persistor.json", "x"), "not JSON"),
        (lambda out: put(out, "x"), "is not a folder"),
        (lambda out: out.symlink_to(out.parent), "is not a folder"),
    ],
)
def test_a_folder_of_somebody_else_is_left_alone(before, message, saved, tmp_path, capsys):
    before(tmp_path / "out")
    found = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert export(saved, "--folder", tmp_path / "out") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda out: put(out / "notes.txt", "x"), "notes.txt was added"),
        (lambda out: put(out / "step.onnx", "x"), "step.onnx was changed"),
    ],
)
def test_a_folder_that_was_changed_is_left_alone(change, message, saved, tmp_path, capsys):
    assert export(saved, "--folder", tmp_path / "out") == 0
    change(tmp_path / "out")
    capsys.readouterr()
    assert export(saved, "--folder", tmp_path / "out") == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_without_a_package_its_command_is_named(package, saved, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, package, None)
    assert export(saved, "--folder", tmp_path / "out") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "is not installed: pip install 'persistor[onnx]'" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing", "--folder", "out"], "neither a run nor a model file"),
        (["cell.safetensors", "--folder", "out"], "holds a CMRU, not a Backbone"),
        (["m.safetensors", "--folder", "no/such/out"], "the folder does not exist"),
    ],
)
def test_mistakes_are_one_line(arguments, message, saved, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    persistor.save(CELLS["cmru"](3, 2, key=jax.random.key(0)), "cell.safetensors")
    assert export(*arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not (tmp_path / "out").exists()
