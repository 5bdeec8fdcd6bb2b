"""What a program of one's own uses: experiments, training, models on disk, plain arrays, errors."""

import inspect
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import persistor
from persistor import (
    ARCHITECTURES,
    CELLS,
    CMRU,
    PAPER,
    TASKS,
    AlphaCMRU,
    Backbone,
    Batch,
    Cell,
    Dense,
    Experiment,
    Indexed,
    Ladder,
    Linear,
    MinGRU,
    ModelSpec,
    Option,
    PersistorError,
    Pooling,
    PositiveCMRU,
    Regression,
    Run,
    TrainingSpec,
    train,
)
from persistor.cli import commands, main
from persistor.recurrence.transition import Affine
from persistor.tasks import CopyFirstDiscrete, Parity
from persistor.tasks.task import Task

CUMULATIVE = (CMRU, AlphaCMRU, PositiveCMRU)


@pytest.fixture(autouse=True)
def as_users_have_it():
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


call = eqx.filter_jit(lambda model, x: model(x))


def asked(*arguments):
    """The experiment that a command line stands for."""
    import tyro

    return tyro.cli(commands()["train"], args=list(arguments)).experiment()


SAME = [  # a command line, and the same in Python
    (["smnist", "--cell", "cmru"], ("smnist", {"cell": "cmru"})),
    (["parity", "--epsilon", "-1"], ("parity", {"epsilon": -1.0})),
    (["parity", "--architecture", "paper"], ("parity", {"architecture": "paper"})),
    (["parity", "--hold", "2"], (Parity(), {"hold": 2})),
    (["copy-first-noisy", "--cell", "mingru,cmru", "--blocks", "4", "--state", "16"],
     ("copy-first-noisy", {"cell": (MinGRU, "cmru"), "blocks": 4, "state_size": 16})),
    (["copy-first-discrete", "--length", "20", "--deployable", "--mismatch", "0.13"],
     (CopyFirstDiscrete(20), {"deployable": True, "mismatch": 0.13})),
    (["copy-first-discrete", "--length", "20", "--deployable", "--levels", "3"],
     ("copy-first-discrete", {"length": 20, "deployable": True, "levels": 3})),
    (["smnist", "--tiny", "--anneal", "--cell", "alpha-cmru", "--scales", "one"],
     ("smnist", {"tiny": True, "anneal": True, "cell": AlphaCMRU, "scales": "one"})),
    (["smnist", "--architecture", "norm-first", "--set", "base=100", "hold=3"],
     ("smnist", {"architecture": "norm-first", "changes": {"base": 100, "hold": 3}})),
    (["smnist", "--encoding", "64", "--learn-epsilon", "--seed", "3", "--steps", "99"],
     ("smnist", {"encoding": 64, "learn_epsilon": True, "seed": 3, "steps": 99})),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "python"), SAME, ids=[" ".join(a) for a, _ in SAME])
def test_python_and_the_command_line_mean_the_same_run(arguments, python):
    task, options = python
    assert asked(*arguments).name == Experiment.of(task, **options).name


@pytest.mark.parametrize("name", sorted(n for n in TASKS if TASKS[n].data != "speech-commands"))
def test_on_every_task_the_defaults_are_the_same(name):
    assert asked(name) == Experiment.of(name)


def test_the_folder_that_train_makes_has_the_name_of_the_experiment(tmp_path, capsys):
    short = ["--tiny", "--steps", "2", "--batch", "2", "--runs", str(tmp_path)]
    with pytest.raises(SystemExit, match="0"):
        main(["train", "parity", *short])
    experiment = Experiment.of("parity", tiny=True, steps=2, batch=2)
    assert [path.name for path in tmp_path.iterdir()] == [experiment.name]
    assert str(tmp_path / experiment.name) in capsys.readouterr().out


@dataclass(frozen=True)
class Echo(Task):
    """A task that is not registered."""

    length: int = 5
    summary: ClassVar[str] = "the first symbol"
    inputs: ClassVar[int] = 15
    outputs: ClassVar[int] = 15
    objective = CopyFirstDiscrete.objective
    pooling = Pooling.LAST
    chance: ClassVar[float] = 1 / 15

    def split(self, name):
        return CopyFirstDiscrete(self.length).split(name)


class Leaky(Cell):
    """A cell that is not registered, with an option of its own."""

    options: ClassVar = (Option("rate", 0.5, "How fast it forgets.", 0.0, 1.0, word="rate"),)
    project: Linear
    rate: float = eqx.field(static=True)
    state_size: int = eqx.field(static=True)

    def __init__(self, input_size, state_size, *, rate=0.5, key):
        self.project = Linear(input_size, state_size, key=key)
        self.rate = rate
        self.state_size = state_size

    def gate(self, p):
        return Affine(jnp.full_like(p, 1 - self.rate), self.rate * p)


@pytest.mark.slow
def test_a_task_and_a_cell_of_ones_own_train_without_being_registered(tmp_path):
    """Stopped, continued, finished, and opened again."""
    training = TrainingSpec(steps=6, batch=4, evaluate_every=2, valid_batches=1)
    experiment = Experiment(Echo(), ModelSpec((Leaky,), 3, width=8, rate=0.25), training)
    assert experiment.name.startswith("Echo-L5-Leaky-rate0.25-d3-r1-seed0-")
    assert train(experiment, runs=tmp_path, should_stop=lambda: True) is None
    result = train(experiment, runs=tmp_path)
    assert result is not None
    assert result["steps"] == 6
    assert train(experiment, runs=tmp_path) == result
    own = {**CELLS, "Leaky": Leaky}
    model = persistor.load(experiment.name, runs=tmp_path, cells=own)
    assert isinstance(model.blocks[0].cell, Leaky)
    assert model.blocks[0].cell.rate == 0.25
    again = Experiment.from_json(experiment.to_json(), tasks={"Echo": Echo}, cells=own)
    assert again.hash == experiment.hash
    with pytest.raises(PersistorError, match="unknown cell 'Leaky'"):
        persistor.load(tmp_path / experiment.name)
    with pytest.raises(PersistorError, match="unknown task 'Echo'"):
        Run.open(tmp_path / experiment.name)


KEY = jax.random.key(1)


def hybrid(architecture):
    cells = (MinGRU(8, 2, longest=30.0, key=KEY), CMRU(8, 5, epsilon=-1.0, key=KEY))
    return Backbone(8, 2, cells, width=8, architecture=architecture, pooling=Pooling.MEAN, key=KEY)


MODELS = {
    **{name: lambda kind=kind: kind(8, 3, key=KEY) for name, kind in CELLS.items()},
    "epsilon by unit": lambda: CMRU(8, 3, epsilon=(0.1, -0.5, 1.0), key=KEY),
    "learned epsilon": lambda: CMRU(8, 3, epsilon=0.3, learn_epsilon=True, key=KEY),
    "ladder of 7": lambda: Ladder(8, 3, levels=7, mismatch=0.1, key=KEY),
    **{f"hybrid {name}": lambda a=a: hybrid(a) for name, a in ARCHITECTURES.items()},
    "bfloat16": lambda: jax.tree.map(
        lambda x: x.astype(jnp.bfloat16) if eqx.is_array(x) else x, CMRU(8, 3, key=KEY)
    ),
    "no positions": lambda: hybrid(PAPER.but({"encoding": 0})),
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_any_model_goes_to_one_file_and_back(make, tmp_path):
    model = make()
    path = tmp_path / "model.safetensors"
    persistor.save(model, path)
    back = persistor.load(path, type(model))
    assert jax.tree.structure(back) == jax.tree.structure(model)
    assert all(jax.tree.leaves(jax.tree.map(lambda a, b: np.array_equal(a, b), model, back)))
    learned = [eqx.filter(m, eqx.is_inexact_array) for m in (model, back)]
    assert jax.tree.structure(learned[0]) == jax.tree.structure(learned[1])
    x = jax.random.normal(jax.random.key(2), (2, 6, 8))
    np.testing.assert_array_equal(call(model, x)[0], call(back, x)[0])


def test_weights_of_before_models_described_themselves_still_open(tmp_path):
    """A run whose files have no description, and epsilon among the arrays."""
    training = TrainingSpec(steps=2, batch=2, valid_batches=1)
    model = ModelSpec(("cmru",), 2, width=8, epsilon=-1.0)
    experiment = Experiment(CopyFirstDiscrete(4), model, training)
    train(experiment, runs=tmp_path)
    run = Run.create(experiment, tmp_path)
    described = persistor.load(run.path)
    arrays = load_file(run.best)
    arrays[".blocks[0].cell.epsilon"] = np.array(-1.0, np.float32)
    save_file(arrays, run.best, {"persistor": json.dumps({"experiment": experiment.hash})})
    for old in (persistor.load(run.path), run.model()):
        assert old.blocks[0].cell.epsilon == -1.0
        assert old.preparation is None  # the one thing that such a file cannot tell
        assert eqx.tree_equal(jax.tree.leaves(old), jax.tree.leaves(described))


def test_a_model_file_needs_no_run_and_says_what_it_is(tmp_path):
    experiment = Experiment.of("parity", tiny=True, steps=2, batch=2)
    train(experiment, runs=tmp_path)
    best = tmp_path / experiment.name / "best.safetensors"
    with safe_open(best, "numpy") as file:
        header = json.loads(file.metadata()["persistor"])
    assert header["model"]["cells"][0]["cell"] == "cmru"
    moved = tmp_path / "elsewhere.safetensors"
    moved.write_bytes(best.read_bytes())
    x = jnp.ones((1, 7, 1))
    one, two = persistor.load(moved), persistor.load(experiment.name, runs=tmp_path)
    np.testing.assert_array_equal(call(one, x)[0], call(two, x)[0])


def damaged(tmp_path, change):
    path = tmp_path / "cell.safetensors"
    persistor.save(CMRU(8, 3, key=jax.random.key(0)), path)
    with safe_open(path, "numpy") as file:
        header = json.loads(file.metadata()["persistor"])
    arrays = load_file(path)
    change(header, arrays)
    save_file(arrays, path, {"persistor": json.dumps(header)})
    return path


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda h, a: h["model"].update(state_size=10**12), "its arrays are smaller"),
        (lambda h, a: h["model"].update(state_size="3"), "whole number"),
        (lambda h, a: h["model"].update(cell="gru"), "unknown cell 'gru'"),
        (lambda h, a: h["model"].update(surprise=1), "damaged"),
        (lambda h, a: h["model"].pop("input_size"), "damaged"),
        (lambda h, a: h.pop("model"), "no description"),
        (lambda h, a: h.update(model=[1]), "damaged"),
        (lambda h, a: h.update(constants=3), "damaged"),
        (lambda h, a: h["constants"].update({".epsilon": "evil"}), "not a number"),
        (lambda h, a: h["constants"].update({".epsilon": 99.0}), r"in \[-1, 1\]"),
        (lambda h, a: a.pop(".scale"), "different model"),
        (lambda h, a: a.update(more=np.zeros(1)), "different model"),
        (lambda h, a: a.update({".scale": np.zeros(4, np.float32)}), "shape"),
        (lambda h, a: a.update({".scale": np.zeros(3, np.int32)}), "int32"),
    ],
)
def test_damaged_and_foreign_files_are_refused(change, says, tmp_path):
    with pytest.raises(PersistorError, match=says) as caught:
        persistor.load(damaged(tmp_path, change), CMRU)
    assert "\n" not in str(caught.value)


def test_a_file_of_another_kind_or_none_at_all_is_refused(tmp_path):
    path = tmp_path / "cell.safetensors"
    persistor.save(CMRU(8, 3, key=jax.random.key(0)), path)
    with pytest.raises(PersistorError, match="holds a CMRU, not a Backbone"):
        persistor.load(path)
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(PersistorError, match="damaged"):
        persistor.load(path)
    with pytest.raises(PersistorError, match="neither a run nor a model file"):
        persistor.load("nowhere")


@pytest.mark.parametrize("kind", CUMULATIVE)
def test_epsilon_is_a_constant_unless_it_is_to_be_learned(kind):
    def trained(cell):
        optimiser = optax.adamw(0.1, weight_decay=0.1)
        parts = eqx.partition(cell, eqx.is_inexact_array)
        loss = lambda params: eqx.combine(params, parts[1])(x)[0].sum()  # noqa: E731
        updates, _ = optimiser.update(jax.grad(loss)(parts[0]), optimiser.init(parts[0]), parts[0])
        return eqx.combine(eqx.apply_updates(parts[0], updates), parts[1])

    x = jax.random.normal(jax.random.key(0), (20, 8))
    key = jax.random.key(1)
    assert trained(kind(8, 3, epsilon=0.5, key=key)).epsilon == 0.5
    assert trained(kind(8, 3, epsilon=(0.5, 0.1, 1.0), key=key)).epsilon == (0.5, 0.1, 1.0)
    moved = trained(kind(8, 3, epsilon=0.5, learn_epsilon=True, key=key)).epsilon
    assert moved.shape == (3,)
    assert not np.any(np.isclose(moved, 0.5))


def test_plain_arrays_are_welcome():
    key = jax.random.key(0)
    cell = CMRU(4, 3, key=key)
    model = Backbone(4, 2, (CMRU(8, 3, key=key),), width=8, key=key)
    x = np.random.default_rng(0).normal(size=(2, 5, 4)).astype(np.float32)
    for module in (cell, model):
        np.testing.assert_array_equal(module(x)[0], module(jnp.asarray(x))[0])
        assert module.initial_state((2,)) is not None
    y, _ = model.step(x[:, 0], model.initial_state((2,)))
    assert y.shape == (2, 2)
    assert (cell.input_size, cell.state_size) == (4, 3)


MISTAKES = [
    (lambda: CMRU(0, 4, key=KEY), "at least 1"),
    (lambda: CMRU(4, -1, key=KEY), "at least 1"),
    (lambda: CMRU(4, 3, epsilon=2.0, key=KEY), r"in \[-1, 1\]"),
    (lambda: CMRU(4, 3, hold=-1.0, key=KEY), "at least 0"),
    (lambda: CMRU(4, 3, key=KEY)(np.zeros((5, 6), np.float32)), "6 features a step; 4 are"),
    (lambda: CMRU(4, 3, key=KEY)(np.zeros(4, np.float32)), r"give \(.., steps, 4\)"),
    (lambda: Backbone(2, 2, (), key=KEY), "at least one"),
    (lambda: Backbone(2, 2, (CMRU(4, 3, key=KEY),), width=8, key=KEY), "width 4, but .* 8"),
    (lambda: Backbone(0, 2, (CMRU(8, 3, key=KEY),), width=8, key=KEY), "inputs is 0"),
    (lambda: Experiment.of("smnits"), "did you mean smnist"),
    (lambda: Experiment.of("smnist", cell="cmur"), "did you mean cmru"),
    (lambda: Experiment.of("smnist", cell="lru", epsilon=0.5), "does not apply to lru; use"),
    (lambda: Experiment.of("smnist", epsylon=0.5), "did you mean epsilon"),
    (lambda: Experiment.of("smnist", state_size=0), "at least 1"),
    (lambda: Experiment.of("smnist", steps=0), "at least 1"),
    (lambda: Experiment.of("smnist", seed=-1), "seed is -1"),
    (lambda: Experiment.of("smnist", length=5), "no single length"),
    (lambda: Experiment.of("parity", length=5), "no single length"),
    (lambda: Experiment.of("smnist", deployable=True, cell="cmru"), "leave those out"),
    (lambda: Experiment.of("smnist", anneal=True, epsilon=0.5), "leave epsilon out"),
    (lambda: Experiment.of("smnist", anneal=True, learn_epsilon=True), "cannot be learned"),
    (lambda: ModelSpec(()), "at least one"),
    (lambda: ModelSpec("cmru"), r"give a sequence of cells"),
    (lambda: CMRU(4, 3, key=KEY).step(jnp.zeros(5), jnp.zeros(3)), "5 features a step"),
    (lambda: CMRU(4, 3, key=KEY).step(jnp.zeros(4), jnp.zeros(2)), r"the state has shape \(2,\)"),
    (lambda: CMRU(4, 3, key=KEY)(jnp.zeros((5, 4)), jnp.zeros(2)), r"\(3,\) is expected"),
    (lambda: CMRU(4, 3, epsilon=jnp.array(7.0), key=KEY), r"in \[-1, 1\]"),
    (lambda: Backbone(2, 2, (CMRU(8, 3, key=KEY),), width=8, dropout=3.0, key=KEY), "dropout is 3"),
    (lambda: TrainingSpec(learning_rate=float("nan")), "learning_rate is nan"),
    (lambda: TrainingSpec(clip=-1.0), "clip is -1"),
    (lambda: TrainingSpec(warmup=9.0), "a share of the steps"),
    (lambda: Run.open(Path("nowhere")), "not a run folder"),
]


@pytest.mark.parametrize(("mistake", "says"), MISTAKES, ids=[says for _, says in MISTAKES])
def test_a_mistake_in_python_gets_the_same_one_line_as_on_the_command_line(mistake, says):
    with pytest.raises(PersistorError, match=says) as caught:
        mistake()
    assert "\n" not in str(caught.value)


WITHOUT_A_CHECKER = """
import persistor
from persistor import CMRU, Backbone, Experiment, TrainingSpec, load, save, train
import jax
import numpy as np
from persistor import TASKS, Classification, Run, evaluate, gradient_flow, quantisation_limit
from persistor.tasks import own_task
from persistor.tasks.own_data import Reading
key = jax.random.key(0)
cell = CMRU(8, 3, key=key)
model = Backbone(4, 2, (cell,), width=8, key=key)
x, bits = np.zeros((2, 5, 4), np.float32), TASKS["parity"]().split("test")
for mistake in (
    lambda: model("abc"),
    lambda: model(None),
    lambda: model(np.array([["a"]])),
    lambda: model(x.astype(complex)),
    lambda: model(x[:, :0]),
    lambda: model([[1.0], [1.0, 2.0]]),
    lambda: model(x, lengths=[1.5, 2.0]),
    lambda: model(x, lengths=[9, 2]),
    lambda: model(x, lengths=[-1, 2]),
    lambda: model(x, lengths="ab"),
    lambda: model(x, 5),
    lambda: model.step(x[:, 0], 5),
    lambda: model.step("a", model.initial_state()),
    lambda: model.initial_state("a"),
    lambda: model.initial_state((-1,)),
    lambda: model.initial_state(2),
    lambda: cell(np.zeros((5, 8)), "state"),
    lambda: cell.step(np.zeros(8), "state"),
    lambda: cell.initial_state((2.5,)),
    lambda: CMRU(8, 3, key=None),
    lambda: CMRU(8, 3, key=0),
    lambda: persistor.LRU(8, 3, key=0),
    lambda: Backbone(4, 2, (cell,), width=8, key=0),
    lambda: evaluate("m", bits, Classification()),
    lambda: evaluate(model, "test", Classification()),
    lambda: evaluate(model, bits, "accuracy"),
    lambda: evaluate(model, bits, Classification(), batch=0),
    lambda: own_task(3),
    lambda: own_task("nowhere"),
    lambda: own_task(".", 3),
    lambda: Reading(clip="long"),
    lambda: Reading(group_by=3),
    lambda: Reading(columns="a"),
    lambda: load("parity").predict(None),
    lambda: load("parity").predict("nowhere.npy"),
    lambda: load("parity").predict(np.zeros((3, 1)))[0].top("a"),
    lambda: train(Experiment.of("parity", steps=1), runs=5),
    lambda: save(model, 5),
    lambda: TASKS["parity"]().split("tset"),
    lambda: TASKS["parity"]().with_length("a"),
    lambda: Run.open("nowhere"),
    lambda: Run.create("parity", "runs"),
    lambda: Run.create(Experiment.of("parity"), 5),
    lambda: gradient_flow("a"),
    lambda: quantisation_limit("a"),
    lambda: CMRU("nonsense", 3, key=jax.random.key(0)),
    lambda: CMRU(8, 3, epsilon="x", key=jax.random.key(0)),
    lambda: Backbone(2, 3, cell, width=8, key=jax.random.key(0)),
    lambda: Backbone(2, 3, (cell,), width=8, pooling="bogus", key=jax.random.key(0)),
    lambda: Backbone(2, 3, (cell,), width=8, architecture="paper", key=jax.random.key(0)),
    lambda: Experiment.of(3),
    lambda: Experiment("smnist"),
    lambda: Experiment.of("smnist", cell=3),
    lambda: Experiment.of("smnist", architecture=3),
    lambda: Experiment.of("smnist", changes="norm=first"),
    lambda: Experiment.of("copy-first-discrete", length="5"),
    lambda: Experiment.of("parity", learning_rate="fast"),
    lambda: Experiment.of("parity", learning_rate=True),
    lambda: Experiment.of("parity", stop_early="yes"),
    lambda: Experiment.of("parity", batch=2.5),
    lambda: TrainingSpec(anneal="no"),
    lambda: train("parity"),
    lambda: save(3, "model.safetensors"),
    lambda: load(3),
):
    try:
        mistake()
        print("accepted: line", mistake.__code__.co_firstlineno)
    except persistor.PersistorError as error:
        assert len(str(error).splitlines()) == 1
assert Backbone(2, 3, (cell,), width=8, pooling="mean", key=jax.random.key(0)).pooling == "mean"
"""


def test_things_of_the_wrong_type_get_one_line_too():
    """In a process of its own: here, types are checked before our own code sees them."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_CHECKER], env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_is_no_number_is_not_swallowed(name, wrong):
    """Hard gates compare, and would answer as if nothing had happened."""
    cell = CELLS[name](8, 3, key=KEY)
    model = Backbone(4, 2, (cell,), width=8, key=KEY)
    for module, features in ((cell, 8), (model, 4)):
        x = np.zeros((2, 5, features), np.float32)
        x[1, 2, 3] = wrong
        with pytest.raises(PersistorError, match="number at sequence 1, step 2, feature 3"):
            module(x)
        with pytest.raises(PersistorError, match="number at sequence 1, step 0, feature 3"):
            module.step(jnp.asarray(x[:, 2]), module.initial_state((2,)))
        padded, _ = module(x, lengths=jnp.array([5, 2]))
        assert padded.shape[0] == 2  # what is beyond the end does not count
    with pytest.raises(PersistorError, match="number at row 1, feature 0"):
        model(Indexed(jnp.eye(4).at[1, 0].set(wrong), jnp.zeros((2, 5), jnp.int32)))


class Numbers(eqx.Module):
    """Sequences whose mean is to be predicted."""

    values: jax.Array

    @property
    def size(self):
        return len(self.values)

    def at(self, indices):
        x = self.values[indices]
        return Batch(Dense(x[..., None]), x.mean(1, keepdims=True))


@dataclass(frozen=True)
class Torn(Task):
    """A task whose validation holds what is no number."""

    summary: ClassVar[str] = "the mean"
    inputs: ClassVar[int] = 1
    outputs: ClassVar[int] = 1
    objective = Regression()
    pooling = Pooling.MEAN
    chance: ClassVar[float] = 1.0

    def split(self, name):
        return Numbers(jnp.full((8, 4), jnp.nan if name == "valid" else 1.0))


def test_a_task_of_ones_own_with_what_is_no_number_is_not_trained(tmp_path):
    with pytest.raises(PersistorError, match="split valid holds a value that is not a finite"):
        train(Experiment.of(Torn(), tiny=True, steps=2), runs=tmp_path)


def test_a_start_that_no_cell_has_says_nothing():
    assert Experiment.of("smnist", cell="lru", changes={"hold": 3}) == Experiment.of(
        "smnist", cell="lru"
    )


@pytest.mark.parametrize("kind", CELLS.values(), ids=CELLS)
def test_a_constructor_has_the_defaults_that_the_options_declare(kind):
    given = inspect.signature(kind).parameters
    assert {o.name for o in kind.options} == set(given) - {"input_size", "state_size", "key"}
    for option in kind.options:
        assert given[option.name].default == option.default
        assert option.checked(option.default) == option.default


def test_the_options_on_the_command_line_are_those_that_cells_declare():
    from persistor.cli.options import CELL_OPTIONS

    declared = {option.name for kind in CELLS.values() for option in kind.options}
    assert set(CELL_OPTIONS.__dataclass_fields__) == declared
    assert len(declared) >= 6


PROGRAM = """
import jax
import numpy as np

import persistor
from persistor import CMRU, Architecture, Backbone, Experiment, MinGRU, Pooling, load, save, train

key = jax.random.key(0)
cell = CMRU(16, 4, epsilon=0.5, hold=2.0, key=key)
outputs, state = cell(np.zeros((10, 16), np.float32))
size: int = cell.state_size + cell.input_size
first = cell.initial_state((3,))
model = Backbone(2, 3, (cell,), width=16, pooling=Pooling.MEAN, key=key)
save(model, "model.safetensors")
back: Backbone = load("model.safetensors")
alone: CMRU = load("cell.safetensors", CMRU)
experiment = Experiment.of("parity", cell="cmru", epsilon=-1.0, steps=128)
result = train(experiment, runs="runs")
hybrid = Experiment.of("smnist", cell=(MinGRU, CMRU), blocks=2)
reading = Architecture(norm="first", gate="before")

CMRU("nonsense")  # wrong
CMRU(16, "4", key=key)  # wrong
CMRU(16, 4, hold="high", key=key)  # wrong
CMRU(16, 4, thresholds="wild", key=key)  # wrong
CMRU(16, 4, epsilom=1.0, key=key)  # wrong
MinGRU(16, 4, epsilon=1.0, key=key)  # wrong
Backbone(2, 3, cell, key=key)  # wrong
Backbone(2, 3, (cell,), pooling="mean", key=key)  # wrong
Architecture(norm="last")  # wrong
Experiment.of(3)  # wrong
Experiment.of("parity", steps="many")  # wrong
train("parity")  # wrong
save(3, "model.safetensors")  # wrong
cell.nonsense  # wrong
persistor.Nonsense  # wrong
wrong_kind: MinGRU = load("cell.safetensors", CMRU)  # wrong
cell.step(np.zeros(16))  # wrong
"""
WRONG = {n for n, line in enumerate(PROGRAM.splitlines(), 1) if "# wrong" in line}


@pytest.fixture
def program(tmp_path):
    """A user's program, whose marked lines a checker must find."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def test_there_are_mistakes_to_find():
    assert len(WRONG) > 10


@pytest.mark.slow
def test_pyright_finds_every_mistake_and_no_other(program):
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    said = subprocess.run([*command, str(program)], capture_output=True, text=True).stdout
    errors = [d for d in json.loads(said)["generalDiagnostics"] if d["severity"] == "error"]
    assert {d["range"]["start"]["line"] + 1 for d in errors} == WRONG


@pytest.mark.slow
def test_mypy_finds_every_mistake_and_no_other(program, tmp_path):
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "--no-error-summary"]
    command += ["--cache-dir", str(tmp_path / "cache"), str(program)]
    said = subprocess.run(command, capture_output=True, text=True).stdout
    assert {int(line) for line in re.findall(r"program.py:(\d+): error", said)} == WRONG
