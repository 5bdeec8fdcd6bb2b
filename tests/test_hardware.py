"""From a trained cell to currents, rules, behaviour, and transistors in ngspice."""

import dataclasses
import importlib.util
import json
import os
import shutil

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from persistor._tools.errors import PersistorError
from persistor.cells import CELLS, PositiveCMRU
from persistor.cli import main
from persistor.hardware import behaviour, chips, measure, spice
from persistor.hardware.circuit import Bistable, LadderCircuit, Size, Sizes, Trim
from persistor.hardware.deployment import Deployment
from persistor.hardware.equivalence import verify
from persistor.hardware.mapping import Layer, Unit, to_cell, to_currents
from persistor.hardware.mirrors import Mirrors, Weights, mean_power
from persistor.hardware.netlist import BLOCKS, RAMP, Netlist, layer_bench, staircase
from persistor.hardware.rules import RULES, Design, check
from persistor.hardware.variation import SPREAD, Spread, fit, monte_carlo
from persistor.model import Architecture, Backbone, Pooling
from persistor.nn.sequence import Dense
from persistor.tasks import Batch, CopyFirstDiscrete

NOTHING = Spread(0.0, 0.0, 0.0, 0.0, 0.0, seeds=1)


def missing():
    """What SPICE tests lack here; where PERSISTOR_SPICE is set they must run, and fail instead."""
    if os.environ.get("PERSISTOR_SPICE"):
        return None
    try:
        spice.find_ngspice()
        spice.find_models()
    except PersistorError as error:
        return str(error)
    return None


in_spice = pytest.mark.skipif(missing() is not None, reason=missing() or "")


@pytest.fixture
def bench():
    return measure.Bench()


def make_cell(seed=3, width=6, state=4):
    one, two, three = jax.random.split(jax.random.key(seed), 3)
    cell = PositiveCMRU(width, state, epsilon=0.0, key=one)
    signs = jnp.asarray([1.0, -1.0] * state)[:state]
    return eqx.tree_at(
        lambda c: (c.project.bias, c.threshold, c.scale),
        cell,
        (
            jax.random.normal(two, (state,)),
            signs * jax.random.uniform(three, (state,), minval=0.3),  # a sign means nothing
            1 + 0.2 * jnp.arange(state, dtype=jnp.float32),
        ),
    )


def make_model(state=3, seed=1, **changes):
    cell = PositiveCMRU(8, state, epsilon=0.0, key=jax.random.key(seed))
    options = {
        "width": 8,
        "architecture": Architecture(encoding=0),
        "key": jax.random.key(seed + 1),
        **changes,
    }
    return Backbone(15, 15, (cell,), **options)


def one_unit(weights, offset=0.25):
    return Layer(Bistable(), (Unit(1.0, tuple(weights), offset, 1.0),))


def a_batch(examples=4, length=6):
    split = CopyFirstDiscrete(length).split("test")
    return split.at(jnp.arange(examples, dtype=jnp.int32))


def call(*arguments):
    with pytest.raises(SystemExit) as exit_:
        main([str(a) for a in arguments])
    return exit_.value.code or 0


@pytest.fixture
def as_users_have_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


# Currents and back.


def test_parameters_survive_the_way_to_currents_and_back():
    cell = make_cell()
    layer = to_currents(cell)
    again = to_cell(Layer.from_json(json.loads(json.dumps(layer.to_json()))))
    for name in ("scale", "epsilon"):
        np.testing.assert_allclose(getattr(again, name), getattr(cell, name), rtol=1e-6)
    np.testing.assert_allclose(again.threshold, jnp.abs(cell.threshold), rtol=1e-6)
    np.testing.assert_allclose(again.project.weight, cell.project.weight, rtol=1e-6)
    np.testing.assert_allclose(again.project.bias, cell.project.bias, rtol=1e-5, atol=1e-7)
    assert to_currents(again).to_json()["cell"] == layer.to_json()["cell"]


def test_a_threshold_of_the_candidate_is_a_threshold_of_the_current():
    cell, standard = make_cell(), Bistable()
    layer = to_currents(cell)
    beta = np.abs(np.asarray(cell.threshold))
    np.testing.assert_allclose(layer.currents(beta), standard.upper, rtol=1e-12)
    np.testing.assert_allclose(layer.currents(-beta), standard.lower, rtol=1e-12)
    np.testing.assert_allclose(layer.currents(0 * beta), standard.retain, rtol=1e-12)
    assert layer.currents(-1e6 * beta).min() == 0
    x = np.asarray(jax.random.normal(jax.random.key(0), (6,)))
    by_weights = [np.dot(u.weights, x) + u.offset for u in layer.units]
    raw = np.clip(by_weights, 0, 2 * standard.retain)
    np.testing.assert_allclose(layer.currents(cell.project(jnp.asarray(x))), raw, rtol=1e-5)


@pytest.mark.parametrize("name", sorted(set(CELLS) - {"positive-cmru"}))
def test_other_cells_are_refused_by_name(name):
    remedy = "without --levels" if name == "ladder" else "--deployable"
    with pytest.raises(PersistorError, match=f"{CELLS[name].__name__}.*{remedy}"):
        to_currents(CELLS[name](6, 4, key=jax.random.key(0)))


def test_models_that_no_circuit_can_be_are_refused():
    annealing = PositiveCMRU(6, 4, epsilon=0.5, key=jax.random.key(0))
    with pytest.raises(PersistorError, match=r"epsilon is 0\.5"):
        to_currents(annealing)
    with pytest.raises(PersistorError, match="positional encoding of width 4"):
        Deployment.of(make_model(architecture=Architecture(encoding=4)))
    two = make_model()
    two = eqx.tree_at(lambda m: m.blocks, two, two.blocks * 2)
    with pytest.raises(PersistorError, match="2 blocks"):
        Deployment.of(two)
    with pytest.raises(PersistorError, match="at every step"):
        Deployment.of(make_model(pooling=Pooling.NONE))
    with pytest.raises(PersistorError, match="bias table"):
        Layer.from_json({"units": []})
    with pytest.raises(PersistorError, match="lower must be positive"):
        Bistable(upper=0.1, lower=0.2)


# Weights as unit devices.


def test_a_weight_is_the_nearest_number_of_unit_devices():
    grid = Mirrors().grid
    weights = Weights.of(one_unit(np.array([3.4, -7.6, 0.4, -0.4, 256.4, 256.6, -300]) * grid))
    assert weights.counts.tolist() == [[3, -8, 0, 0, 256, 0, 0]]
    np.testing.assert_allclose(weights.ideal / grid, [[0, 0, 0, 0, 0, 256.6, -300]])
    assert weights.biases.tolist() == [100]
    found = weights.summary()
    assert (found["mirrors"], found["left_out"], found["ideal"]) == (3, 2, 2)
    diodes = (2 * 7 + 4) * (64 + 64 + 59)
    assert found["unit_devices"] == 2 * (3 + 8 + 256) + 100 + diodes
    for part in ("3 mirrors, 2 left out", "2 ideal (above 256", "1 mirrors, 0 ideal"):
        assert part in str(weights)
    assert Weights.of(one_unit((0.1,), offset=0.7)).summary()["bias_ideal"] == 1


def test_rounding_moves_a_sum_by_at_most_half_a_unit_device_a_weight():
    layer = to_currents(make_cell())
    weights, features = Weights.of(layer), np.asarray(jax.random.normal(jax.random.key(1), (50, 6)))
    off = np.abs(weights.sums(features) - layer.sums(features))
    bound = (np.abs(features).sum(1, keepdims=True) + 1) * Mirrors().grid / 2
    assert np.all(off <= bound + 1e-12)
    assert off.max() > 0.1 * bound.min()


def test_a_feature_is_the_difference_of_two_currents():
    mirrors, features = Mirrors(), np.array([[-2.0, 0.0, 1.5]])
    halves = mirrors.halves(features)
    apart = (halves[1] - halves[-1]) * mirrors.gain / mirrors.feature
    np.testing.assert_allclose(apart, features, atol=1e-12)
    assert min(half.min() for half in halves.values()) == mirrors.rest / mirrors.gain > 0


def test_a_netlist_has_a_source_and_a_sink_for_every_weight():
    weights = Weights.of(one_unit((0.05, -0.03, 0.0, 1.0)))
    features, resets = np.ones((2, 4)), np.array([True, False])
    net = layer_bench(Bistable(), weights, features, resets, 0.02, 1.8, Sizes())
    text = "\n".join(net.lines)
    for line in (
        "xsource_plus0_x0 x0 p_plus0 v_mirrors v_mirrors sky130_fd_pr__pfet_01v8",
        "xsink_minus0_x0 x0 n_minus0 0 0 sky130_fd_pr__nfet_01v8",
        "xsink_plus1_x0 x0 n_plus1 0 0 sky130_fd_pr__nfet_01v8",
        "xsource_minus1_x0 x0 p_minus1 v_mirrors v_mirrors sky130_fd_pr__pfet_01v8",
        "b_in0 v_inputs x0",  # the fourth is too large
    ):
        assert text.count(f"\n{line}") == 1
    assert "us2_x0" not in text
    assert "us3_x0" not in text
    assert "m=20 mult=20" in next(line for line in net.lines if "source_plus0_" in line)
    cell, reset, banks, outputs = 9 + 3, 1, 3 * (2 * 4 + 1), 2 * 2 + 1
    assert net.transistors == cell + reset + banks + outputs


# Rules.


BREAKS = {
    "smallest_current": Design(Bistable(0.0035, 0.0015, 0.005)),
    "largest_current": Design(Bistable(3.5, 1.5, 50.0)),
    "retain_margin": Design(Bistable(0.30, 0.29)),
    "decision_time": Design(Bistable(), period=1e-3),
    "input_margin": Design(Bistable(), inputs=np.full(10, 0.351)),
    "weight_range": Design(Bistable(), layer=one_unit((1.0,))),
    "weight_grid": Design(Bistable(), layer=one_unit((0.0012,)), features=np.full((3, 1), 9.0)),
    "ladder_hold": Design(Bistable(), ladder=LadderCircuit(up=0.6)),
    "ladder_drive": Design(Bistable(), ladder=LadderCircuit(up=0.36)),
    "ladder_period": Design(Bistable(), period=1e-3, ladder=LadderCircuit()),
}


def test_every_rule_is_kept_by_the_standard_circuits():
    far = np.array([0.0, 0.25, 0.5])
    layer, features = one_unit((0.05, -0.05)), np.ones((3, 2))
    found = check(Design(Bistable(), inputs=far, layer=layer, features=features))
    found += check(Design(LadderCircuit().cell, ladder=LadderCircuit()))
    assert all(finding.holds for finding in found)
    assert {rule.__name__ for rule in RULES} == set(BREAKS)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_rule_can_be_broken_and_says_what_to_do(rule):
    finding = rule(BREAKS[rule.__name__])
    assert not finding.holds
    assert finding.remedy in str(finding)
    assert f"{finding.limit:.4g}" in str(finding)


# Behaviour.


@pytest.mark.parametrize("pooling", [Pooling.LAST, Pooling.MEAN])
def test_a_chip_without_mismatch_is_the_model(pooling):
    model, batch = make_model(state=5, pooling=pooling), a_batch(8, 12)
    deployment = Deployment.of(model)
    currents = jnp.asarray(deployment.currents(batch), jnp.float32)
    cell = deployment.layer.cell
    chip = behaviour.make_chips(jax.random.key(0), cell, 2, 5, NOTHING)
    outputs = behaviour.run_cells(chip, currents, key=jax.random.key(1))
    states = deployment.states(batch)
    assert 0 < deployment.layer.ups(states).mean() < 1
    for of_chip in outputs:
        np.testing.assert_allclose(deployment.layer.states(np.asarray(of_chip)), states, atol=1e-6)
    answers, _ = model(batch.inputs)
    np.testing.assert_allclose(deployment.answers(batch, outputs[0]), answers, atol=1e-5)


def test_padding_and_noise_reach_the_behaviour():
    chip = behaviour.make_chips(jax.random.key(0), Bistable(), 1, 1, NOTHING)
    currents = jnp.asarray([0.45, 0.25, 0.05]).reshape(1, 3, 1)
    run = lambda **options: float(behaviour.run_cells(chip, currents, **options)[0, 0, -1, 0])  # noqa: E731
    assert run(key=jax.random.key(0)) == 0
    assert run(key=jax.random.key(0), lengths=jnp.asarray([2], jnp.int32)) == pytest.approx(0.5)
    noisy = [run(key=jax.random.key(i), noise=1.0) for i in range(20)]
    assert 0 < np.mean(noisy) < 0.5


def test_chips_have_the_spread_they_are_drawn_with():
    drawn = behaviour.make_chips(jax.random.key(0), Bistable(), 20_000, 1)
    table = np.stack([drawn.upper[:, 0], drawn.lower[:, 0], drawn.output[:, 0]])
    np.testing.assert_allclose(table.std(1), [SPREAD.upper, SPREAD.lower, SPREAD.output], rtol=0.03)
    assert np.corrcoef(table)[0, 1] == pytest.approx(SPREAD.correlation, abs=0.02)


def test_a_ladder_behaves_as_driven_and_mismatch_costs_yield():
    ladder = LadderCircuit()
    pieces = measure.climb(ladder)
    chip = behaviour.make_chips(jax.random.key(0), ladder.cell, 1, ladder.levels, NOTHING)
    times, levels = behaviour.run_ladders(ladder, chip, pieces)
    reached = behaviour.levels_at_ends(times, levels, pieces)[0, ::2]
    assert reached.tolist() == measure.targets(ladder)
    assert set(np.abs(np.diff(np.asarray(levels)[0]))) == {0, 1}
    many = behaviour.make_chips(jax.random.key(0), ladder.cell, 100, ladder.levels)
    ends = behaviour.levels_at_ends(*behaviour.run_ladders(ladder, many, pieces), pieces)
    assert 0 < (ends[:, ::2] == measure.targets(ladder)).all(-1).mean() < 1


def test_inputs_that_change_faster_than_they_can_are_refused():
    with pytest.raises(PersistorError, match="it must be above"):
        staircase(np.array([0.0, 1.0]), RAMP)


def test_yield_of_a_model_falls_with_noise():
    deployment, batch = Deployment.of(make_model(state=6)), a_batch(30, 5)
    outcome = [
        chips.of_run(deployment, batch, CopyFirstDiscrete.objective, 20, noise)["behaviour"]
        for noise in (0.0, 0.5)
    ]
    assert outcome[0]["chips"] == 20
    assert outcome[0]["model"] == outcome[1]["model"]
    assert outcome[1]["yield"] <= outcome[0]["yield"]
    assert outcome[1]["mean accuracy"] != outcome[0]["mean accuracy"]


# Transistors.


@in_spice
def test_a_cell_switches_where_it_is_programmed(bench):
    report, _ = measure.hysteresis(Bistable(), bench)
    assert report.upper == pytest.approx(0.35, rel=0.1)
    assert report.lower == pytest.approx(0.15, rel=0.1)
    assert report.output == pytest.approx(0.5, rel=0.1)
    assert report.output_low < 0.001
    assert 1 < sum(report.power_low.values()) < sum(report.power_high.values()) < 10


@in_spice
def test_a_cell_retains_for_ten_seconds(bench):
    held = measure.retention(Bistable(), bench, seconds=10.0)
    assert held["high"] == pytest.approx(0.5, rel=0.1)
    assert held["low"] < 0.001


@in_spice
def test_a_ladder_sets_holds_resets_and_holds(bench):
    ladder = LadderCircuit(levels=4)
    report, traces = measure.run_ladder(ladder, measure.climb(ladder), bench)
    assert report.levels[::2] == measure.targets(ladder) == [0, 3, 1, 4, 0]
    np.testing.assert_allclose(report.outputs[::2], [0, 1.5, 0.5, 2.0, 0], atol=0.05)
    np.testing.assert_allclose(report.steps_up, ladder.step_up, rtol=0.25)
    np.testing.assert_allclose(report.steps_down, ladder.step_down, rtol=0.25)
    power = [sum(report.power[level].values()) for level in (0, 1, 3, 4)]
    assert power == sorted(power)
    assert power[-1] < 40
    chip = behaviour.make_chips(jax.random.key(0), ladder.cell, 1, ladder.levels, NOTHING)
    times, levels = behaviour.run_ladders(ladder, chip, measure.climb(ladder))
    total = sum(1e9 * traces.at(f"i(v_out{k})", times) for k in range(ladder.levels))
    same = np.round(total / ladder.cell.scale) == np.asarray(levels)[0]
    assert same.mean() > 0.85  # the output follows a cell by the slew of its integrator


@in_spice
def test_mismatch_in_spice_lies_within_the_fitted_spread(bench):
    cells = monte_carlo(Bistable(), bench, 4)
    for cell in cells:
        assert abs(cell.upper - 0.35) < 4 * SPREAD.upper
        assert abs(cell.lower - 0.15) < 4 * SPREAD.lower
    assert fit(cells)["upper"] > 0.001
    again = measure.hysteresis(Bistable(), bench.at(seed=2))[0]
    assert again == cells[2]


@in_spice
def test_the_netlist_of_a_model_is_the_model(bench):
    deployment, cell = Deployment.of(make_model()), Bistable()
    values = jax.random.normal(jax.random.key(5), (200, 8, 15))
    currents = deployment.currents(Batch(Dense(values), jnp.zeros(200, jnp.int32)))
    from_thresholds = np.minimum(np.abs(currents - cell.upper), np.abs(currents - cell.lower))
    clear = np.flatnonzero(from_thresholds.min((1, 2)) > 0.01)[:4]  # nA; nearer is a race
    batch = Batch(Dense(values[clear]), jnp.zeros(4, jnp.int32))
    agreement = verify(deployment, batch, CopyFirstDiscrete.objective, bench)
    assert agreement.cell_steps == 4 * 8 * 3
    assert agreement.changes >= 10
    assert agreement.share == 1
    assert agreement.divergences == []
    assert agreement.ideal == "inputs (weights included), references"
    flip = lambda layer: dataclasses.replace(  # noqa: E731
        layer, units=tuple(dataclasses.replace(u, gain=-u.gain) for u in layer.units)
    )
    flipped = Deployment(deployment.model, flip(deployment.layer))
    wrong = verify(flipped, batch, CopyFirstDiscrete.objective, bench)
    assert wrong.share < 0.9
    assert len(wrong.divergences) > 1
    assert f"first divergence of {len(wrong.divergences)}: sequence 0" in str(wrong)


@in_spice
def test_mirrors_make_the_weighted_sum(bench):
    weights = Weights.of(one_unit((0.06, -0.04, 0.0125, -0.025)))
    features = np.array(
        [[0.0, 0, 0, 0], [2, 1, -1, 1], [-1, -2, 0.5, -1], [-2, 1.5, 1, 1], [1] * 4]
    )
    wanted = weights.sums(features)
    assert np.ptp(wanted) > 0.2
    np.testing.assert_allclose(measure.sums(weights, features, bench), wanted, atol=0.003)
    report = measure.weighted_sums(weights, wanted, features, bench, 1)
    assert report.rounding["largest"] == 0
    assert report.nominal["rms"] < report.chips[0]["rms"] < 0.02
    assert "chip 0" in str(report)


@in_spice
def test_a_width_is_no_ratio_but_a_number_of_devices_is(bench):
    found = {}
    for name, size, count in (("width", Size(1.0, 8.0), 1), ("devices", Size(7.0, 8.0), 7)):
        net = Netlist()
        net.supplies(1.8)
        net.pmos("diode", "g", "g", "v_mirrors", Size(7.0, 8.0))
        net.lines.append("i_in g 0 1n")
        net.pmos("output", "out", "g", "v_mirrors", size, count)
        net.load("out")
        traces = bench.run(net.job(["i(v_out)"], 0.02, 0.01, []))
        found[name] = 1e9 * float(traces["i(v_out)"][-1])
    assert found["devices"] == pytest.approx(7, rel=0.1)
    assert found["width"] > 4 * 1 / 7


@in_spice
def test_weights_that_are_too_large_are_ideal_and_still_in_the_sum(bench):
    weights = Weights.of(one_unit((0.9, -0.04)))
    features = np.array([[0.5, 1.0], [-0.5, -1.0]])
    assert weights.summary()["ideal"] == 1
    found = measure.sums(weights, features, bench)
    np.testing.assert_allclose(found, weights.sums(features), atol=0.005)


@in_spice
def test_a_node_that_is_pushed_into_a_rail_comes_back_within_a_period(bench):
    layer = one_unit((0.5,))
    inputs = np.array([0.0, 5.0, 0.25, -5.0, 0.25, 5.0, 0.13, 0.25, -5.0, 0.37, 0.25])
    features = (inputs[:, None] - 0.25) / 0.5
    net = layer_bench(layer.cell, Weights.of(layer), features, inputs == 0, 0.02, 1.8, bench.sizes)
    traces = bench.run(net.job(["i(v_out0)"], 0.22, 0.01, ["x0"]))
    ends = 0.02 * np.arange(1, 12) - 1e-4
    up = 1e9 * traces.at("i(v_out0)", ends) > 0.25
    assert up.astype(int).tolist() == [0, 1, 1, 0, 0, 1, 0, 0, 0, 1, 1]


@in_spice
def test_the_netlist_of_a_model_with_mirrors_is_the_model(bench):
    deployment = Deployment.of(make_model())
    weights, cell = Weights.of(deployment.layer), Bistable()
    values = jax.random.normal(jax.random.key(5), (1000, 4, 15))
    features = deployment.features(Batch(Dense(values), jnp.zeros(1000, jnp.int32)))
    sums = deployment.layer.sums(features.reshape(-1, 8)).reshape(1000, 4, 3)
    from_thresholds = np.minimum(np.abs(sums - cell.upper), np.abs(sums - cell.lower))
    clear = np.flatnonzero(from_thresholds.min((1, 2)) > 0.02)  # nA; nearer is a race
    crossings = ((sums[clear] > cell.upper) | (sums[clear] < cell.lower)).sum((1, 2))
    clear = clear[np.argsort(crossings)[-3:]]
    batch = Batch(Dense(values[clear]), jnp.zeros(3, jnp.int32))
    agreement = verify(deployment, batch, CopyFirstDiscrete.objective, bench, weights=weights)
    assert agreement.cell_steps == 3 * 4 * 3
    assert agreement.changes >= 5
    assert agreement.share == 1
    assert agreement.ideal.startswith("features, references")
    assert agreement.weights == weights.summary()
    assert set(agreement.power) == set(BLOCKS)
    taken = mean_power(weights, deployment.features(batch).reshape(-1, 8), 1.8)
    computed = taken["features"] + 3 * taken["unit"]
    assert agreement.power["mirrors"] == pytest.approx(computed, rel=0.25)
    assert agreement.power["inputs"] == pytest.approx(taken["inputs"], rel=0.25)


@in_spice
def test_a_circuit_that_cannot_be_simulated_says_why(bench):
    job = measure.hysteresis_job(Bistable(), bench)
    with pytest.raises(PersistorError, match="not done after 0 s"):
        spice.simulate(job, bench.models, limit=0.0)
    broken = dataclasses.replace(job, vectors=["i(v_nowhere)"])
    with pytest.raises(PersistorError, match=r"gave no result.*v_nowhere"):
        spice.simulate(broken, bench.models)
    monostable = Bistable(0.35, 0.15, scale=2.0)
    with pytest.raises(PersistorError, match="does not switch"):
        measure.hysteresis(dataclasses.replace(monostable, trim=Trim(9.0)), bench)


@pytest.mark.slow
@in_spice
def test_a_cell_holds_in_every_corner(as_users_have_it, capsys):
    assert call("hardware", "simulate", "cell", "--everywhere", "--json") == 0
    rows = json.loads(capsys.readouterr().out)["corners"]
    assert len(rows) == 17
    for row in rows:
        assert row["lower"] < 0.25 < row["upper"]
        assert row["output"] == pytest.approx(0.5, rel=0.1)


# Without the tools.


def test_without_ngspice_or_models_a_line_says_how_to_get_them(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(PersistorError, match="apt-get install ngspice"):
        spice.find_ngspice()
    monkeypatch.delenv("PERSISTOR_PDK", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(PersistorError, match=r"pip install 'persistor\[hardware\]'"):
        spice.find_models()
    with pytest.raises(PersistorError, match="holds no SkyWater models"):
        spice.find_models(tmp_path)
    with pytest.raises(PersistorError, match="choose one of tt"):
        spice.Conditions(corner="xx")


# Commands.


TRAIN = ["train", "copy-first-discrete", "--length", "6", "--steps", "64", "--batch", "8"]


@pytest.mark.slow
@in_spice
def test_the_commands_go_from_training_to_a_netlist(as_users_have_it, capsys, tmp_path):
    assert call(*TRAIN, "--deployable", "--width", 8, "--json") == 0
    run = json.loads(capsys.readouterr().out)["run"]
    assert call("hardware", "map", run) == 0
    table = json.loads((tmp_path / "runs" / run / "bias.json").read_text())
    assert len(table["units"]) == 4
    assert call("hardware", "check", run, "--json") in (0, 1)
    assert call("hardware", "netlist", run, "--examples", 2, "--folder", "layer") == 0
    circuit = (tmp_path / "layer" / "circuit.cir").read_text()
    assert circuit.count("\nxwidth_in") == 4
    assert circuit.count("\nxdiode_") == 2 * 8 + 1
    mirrors = json.loads((tmp_path / "layer" / "bias.json").read_text())["mirrors"]
    assert np.shape(mirrors["counts"]) == (4, 8)
    assert "ideal: features, references\nweights: 3" in capsys.readouterr().out
    ideal = ["--weights", "ideal", "--json"]
    assert call("hardware", "netlist", run, "--folder", "ideal", *ideal) == 0
    assert json.loads(capsys.readouterr().out)["transistors"] == 3 + 4 * 9
    assert "mirrors" not in json.loads((tmp_path / "ideal" / "bias.json").read_text())
    assert call("hardware", "verify", run, "--examples", 2, *ideal) in (0, 1)
    agreement = json.loads(capsys.readouterr().out)
    assert agreement["cell_steps"] == 48
    assert agreement["agreement"] > 0.9
    assert agreement["weights"] is None
    assert call("hardware", "simulate", run, "--examples", 1, "--chips", 0, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sums"] == 4 * 2  # a symbol and the empty step
    assert found["nominal"]["largest"] < 0.02
    assert 0 <= agreement["of_netlist"] <= 1
    assert call("hardware", "yield", run, "--chips", 20, "--json") == 0
    quiet = json.loads(capsys.readouterr().out)
    assert quiet["behaviour"]["chips"] == 20
    sweep = ("hardware", "yield", run, "--chips", 20, "--noise", 0, 0.5)
    assert call(*sweep, "--json") == 0
    assert json.loads(capsys.readouterr().out)["sweep"][0] == quiet
    assert call(*sweep) == 0
    title, *lines = capsys.readouterr().out.splitlines()
    assert "noise (nA)" in title
    assert [float(line.split()[0]) for line in lines] == [0, 0.5]
    assert call("hardware", "power", run, "--widths", 1, 10, "--json") == 0
    rows = json.loads(capsys.readouterr().out)["nW"]
    assert rows["d = 10"]["cells"] == pytest.approx(10 * rows["d = 1"]["cells"])
    assert rows["d = 10"]["references"] == rows["d = 1"]["references"]
    assert rows["d = 10"]["mirrors"] > rows["d = 1"]["mirrors"] > 0


@in_spice
def test_the_figure_is_drawn(as_users_have_it, capsys, tmp_path):
    assert call("hardware", "figure", "--levels", 2, "--folder", "f") == 0
    for name in ("ladder.png", "hysteresis.png"):
        assert (tmp_path / "f" / name).read_bytes().startswith(b"\x89PNG")


def test_mistakes_are_one_line(as_users_have_it, capsys):
    assert call(*TRAIN, "--deployable", "--cell", "cmru") == 2
    assert "a deployable model has its own" in capsys.readouterr().err
    for command in ("map", "simulate"):
        assert call("hardware", command, "nowhere") == 2
        assert "not a run folder" in capsys.readouterr().err
    assert call("hardware", "verify", "nowhere", "--weights", "paper") == 2
    assert "mirrors" in capsys.readouterr().err
    assert call(*TRAIN, "--width", 8, "--state", 3, "--json") == 0
    run = json.loads(capsys.readouterr().out)["run"]
    assert call("hardware", "map", run) == 2
    assert "encoding" in capsys.readouterr().err


@pytest.mark.slow
@in_spice
def test_many_seeds_agree_with_the_behavioural_prediction(bench):
    outcome = chips.of_cell(bench, 50, 1000)
    assert outcome["spice"]["yield"] == outcome["behaviour"]["yield"] == 1.0
    for name in ("upper", "lower", "output"):
        assert outcome["spice"][name] == pytest.approx(outcome["behaviour"][name], rel=0.3)
