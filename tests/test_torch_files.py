"""Model files go from JAX to PyTorch and back, and a state_dict is one of PyTorch's."""

import json

import equinox as eqx
import jax
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file
from safetensors.numpy import save as serialise
from torch_twins import draw, in_torch, moved

import persistor
import persistor.torch as twin
from persistor import CELLS, PAPER, Architecture, Backbone, PersistorError, Pooling
from persistor.data.preparation import Preparation

NAMES = sorted(twin.CELLS)
EPSILONS = [0.1, (0.1, -0.3, 1.0)]


def cells():
    for name in NAMES:
        yield CELLS[name](5, 3, key=jax.random.key(3))
        if "cmru" in name:
            for epsilon in EPSILONS:
                for learn in (False, True):
                    yield CELLS[name](
                        5, 3, epsilon=epsilon, learn_epsilon=learn, key=jax.random.key(3)
                    )
    yield CELLS["ladder"](5, 3, levels=7, mismatch=0.1, noise=0.2, key=jax.random.key(3))


def network(**settings):
    *keys, last = jax.random.split(jax.random.key(5), len(NAMES) + 1)
    made = tuple(CELLS[name](8, 3, key=k) for name, k in zip(NAMES, keys, strict=True))
    return moved(Backbone(2, 4, made, width=8, key=last, **settings))


@pytest.mark.parametrize("cell", list(cells()), ids=lambda cell: type(cell).__name__)
def test_a_cell_comes_back_from_pytorch_with_the_same_bits(cell, tmp_path):
    other = in_torch(moved(cell), tmp_path)
    twin.save(other, tmp_path / "torch.safetensors")
    back = persistor.load(tmp_path / "torch.safetensors", type(cell))
    assert eqx.tree_equal(back, moved(cell))
    again = twin.load(tmp_path / "torch.safetensors", type(other))
    assert sorted(again.state_dict()) == sorted(other.state_dict())
    learned = isinstance(getattr(cell, "epsilon", 0.0), jax.Array)
    assert ("epsilon" in dict(again.named_parameters())) == learned


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_a_network_comes_back_from_pytorch_with_the_same_bits(dtype, tmp_path):
    with jax.enable_x64(dtype == "float64"):
        preparation = Preparation("arrays", inputs=2, classes=("a", "b", "c", "d"))
        model = network(pooling=Pooling.MEAN, dropout=0.25, preparation=preparation)
        model = jax.tree.map(lambda a: a.astype(dtype) if eqx.is_array(a) else a, model)
        other = in_torch(model, tmp_path)
        assert other.dtype == getattr(torch, dtype)
        twin.save(other, tmp_path / "torch.safetensors")
        back = persistor.load(tmp_path / "torch.safetensors")
        assert back.preparation == preparation
        assert eqx.tree_equal(back, model)


def test_a_network_of_pytorch_opens_in_jax(tmp_path):
    model = twin.Backbone(
        2, 4, [twin.CMRU(8, 3, epsilon=0.3), twin.LRU(8, 5)], width=8, pooling="none", dropout=0.1
    ).eval()
    twin.save(model, tmp_path / "m.safetensors")
    ours = persistor.load(tmp_path / "m.safetensors")
    x = draw(1, 2, 9, 2)
    np.testing.assert_allclose(
        np.asarray(ours(x)[0]), model(torch.from_numpy(x))[0].detach(), atol=5e-5, rtol=5e-5
    )
    assert ours.blocks[0].cell.epsilon == 0.3


def test_a_state_dict_has_everything(tmp_path):
    one, two = (twin.Backbone(2, 4, [twin.CMRU(8, 3, epsilon=e)], width=8) for e in (0.3, 0.7))
    torch.save(one.state_dict(), tmp_path / "state.pt")
    two.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    x = torch.from_numpy(draw(1, 2, 9, 2))
    assert torch.equal(one(x)[0], two(x)[0])
    assert float(two.state_dict()["blocks.0.cell.epsilon"]) == pytest.approx(0.3)


@pytest.mark.slow
def test_the_folder_of_a_run_opens(tmp_path):
    experiment = persistor.Experiment.of("parity", cell="cmru", epsilon=1.0, steps=64, tiny=True)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        persistor.train(experiment, runs=tmp_path)
    ours = persistor.load(tmp_path / experiment.name)
    model = twin.load(tmp_path / experiment.name)
    x = draw(1, 2, 9, ours.encoder.linear.weight.shape[0])
    np.testing.assert_allclose(
        np.asarray(ours(x)[0]), model(torch.from_numpy(x))[0].detach(), atol=5e-5, rtol=5e-5
    )


def changed(path, change):
    """A file with something in its header changed."""
    arrays = load_file(path)
    with persistor.model.file.opened(path) as file:
        metadata = persistor.model.file.read_metadata(path, file)
    change(metadata, arrays)
    path.write_bytes(serialise(arrays, {"persistor": json.dumps(metadata)}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m, a: m.pop("model"), "no description"),
        (lambda m, a: m["model"].pop("width"), "damaged"),
        (lambda m, a: m["model"].update(width=10**9), "smaller"),
        (lambda m, a: m["model"].update(architecture={"norm": "x"}), "norm is x"),
        (lambda m, a: m["model"].update(architecture={"colour": 1}), "unknown point"),
        (lambda m, a: m["model"].update(pooling="x"), "unknown pooling"),
        (lambda m, a: m["model"]["cells"][0].update(cell="x"), "unknown cell"),
        (lambda m, a: m["model"]["cells"][0].update(colour="x"), "damaged"),
        (lambda m, a: m["constants"].update({".blocks[0].cell.epsilon": "x"}), "not a number"),
        (lambda m, a: m["constants"].update({".blocks[0].cell.epsilon": 3.0}), "epsilon is 3"),
        (lambda m, a: m["constants"].pop(".blocks[0].cell.epsilon"), "different model"),
        (lambda m, a: a.pop(".blocks[0].skip"), "different model"),
        (lambda m, a: a.update(extra=np.zeros(2, np.float32)), "different model"),
        (lambda m, a: a.update({".blocks[0].skip": np.zeros(2, np.float32)}), "has shape"),
        (lambda m, a: a.update({".blocks[0].skip": np.zeros(8, np.int32)}), "not floating"),
    ],
)
def test_a_damaged_file_is_one_line(change, message, tmp_path):
    path = tmp_path / "m.safetensors"
    twin.save(twin.Backbone(2, 4, [twin.CMRU(8, 3)], width=8), path)
    changed(path, change)
    with pytest.raises(PersistorError, match=message) as error:
        twin.load(path)
    assert "\n" not in str(error.value)


@settings(max_examples=30)
@given(st.data())
def test_any_damage_of_a_file_is_one_line_or_harmless(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("damaged") / "m.safetensors"
    twin.save(twin.CMRU(4, 2), path)
    content = bytearray(path.read_bytes())
    for _ in range(3):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(1, len(content)))])
    said = ""
    try:
        twin.load(path, twin.Cell)
    except PersistorError as error:
        said = str(error)
    assert "\n" not in said


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(PersistorError, match="missing"):
        twin.load(tmp_path / "x")
    with pytest.raises(PersistorError, match="missing"):
        twin.load(tmp_path)
    twin.save(twin.CMRU(4, 2), tmp_path / "x")
    with pytest.raises(PersistorError, match="holds a CMRU, not a Backbone"):
        twin.load(tmp_path / "x")


@pytest.mark.parametrize(
    "architecture",
    [
        PAPER,
        Architecture(position_scale=0.01),
        Architecture(places=8.0),
        Architecture(linear="uniform"),
        Architecture(readout_bias=1.0),
        Architecture(encoder_bias=False),
    ],
    ids=lambda architecture: architecture.name,
)
def test_a_network_starts_as_in_jax(architecture, tmp_path):
    """Every parameter has the mean and the deviation that it has there."""
    width = 96
    cell = CELLS["cmru"](width, 64, hold=0.5, gain=2.0, key=jax.random.key(1))
    ours = Backbone(48, 32, (cell,), width=width, architecture=architecture, key=jax.random.key(2))
    expected = in_torch(ours, tmp_path)
    torch.manual_seed(0)
    found = twin.Backbone(
        48, 32, [twin.CMRU(width, 64, hold=0.5, gain=2.0)], width=width, architecture=architecture
    )
    for (name, a), (other, b) in zip(
        expected.named_parameters(), found.named_parameters(), strict=True
    ):
        a, b = a.detach().numpy(), b.detach().numpy()
        assert (name, a.shape) == (other, b.shape)
        allowed = 6 * max(a.std(), 1e-9) / a.size**0.5
        assert abs(a.mean() - b.mean()) < allowed, name
        assert abs(a.std() - b.std()) < max(allowed, 1e-6), name
        assert abs(np.abs(a).max() - np.abs(b).max()) < 0.5 * np.abs(a).max() + 1e-9, name


@pytest.mark.parametrize("name", NAMES)
def test_a_cell_starts_as_in_jax(name, tmp_path):
    options = {"mingru": {"longest": 1000.0}, "alpha-cmru": {"scales": "one"}}.get(name, {})
    if name in ("bmru", "cmru", "alpha-cmru"):
        options["thresholds"] = "constant"
    expected = in_torch(CELLS[name](64, 128, key=jax.random.key(1), **options), tmp_path)
    torch.manual_seed(0)
    found = twin.CELLS[name](64, 128, **options)
    for (name, a), (_, b) in zip(
        expected.named_parameters(), found.named_parameters(), strict=True
    ):
        a, b = a.detach().numpy(), b.detach().numpy()
        allowed = 8 * max(a.std(), 1e-9) / a.size**0.5
        assert abs(a.mean() - b.mean()) < allowed, name
        assert abs(a.std() - b.std()) < max(allowed, 1e-6), name
