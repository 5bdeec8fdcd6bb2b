"""Laws of the tasks: what a batch holds, and that an index always means the same example."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from publishers import SHARE, on_data, publish_all

from persistor import (
    TASKS,
    Dense,
    Experiment,
    ModelSpec,
    PersistorError,
    Pooling,
    Run,
    TrainingSpec,
    train,
)
from persistor.cli import main
from persistor.cli.train import outcome
from persistor.data import shakespeare
from persistor.data.dataset import SPLITS
from persistor.paper.budgets import BUDGETS
from persistor.paper.tables import table
from persistor.reproduction.comparison import compare_both
from persistor.reproduction.outcomes import Outcome
from persistor.reproduction.plan import experiment_of
from persistor.tasks import KINDS, Batch, Task, computed
from persistor.tasks.task import Classification, split_key

NAMES = sorted(TASKS)
COPY = [name for name in NAMES if name.startswith("copy")]
MNIST = ["smnist", "pmnist", "pmnist-24", "pmnist-36"]
KWS = [name for name in NAMES if TASKS[name].data == "speech-commands"]
BALANCED = ["kws-all", "kws-digits", "kws-yes"]
TEXT = ["imdb", "shakespeare", "tinyshakespeare"]
ANY_LENGTH = ["parity", *(name for name in NAMES if TASKS[name].length)]
SIZES = {
    **dict.fromkeys(COPY, (10_000, 2_000, 2_000)),
    **dict.fromkeys(MNIST, (50_000, 10_000, 10_000)),
    "parity": (2**31 - 1, 2**31 - 1, 3_200),
    "scifar10": (45_000, 5_000, 10_000),
    "imdb": tuple(n // SHARE for n in (40_000, 5_000, 5_000)),
    "pathfinder": tuple(n // SHARE for n in (160_000, 20_000, 20_000)),
    "listops": (96_000, 2_000, 2_000),
    "kws-digits": tuple(11 * n for n in (96, 12, 12)),  # of 120 clips a word
    "kws-yes": tuple(2 * n for n in (96, 12, 12)),
    "kws-all": tuple(35 * n for n in (96, 12, 12)),
    "kws-12": (1_000 * 36 * 80, 240, 240),  # training clips vary
    "kws-words": (1_000 * 35 * 80, 35 * 20, 35 * 20),
    "shakespeare": (34_020 - 256, 1_890 // 256, 1_890 // 256),  # of 42 * 900 characters
    "tinyshakespeare": (36_000 - 256, 2_000 // 256, 2_000 // 256),
}


@pytest.fixture(scope="module", autouse=True)
def data(tmp_path_factory):
    """Data sets made up in their publishers' form, by name."""
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PERSISTOR_DATA", str(folder))
        yield publish_all(folder)


@pytest.fixture(scope="module")
def task_on(data):
    """A registered task, reading the made-up data."""

    def make(name, **options):
        kind = TASKS[name]
        return (on_data(kind, data[kind.data]) if kind.data else kind)(**options)

    return make


@pytest.fixture(scope="module")
def small(task_on):
    """A registered task with short sequences."""

    def make(name):
        if name == "parity":
            return task_on(name, train_lengths=(5, 9), test_lengths=(5, 20))
        return task_on(name, length=12) if name in COPY else task_on(name)

    return make


def test_registry_is_not_empty():
    assert len(NAMES) >= 4


@pytest.mark.parametrize("name", sorted(KINDS))
def test_every_task_is_declared(name):
    kind = KINDS[name]
    assert kind.name == name
    assert issubclass(kind, Task)
    assert dataclasses.is_dataclass(kind)
    assert kind.summary
    assert not [other for other in KINDS.values() if other is not kind and issubclass(other, kind)]
    options = {field.name for field in dataclasses.fields(kind)}
    assert bool(kind.length) == ("length" in options)
    assert ("version" in options) == (name in KWS)


@pytest.mark.parametrize("name", NAMES)
def test_names_are_there_for_every_letter_and_class(name):
    task = TASKS[name]
    assert len(task.letters) in (0, task.inputs)
    assert len(task.classes) in (0, task.outputs)


@dataclasses.dataclass(frozen=True)
class Majority(Task):
    """Were there more ones than zeros? A task that no registry knows."""

    length: int = 9

    summary = "more ones than zeros"
    inputs = 1
    outputs = 2
    objective = Classification()
    pooling = Pooling.LAST
    chance = 0.5

    def split(self, name):
        return Votes(split_key(name), self.length)


class Votes(eqx.Module):
    key: jax.Array
    length: int = eqx.field(static=True)
    size: int = eqx.field(static=True, default=64)

    def at(self, indices):
        bits = jax.random.bernoulli(self.key, 0.5, (self.size, self.length))[indices]
        return Batch(Dense(bits.astype(jnp.float32)[..., None]), jnp.median(bits, 1).astype(int))


def test_a_task_of_your_own_trains_without_being_registered(tmp_path):
    task = Majority().with_length(5)
    assert (task, task.name) == (Majority(5), "Majority")
    model = ModelSpec(("cmru",), state_size=2, width=8)
    run = Run.create(Experiment(task, model, TrainingSpec(steps=3, batch=4)), tmp_path)
    assert run.path.name.startswith("Majority-L5-cmru-")
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        result = train(run)
    assert 0 <= result["test"]["accuracy"] <= 1
    assert not {"budget", "paper_steps"} & set(result)  # it is not in the paper
    assert run.model() is not None
    with pytest.raises(PersistorError, match="unknown task 'Majority'"):
        Run.open(run.path)


def test_a_member_may_be_computed_from_the_options():
    @dataclasses.dataclass(frozen=True)
    class Several(Majority):
        kinds: int = 3

        @computed
        def outputs(self):
            return self.kinds

    assert Several(kinds=5).outputs == 5
    assert "outputs" not in dataclasses.asdict(Several())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("split", SPLITS)
def test_an_index_always_means_the_same_example(name, split, small):
    data = small(name).split(split)
    one = data.at(jnp.array([3, 5, 4], jnp.int32))
    two = data.at(jnp.array([5], jnp.int32))
    np.testing.assert_array_equal(one.inputs.dense()[1], two.inputs.dense()[0])
    np.testing.assert_array_equal(one.targets[1], two.targets[0])


@pytest.mark.parametrize("name", NAMES)
def test_shapes_and_scores(name, small):
    task = small(name)
    batch = task.split("test").at(jnp.arange(6, dtype=jnp.int32))
    assert batch.inputs.dense().shape[-1] == task.inputs
    steps = (batch.inputs.length,) if task.pooling is Pooling.NONE else ()
    outputs = jax.random.normal(jax.random.key(0), (6, *steps, task.outputs))
    assert task.objective.loss(outputs, batch.targets).shape == (6,)
    assert task.objective.score(outputs, batch.targets).shape == (6,)
    if batch.targets.dtype == jnp.int32:
        assert 0 <= batch.targets.min() <= batch.targets.max() < task.outputs


@pytest.mark.parametrize("name", NAMES)
def test_splits_differ_and_have_the_papers_sizes(name, small):
    task = small(name)
    splits = {s: task.split(s) for s in SPLITS}
    if name in BUDGETS:  # a task of the paper
        assert tuple(splits[s].size for s in SPLITS) == SIZES[name]
    index = jnp.arange(6, dtype=jnp.int32)
    batches = [splits[s].at(index) for s in SPLITS]
    contents = [np.asarray(b.inputs.dense()[..., :20, :]).tobytes() for b in batches]
    targets = [np.asarray(b.targets).tobytes() for b in batches]
    assert len({*zip(contents, targets, strict=True)}) == 3


def test_copy_first_shows_its_target_once(small):
    batch = small("copy-first-discrete").split("train").at(jnp.arange(50, dtype=jnp.int32))
    x = np.asarray(batch.inputs.dense())
    assert np.array_equal(x[:, 0].argmax(-1), batch.targets)
    assert np.array_equal(x[:, 0].sum(-1), np.ones(50))
    assert not x[:, 1:].any()
    for name in ("copy-first-clean", "copy-first-noisy", "copy-first-grid"):
        batch = small(name).split("train").at(jnp.arange(500, dtype=jnp.int32))
        x = np.asarray(batch.inputs.dense())
        np.testing.assert_array_equal(x[:, 0], batch.targets)
        assert -1 <= x.min() < -0.9
        assert 0.9 < x.max() <= 1
        assert x[:, 1:].any() == (name != "copy-first-clean")


@pytest.mark.parametrize("cell", ["cmru", "mingru"])
def test_a_grid_is_the_same_written_out(cell):
    """Loss and gradients for every weight."""
    task = TASKS["copy-first-grid"](length=12)
    batch = task.split("train").at(jnp.arange(8, dtype=jnp.int32))
    model = Experiment(task, ModelSpec((cell,), state_size=3, width=8, encoding=4)).build()

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def loss(model, inputs):
        return task.objective.loss(model(inputs)[0], batch.targets).mean()

    ours, plain = loss(model, batch.inputs), loss(model, Dense(batch.inputs.dense()))
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_a_run_on_a_grid_is_labelled(tmp_path, capsys):
    """In its result, in its last line, and where it is evaluated."""
    experiment = Experiment.of("copy-first-grid", tiny=True, length=3, steps=2)
    assert (experiment.model.state_size, experiment.model.blocks) == (4, 1)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        result = train(experiment, runs=tmp_path)
        assert result["variant_of"] == "copy-first-noisy"
        assert "of our variant of copy-first-noisy" in outcome(experiment, result)
        for asked, said in (([], "copy-first-grid is our variant"), (["--json"], '"variant_of"')):
            with pytest.raises(SystemExit):
                main(["evaluate", str(tmp_path / experiment.name), *asked])
            assert said in capsys.readouterr().out


def test_a_run_on_a_grid_is_in_no_table():
    paper_table = table("copy-first-noisy")
    measured = experiment_of(paper_table.rows[0])
    on_a_grid = dataclasses.replace(measured, task=TASKS["copy-first-grid"](measured.task.length))
    for experiment, count in ((measured, 1), (on_a_grid, 0)):
        found = compare_both(paper_table, [Outcome(experiment, 0.1)])
        assert len(found.measured) == count


def test_symbols_are_uniform(small):
    symbols = np.asarray(small("copy-first-discrete").split("train").symbols)
    assert np.bincount(symbols, minlength=15).min() > 550  # 667 expected


def test_parity_is_parity_within_its_lengths(small):
    for split, (shortest, longest) in (("train", (5, 9)), ("test", (5, 20))):
        batch = small("parity").split(split).at(jnp.arange(400, dtype=jnp.int32))
        bits, lengths = np.asarray(batch.inputs.dense())[..., 0], np.asarray(batch.lengths)
        assert (lengths.min(), lengths.max()) == (shortest, longest)
        for row, length, target in zip(bits, lengths, np.asarray(batch.targets), strict=True):
            assert row[:length].sum() % 2 == target
            assert not row[length:].any()
        assert 0.4 < np.mean(batch.targets) < 0.6


@pytest.mark.parametrize("name", ANY_LENGTH)
def test_another_length(name, small):
    batch = small(name).with_length(31).split("test").at(jnp.arange(2, dtype=jnp.int32))
    assert batch.inputs.length == 31


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(ANY_LENGTH)))
def test_what_has_a_length_of_its_own_has_no_other(name, task_on):
    with pytest.raises(PersistorError, match="leave the length out"):
        task_on(name).with_length(31)


@pytest.mark.parametrize("name", ANY_LENGTH)
@pytest.mark.parametrize("length", [0, -5])
def test_a_length_without_steps_is_refused(name, length, small):
    with pytest.raises(PersistorError, match="at least 1"):
        small(name).with_length(length)


def test_permuted_pixels_are_the_same_pixels(task_on):
    index = jnp.arange(20, dtype=jnp.int32)
    plain = np.asarray(task_on("smnist").split("train").at(index).inputs.dense())[..., 0]
    orders = set()
    for name in MNIST[1:]:
        mixed = np.asarray(task_on(name).split("train").at(index).inputs.dense())[..., 0]
        np.testing.assert_array_equal(np.sort(mixed), np.sort(plain))
        assert (mixed != plain).any()
        orders.add(mixed.tobytes())
    assert len(orders) == 3


def test_reviews_are_read_to_their_end_or_the_length(task_on):
    split = task_on("imdb", length=500).split("train")
    batch = split.at(jnp.linspace(0, split.size - 1, 200).astype(jnp.int32))  # short and long ones
    ids, lengths = np.asarray(batch.inputs.ids), np.asarray(batch.lengths)
    assert ids.shape == (200, 500)
    assert lengths.max() == 500 > lengths.min()
    for row, length, target in zip(ids, lengths, np.asarray(batch.targets), strict=True):
        text = bytes(row[:length].astype(np.uint8)).decode()
        assert (" pos " in text) == bool(target)
        assert not row[length:].any()


@pytest.mark.parametrize("split", SPLITS)
def test_half_of_the_reviews_are_favourable(split, task_on):
    assert float(task_on("imdb").split(split).targets.mean()) == 0.5


def test_reviews_and_clips_are_in_one_part_only(task_on):
    starts = [np.asarray(task_on("imdb").split(s).starts) for s in SPLITS]
    assert len(np.unique(np.concatenate(starts))) == 50_000 // SHARE
    for name in KWS:
        clips = np.concatenate([task_on(name).split(s).features for s in SPLITS])
        assert len(np.unique(clips.reshape(len(clips), -1), axis=0)) == len(clips)


@pytest.mark.parametrize("name", BALANCED)
@pytest.mark.parametrize("split", SPLITS)
def test_classes_of_words_are_balanced(name, split, task_on):
    data = task_on(name).split(split)
    assert len(set(np.bincount(data.targets))) == 1
    if split == "train":
        x = np.asarray(data.at(jnp.arange(data.size, dtype=jnp.int32)).inputs.dense())
        np.testing.assert_allclose(x.mean((0, 1)), 0, atol=1e-2)
        np.testing.assert_allclose(x.std((0, 1)), 1, atol=1e-2)


def test_what_follows_is_what_follows(task_on):
    task = task_on("shakespeare", length=40)
    batch = task.split("train").at(jnp.array([0, 1, 40], jnp.int32))
    ids, targets = np.asarray(batch.inputs.ids), np.asarray(batch.targets)
    np.testing.assert_array_equal(ids[:, 1:], targets[:, :-1])
    np.testing.assert_array_equal(ids[1], targets[0])
    assert ids[2, 0] == targets[0, -1]
    test = task.split("test")
    pieces = np.asarray(test.at(jnp.arange(test.size, dtype=jnp.int32)).inputs.ids)
    text = "".join(task.letters[i] for i in pieces.ravel())
    assert text.encode() in shakespeare.load(task.source)


def test_a_text_that_is_too_short_is_refused(task_on):
    with pytest.raises(PersistorError, match="too short"):
        task_on("shakespeare", length=5_000).split("test")


def test_a_run_stays_with_its_version_of_the_words(task_on):
    with pytest.raises(PersistorError, match=r"has version 0\.02"):
        task_on("kws-digits", version="0.01").split("train")
    with pytest.raises(PersistorError, match=r"0\.01 or 0\.02"):
        task_on("kws-digits", version="3")
