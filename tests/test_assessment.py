"""What is counted about a model's answers is what a person would count."""

import json
from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from publishers import npz
from started import started
from test_cli import call

from persistor import Experiment, evaluate
from persistor.analysis.assessment import BINS, Answers, assess
from persistor.cli.evaluate import FEW, MOST_CLASSES, report
from persistor.plots.assessment import draw_assessment
from persistor.tasks import own_task
from persistor.tasks.task import Origins
from persistor.training.evaluation import answers_on

TINY = {"tiny": True, "state_size": 2, "batch": 4, "steps": 4, "stop_early": False}


@pytest.fixture(autouse=True)
def as_users_have_it(tmp_path, monkeypatch):
    """optax relies on JAX's usual promotion."""
    monkeypatch.setenv("PERSISTOR_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@st.composite
def answered(draw, classes=4):
    """Answers about some examples, with a class for each or for every step."""
    n, t = draw(st.integers(1, 30)), draw(st.sampled_from([None, 3]))
    shape = (n,) if t is None else (n, t)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    targets, predicted = rng.integers(0, classes, shape), rng.integers(0, classes, shape)
    if t is not None:
        targets = np.where(rng.random(shape) < 0.3, -1, targets)
        targets[:, 0] = 0
    right = (targets == predicted).astype(np.float32)
    counted = np.ones(shape) if t is None else (targets >= 0).astype(float)
    scores = (right * counted).reshape(n, -1).sum(1) / counted.reshape(n, -1).sum(1)
    confidence = rng.uniform(1 / classes, 1, shape).astype(np.float32)
    return Answers(scores.astype(np.float32), targets, predicted, confidence)


def found(answers, **options):
    return assess(answers, "accuracy", higher_is_better=True, **options)


@given(answered())
def test_classes_are_counted_one_by_one(answers):
    ours = found(answers, classes=("a", "b", "c", "d"))
    counted = answers.targets >= 0
    pairs = list(zip(answers.targets[counted], answers.predicted[counted], strict=True))
    assert ours.confusion.sum() == len(pairs)
    for i, of in enumerate(ours.classes):
        hits = sum(t == p == i for t, p in pairs)
        said, there = sum(p == i for _, p in pairs), sum(t == i for t, _ in pairs)
        assert of.support == there
        assert of.precision == (hits / said if said else None)
        assert of.recall == (hits / there if there else None)
        if of.precision and of.recall:
            mean = 2 * of.precision * of.recall / (of.precision + of.recall)
            assert of.f1 == pytest.approx(mean)
    assert sum(n for *_, n in ours.confusions()) == sum(t != p for t, p in pairs)
    json.dumps(ours.to_json(), allow_nan=False)


@given(answered())
def test_calibration_is_the_gap_in_every_bin(answers):
    ours = found(answers)
    counted = answers.targets >= 0
    sure = answers.confidence[counted].astype(float)
    right = (answers.targets == answers.predicted)[counted]
    gap = 0.0
    for i in range(BINS):
        of = (sure >= i / BINS) & ((sure < (i + 1) / BINS) | (i == BINS - 1))
        gap += abs(sure[of].sum() - right[of].sum())
    assert ours.calibration_error == pytest.approx(gap / counted.sum(), abs=0.02)
    assert sum(b.count for b in ours.calibration) == counted.sum()


@given(answered(), st.integers(1, 5))
def test_parts_make_up_the_whole(answers, groups):
    n = len(answers.scores)
    lengths = np.arange(n, dtype=np.int32) % 7 + 1
    of_group = [f"speaker {i % groups}" for i in range(n)]
    ours = found(replace(answers, lengths=lengths), origins=Origins(groups=of_group))
    for parts in (ours.by_length, ours.by_group):
        if parts:
            assert sum(part.examples for part in parts) == n
            total = sum(part.examples * part.metric for part in parts)
            assert total / n == pytest.approx(ours.value, abs=1e-6)
    assert len(ours.by_group) == min(groups, n)
    assert [p.metric for p in ours.by_group] == sorted(p.metric for p in ours.by_group)


def test_the_worst_mistakes_are_wrong_with_most_confidence_and_have_names():
    answers = Answers(
        np.array([0, 1, 0, 0], np.float32),
        np.array([0, 1, 1, 1]),
        np.array([1, 1, 0, 0]),
        np.array([0.6, 1.0, 0.9, 0.7], np.float32),
    )
    ours = found(answers, classes=("no", "yes"), origins=Origins(names=["a", "b", "c", "d"]))
    assert [(m.example, m.target, m.predicted) for m in ours.worst] == [
        ("c", "yes", "no"),
        ("d", "yes", "no"),
        ("a", "no", "yes"),
    ]
    assert [m.example for m in found(answers).worst] == ["2", "3", "0"]
    assert "  c: yes, taken for no with probability 0.900" in report(ours)


def test_numbers_have_errors_and_the_farthest_first(tmp_path):
    targets = np.array([[0.0], [1.0], [2.0]], np.float32)
    predicted = np.array([[0.0], [4.0], [1.0]], np.float32)
    answers = Answers(np.abs(predicted - targets)[:, 0], targets, predicted)
    ours = assess(answers, "mae", higher_is_better=False)
    assert ours.errors == pytest.approx({"mae": 4 / 3, "rmse": (10 / 3) ** 0.5})
    assert [(m.example, m.predicted) for m in ours.worst] == [("1", "4"), ("2", "1")]
    draw_assessment(ours, "numbers", tmp_path / "numbers.png")
    assert (tmp_path / "numbers.png").stat().st_size > 1000


def test_many_classes_are_a_screen_all_the_same(tmp_path):
    rng = np.random.default_rng(0)
    targets, predicted = rng.integers(0, 60, (2, 3000))
    right = (targets == predicted).astype(np.float32)
    answers = Answers(right, targets, predicted, rng.random(3000).astype(np.float32))
    ours = found(answers, classes=[f"${i}_" for i in range(60)])
    lines = report(ours)
    assert len(lines) < MOST_CLASSES + 3 * FEW
    assert "(the 5 worst of 60)" in lines[1]
    assert any(line.startswith("confused: ") and ", and " in line for line in lines)
    for count in (3, 30, 60):  # with numbers, with names, with neither
        few = found(replace(answers, targets=targets % count, predicted=predicted % count))
        draw_assessment(few, "some_run", tmp_path / f"{count}.png")
        assert (tmp_path / f"{count}.png").stat().st_size > 1000


def test_an_objective_of_your_own_has_its_worst(tmp_path):
    ours = assess(Answers(np.array([3.0, 1.0], np.float32)), "loss", higher_is_better=False)
    assert [m.example for m in ours.worst] == ["0", "1"]
    assert report(ours)[-2:] == ["  0: loss 3.0000", "  1: loss 1.0000"]
    draw_assessment(ours, "own", tmp_path / "own.png")


TASKS = [
    ("parity", {"length": None}),
    ("copy-first-discrete", {"length": 8}),
    ("copy-first-clean", {"length": 8}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), TASKS, ids=[name for name, _ in TASKS])
def test_tasks_of_the_paper_are_assessed_too(name, options, tmp_path, capsys):
    run = started(Experiment.of(name, **TINY, **options), tmp_path)
    task = run.experiment.task
    metric, value = task.objective.metric, evaluate(run.model(), task.split("test"), task.objective)
    assert call("evaluate", run.path, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    (ours,) = told["results"]
    assert ours[metric] == pytest.approx(value, abs=1e-6)
    assert (run.path / "evaluate.png").stat().st_size > 1000
    assert told["picture"] == str(run.path / "evaluate.png")
    if metric == "accuracy":
        assert np.trace(ours["confusion"]) / np.sum(ours["confusion"]) == pytest.approx(
            ours[metric]
        )
        assert len(ours["classes"]) == task.outputs
    else:
        assert ours["mae"] == pytest.approx(ours[metric])
    assert bool(ours["by_length"]) == (name == "parity")
    assert call("evaluate", run.path, "--picture", tmp_path / "x.bmp") == 2
    assert "is not a picture" in capsys.readouterr().err


def own(folder, kind):
    """Arrays of every kind of target, with lengths and groups."""
    rng = np.random.default_rng(1)
    n, t = 60, 6
    targets = {
        "classes": np.array(["ja", "nein"])[np.arange(n) % 2],
        "steps": rng.integers(0, 3, (n, t)),
        "numbers": rng.normal(size=(n, 2)),
    }
    arrays = {"x": rng.normal(size=(n, t, 2)), "lengths": rng.integers(2, t + 1, n)}
    (folder / "a.npz").write_bytes(npz(**arrays, y=targets[kind], group=np.arange(n) // 5))
    return own_task(folder / "a.npz")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classes", "steps", "numbers"])
def test_own_data_are_assessed_by_length_and_group(kind, tmp_path, capsys):
    task = own(tmp_path, kind)
    run = started(Experiment.of(task, **TINY), tmp_path)
    model, split = run.model(), task.split("test")
    assert call("evaluate", run.path, "--json") == 0
    (ours,) = json.loads(capsys.readouterr().out)["results"]
    value = evaluate(model, split, task.objective)
    assert ours[task.objective.metric] == pytest.approx(value, abs=1e-6)
    for parts in (ours["by_length"], ours["by_group"]):
        assert sum(part["examples"] for part in parts) == split.size == ours["examples"]
    if kind == "steps":
        assert sum(of["support"] for of in ours["classes"]) == int(np.asarray(split.lengths).sum())
    elif kind == "classes":
        assert [of["name"] for of in ours["classes"]] == ["ja", "nein"]
    assert call("evaluate", run.path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["test", "set", task.objective.metric]
    assert any(line.startswith("by group, of ") for line in lines)
    assert lines[-1] == f"picture: {run.path / 'evaluate.png'}"
    assert len(lines) < 24


def test_answers_are_those_of_the_model(tmp_path):
    task = own(tmp_path, "classes")
    model, split = Experiment.of(task, **TINY).build(), task.split("test")
    answers = answers_on(model, split, task.objective, batch=4)
    batch = split.at(jax.numpy.arange(split.size, dtype=jax.numpy.int32))
    outputs, _ = eqx.filter_jit(model)(batch.inputs, lengths=batch.lengths)
    np.testing.assert_array_equal(answers.predicted, outputs.argmax(-1))
    np.testing.assert_array_equal(answers.targets, batch.targets)
    np.testing.assert_allclose(answers.confidence, jax.nn.softmax(outputs).max(-1), rtol=1e-5)
    np.testing.assert_array_equal(answers.lengths, batch.lengths)


def test_lengths_have_a_line_each_and_no_picture(tmp_path, capsys):
    run = started(Experiment.of("copy-first-discrete", length=8, **TINY), tmp_path)
    assert call("evaluate", run.path, "--lengths", 4, 16) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert not (run.path / "evaluate.png").exists()
    assert call("evaluate", run.path, "--lengths", 4, "--picture", "x.png") == 2
    assert "leave out --lengths" in capsys.readouterr().err
