"""Every reading of the paper's open points: what it computes, how it starts, what it is called."""

import dataclasses
import json
import re
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from persistor import (
    ARCHITECTURES,
    CMRU,
    PAPER,
    Architecture,
    Backbone,
    Dense,
    Experiment,
    Indexed,
    PersistorError,
    Pooling,
)

WIDTH, LENGTH, VALUES = 8, 9, 4
POINTS = [  # a value other than the paper's for every point
    {"norm": "first"},
    {"norm": "first", "gate": "before"},
    {"norm_epsilon": 1.0},
    {"encoding": 4},
    {"encoding": 0},
    {"base": 100.0},
    {"position_scale": 1e-4},
    {"places": 8.0},
    {"norm": "first", "loudness": 1.0},
    {"encoder_bias": False},
    {"empty": "zero"},
    {"encoder_norm": True},
    {"decoder_norm": True},
    {"linear": "uniform"},
    {"hidden": 8},
    {"decoder_hidden": "model"},
    {"mlp_gate": "silu"},
    {"readout_bias": 1.0},
    {"gate_rate": 0.1},
    {"gate_sleep": 0.1},
]
STARTS = [
    {"hold": 5.0},
    {"gain": 4.0},
    {"thresholds": "constant"},
    {"scales": "one"},
    {"longest": 100.0},
]
READINGS = {
    **ARCHITECTURES,
    **{" ".join(f"{k}={v}" for k, v in c.items()): PAPER.but(c) for c in POINTS},
}


def model_of(architecture, pooling=Pooling.LAST, *, moved=True):
    one, two, three = jax.random.split(jax.random.key(5), 3)
    cell = CMRU(WIDTH, 3, epsilon=0.5, key=one)
    model = Backbone(
        2, 3, (cell,), width=WIDTH, architecture=architecture, pooling=pooling, key=two
    )
    if not moved:
        return model
    arrays, rest = eqx.partition(model, eqx.is_array)
    leaves, tree = jax.tree.flatten(arrays)  # away from the special values at the start
    keys = jax.random.split(three, len(leaves))
    leaves = [x + 0.1 * jax.random.normal(k, x.shape) for x, k in zip(leaves, keys, strict=True)]
    return eqx.combine(jax.tree.unflatten(tree, leaves), rest)


def inputs():
    rows, ids = jax.random.split(jax.random.key(6))
    return Indexed(
        jax.random.normal(rows, (VALUES, 2)).at[0].set(0.0),
        jax.random.randint(ids, (3, LENGTH), 0, VALUES, jnp.int32),
    )


call = eqx.filter_jit(lambda model, x, memory=None: model(x, memory))


def close(a, b, tolerance=2e-4):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


def twin(model, x):
    """The same model in NumPy, written from the formulas, at every step of (b, t, i)."""
    a = model.architecture
    to = lambda array: np.asarray(array, np.float64)  # noqa: E731

    def linear(layer, x):
        return x @ to(layer.weight) + (0.0 if layer.bias is None else to(layer.bias))

    def norm(layer, x):
        centred = x - x.mean(-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + a.norm_epsilon)
        return centred / deviation * to(layer.scale) + to(layer.shift)

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    def mlp(layer, x):
        one, other = np.split(linear(layer.widen, x), 2, axis=-1)
        gate = sigmoid(other) * (other if a.mlp_gate == "silu" else 1.0)
        return linear(layer.narrow, one * gate)

    def residual(layer, x):
        x = linear(layer.linear, x)
        return x + mlp(layer.mlp, x)

    (block,) = model.blocks
    x = residual(model.encoder, x) - (
        residual(model.encoder, np.zeros((1, 2))) if a.empty == "zero" else 0.0
    )
    x = norm(model.encoder_norm, x) if a.encoder_norm else x
    width = WIDTH if a.encoding is None else a.encoding
    angles = np.arange(LENGTH)[:, None] * a.base ** (-np.arange(0, width, 2) / max(width, 1))
    positions = np.concatenate([np.sin(angles), np.cos(angles)], -1) @ to(block.position.positions)
    before = norm(block.norm, x)
    u = linear(block.position.values, before if a.norm == "first" else x) + positions
    u = u if a.norm == "first" else norm(block.norm, u)
    if a.loudness:
        variance = x.var(-1, keepdims=True)
        u = u * np.sqrt(variance / (variance + a.loudness))
    candidate, threshold = np.split(linear(block.cell.project, u), 2, axis=-1)
    h, states = np.zeros((len(x), 3)), []
    for t in range(LENGTH):
        z = np.abs(candidate[:, t]) >= np.abs(threshold[:, t])
        new = np.where(candidate[:, t] >= 0, 1, -1) * to(block.cell.scale) + 0.5 * h
        h = np.where(z, new, h)
        states.append(h)
    gate = sigmoid(linear(block.output_gate, before if a.gate == "before" else u))
    read = norm(block.readout_norm, linear(block.readout, np.stack(states, 1))) * gate
    y = to(block.skip) * x + read
    y = to(block.mlp_skip) * y + mlp(block.mlp, norm(block.mlp_norm, y))
    return residual(model.decoder, norm(model.decoder_norm, y) if a.decoder_norm else y)


def test_every_point_has_a_case():
    changed = {name for change in POINTS for name in change}
    assert changed == {field.name for field in dataclasses.fields(Architecture)} - {"starts"}
    assert len(ARCHITECTURES) >= 3
    assert ARCHITECTURES["paper"] == PAPER == Architecture()


def test_the_reference_page_lists_every_point_and_every_name():
    page = (Path(__file__).parents[1] / "docs" / "reference" / "architecture.md").read_text()
    listed = set(re.findall(r"^\| `([\w-]+)` \|", page, re.M))
    points = {field.name for field in dataclasses.fields(Architecture)} - {"starts"}
    assert listed == points | set(ARCHITECTURES)


@pytest.mark.parametrize("architecture", READINGS.values(), ids=READINGS)
def test_a_reading_computes_what_it_says(architecture):
    model, x = model_of(architecture, Pooling.NONE), inputs().dense()
    close(call(model, x)[0], twin(model, np.asarray(x, np.float64)))


@pytest.mark.parametrize("architecture", READINGS.values(), ids=READINGS)
def test_in_every_reading_indexed_equals_dense_and_chunks_the_whole(architecture):
    """Outputs, and gradients of every weight."""
    model, xs = model_of(architecture), inputs()

    @eqx.filter_jit
    @eqx.filter_value_and_grad(has_aux=True)
    def loss(model, xs):
        outputs, memory = model(xs)
        return jnp.square(outputs).mean(), (outputs, memory)

    (_, (indexed, _)), indexed_gradients = loss(model, xs)
    (_, (dense, memory)), dense_gradients = loss(model, Dense(xs.dense()))
    close(indexed, dense)
    jax.tree.map(lambda a, b: close(a, b, 2e-3), indexed_gradients, dense_gradients)
    _, half = call(model, xs.dense()[:, :4])
    chunked, after = call(model, xs.dense()[:, 4:], half)
    close(chunked, dense)
    jax.tree.map(close, after, memory)


def test_starts_of_the_maps_around_a_cell():
    plain = model_of(PAPER, moved=False)
    uniform = model_of(PAPER.but({"linear": "uniform"}), moved=False)
    for layer in (uniform.encoder.linear, uniform.blocks[0].output_gate, uniform.decoder.mlp.widen):
        bound = layer.weight.shape[0] ** -0.5
        assert float(jnp.abs(layer.weight).max()) <= bound
        assert 0 < float(jnp.abs(layer.bias).max()) <= bound
    small = model_of(PAPER.but({"position_scale": 1e-4}), moved=False)
    positions = plain.blocks[0].position.positions
    close(small.blocks[0].position.positions, 1e-4 * positions, 1e-7)
    biased = model_of(PAPER.but({"readout_bias": 2.0}), moved=False)
    assert not jnp.any(plain.blocks[0].readout.bias)
    assert float(jnp.abs(biased.blocks[0].readout.bias).max()) > 0.5
    silent = model_of(PAPER.but({"encoder_bias": False}), moved=False)
    assert not jnp.any(silent.encode(Dense(jnp.zeros((1, 1, 2)))).dense())


@pytest.mark.parametrize("cell", ["bmru", "cmru", "alpha-cmru"])
def test_placed_units_listen_at_places_of_their_own_and_never_to_silence(cell):
    changes = {"norm": "first", "empty": "zero", "norm_epsilon": 1.0, "places": 8.0}
    start = {"hold": 0.5, "gain": 4.0, "thresholds": "constant"}
    experiment = Experiment.of("smnist", cell=cell, state_size=5, changes={**changes, **start})
    model = experiment.build()
    block, length = model.blocks[0], 400
    silence = Dense(jnp.zeros((1, length, 1)))
    noise = Dense(jax.random.uniform(jax.random.key(0), (1, length, 1), minval=0.2))
    for xs in (silence, noise):
        us = block.cell_inputs(model.encode(xs), model.encode_positions(length))
        candidate, threshold = block.cell.parts(us.linear(block.cell.project).dense())[:2]
        updates = np.abs(candidate) > np.abs(threshold)
        assert updates.any() == (xs is noise)
    assert np.ptp(threshold[0, :, 0]) < 1e-5  # the first unit listens alike at all places
    hears = np.abs(threshold[0]) < 2.0  # a candidate of 2, at some places and not at others
    assert (hears[:, 1:].mean(0) > 0).all()
    assert (hears[:, 2:].mean(0) < 0.9).all()


def test_places_change_nothing_where_there_is_no_threshold_or_no_place():
    for cell, encoding in (("lru", None), ("mingru", None), ("cmru", 0)):
        same = {"cell": cell, "encoding": encoding, "architecture": "paper"}
        placed = Experiment.of("parity", **same, changes={"places": 8.0})
        plain = Experiment.of("parity", **same)
        leaves = (jax.tree.leaves(e.build()) for e in (placed, plain))
        assert all(np.array_equal(a, b) for a, b in zip(*leaves, strict=True))


@pytest.mark.parametrize("change", [*POINTS, *STARTS], ids=str)
def test_a_reading_is_an_ordinary_experiment(change):
    """Another description, hash and name; from text as from values; there and back."""
    cell = {"scales": "alpha-cmru", "longest": "mingru"}.get(next(iter(change)), "cmru")
    same = {"cell": cell, "architecture": "paper"}
    usual = Experiment.of("smnist", **same)
    changed = Experiment.of("smnist", **same, changes=change)
    typed = Experiment.of("smnist", **same, changes={k: str(v) for k, v in change.items()})
    assert changed == typed
    assert changed.hash != usual.hash
    assert Experiment.from_json(json.loads(json.dumps(changed.to_json()))) == changed
    again = Experiment.of("smnist", cell=cell, architecture=changed.model.architecture)
    assert (again.name, again) == (changed.name, changed)
    back = {k: v for k, v in PAPER.to_json().items() if k in change}
    assert back == {}


def test_a_reading_shows_in_the_name_of_its_run_by_what_it_changes():
    """So that naming a reading later renames no run."""
    names = {name: Experiment.of("smnist", architecture=name).name for name in ARCHITECTURES}
    assert len(set(names.values())) == len(ARCHITECTURES)
    assert names["robust"] == Experiment.of("smnist").name
    assert names["robust"].startswith("smnist-cmru-eps1-robust-d32-r1-seed0-")
    assert names["paper"].startswith("smnist-cmru-eps1-d32-r1-seed0-")

    def name(**options):
        return Experiment.of("smnist", architecture="paper", **options).name

    start = "smnist-cmru-eps1-norm-first-gate-before-d32-r1-seed0-"
    assert names["norm-first"].startswith(start)
    points = {"norm": "first", "gate": "before"}
    assert name(changes=points) == names["norm-first"]
    assert "-eps1-base-100-d32-" in name(changes={"base": 100})
    assert "-eps1-4changes-d32-" in Experiment.of("smnist", architecture="quiet").name
    assert "-eps1-hold2-norm-first-" in name(changes=points, hold=2)
    assert ARCHITECTURES["norm-first"].name == "norm-first"
    assert PAPER.but({"base": 100, "hold": 3}).name == "base=100.0 hold=3.0"


def test_one_meaning_has_one_value():
    assert Experiment.of("smnist", encoding=256) == Experiment.of("smnist")
    assert Experiment.of("smnist", hold=0.5) == Experiment.of("smnist")
    assert Experiment.of("smnist", hold=3) == Experiment.of("smnist", changes={"hold": "3"})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"nrom": "first"}, "did you mean norm"),
        ({"norm": "last"}, "norm is last; it must be one of after, first"),
        ({"gate": "before"}, "norm=first"),
        ({"loudness": 1.0}, "norm=first"),
        ({"base": "many"}, "base is many; it must be a number"),
        ({"base": 0.5}, "at least 1"),
        ({"encoding": 3}, "even"),
        ({"encoding": -2}, "at least 0"),
        ({"hidden": 3}, "even"),
        ({"encoder_bias": "perhaps"}, "true or false"),
        ({"readout_bias": float("nan")}, "finite"),
        ({"hold": -1}, "at least 0"),
        ({"thresholds": "wild"}, "one of inputs, constant"),
    ],
)
def test_readings_that_make_no_sense_are_refused(change, says):
    with pytest.raises(PersistorError, match=says) as caught:
        PAPER.but(change)
    assert "\n" not in str(caught.value)
    with pytest.raises(PersistorError, match="did you mean norm-first"):
        Experiment.of("smnist", architecture="norm-frist")
