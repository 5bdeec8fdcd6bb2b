"""The paper's numbers, digit by digit, and everything that stands on them."""

import csv
import re
from importlib.resources import files
from pathlib import Path

import latex
import pytest

from persistor import PersistorError
from persistor.paper.tables import table, tables
from persistor.tasks import TASKS

SOURCES = sorted((Path(__file__).parents[2] / "shared" / "paper").glob("*.txt"))


@pytest.fixture(scope="module")
def paper():
    if not SOURCES:
        pytest.skip("the paper is not at hand")
    return SOURCES[0].read_text()


def stored():
    """The rows of numbers.tsv as the LaTeX reader gives them."""
    text = (files("persistor.paper") / "numbers.tsv").read_text()
    for line in csv.DictReader(text.splitlines(), delimiter="\t"):
        numbers = " ".join(line.pop(name) for name in ("mean", "low", "high"))
        if numbers.strip():
            yield (*line.values(), numbers)


def test_our_numbers_are_the_papers_in_both_directions(paper):
    published = latex.rows(paper)
    assert len(published) == len(re.findall(latex.ENTRY, paper)) > 400
    assert sorted(stored()) == sorted(published)


def test_no_table_of_the_paper_is_left_out(paper):
    read = {
        label for label in latex.labels(paper) if f'"{label}"' in Path(latex.__file__).read_text()
    }
    assert read == set(latex.labels(paper))


def test_budgets_are_the_papers(paper):
    budgets = latex.budgets(paper)
    names = {
        "CopyFirst": "copy-first",
        "sCIFAR-10": "scifar10",
        "LM": "shakespeare",
        "KWS": "kws",
    }
    seen = 0
    for name, steps in budgets.items():
        for task, kind in TASKS.items():
            if task.startswith(names.get(name, name.lower())):
                assert kind.steps == steps
                seen += 1
    assert seen >= 4


def test_every_entry_is_in_order():
    assert sum(len(t.rows) for t in tables().values()) == 416
    for t in tables().values():
        assert t.rows
        labels = [t.label(row) for row in t.rows]
        assert len(set(labels)) == len(labels)
        for row in t.rows:
            if row.published is not None:
                # Means and extremes are rounded each for itself.
                assert row.published.low <= row.published.mean <= row.published.high


def test_every_row_of_a_registered_task_is_an_experiment():
    seen = set()
    for t in tables().values():
        for row in t.rows:
            if row.task not in TASKS:
                with pytest.raises(PersistorError, match=f"{row.task} is not in this version"):
                    row.experiment()
                continue
            one, tenth = row.experiment(seed=2), row.experiment(seed=2, budget=0.1)
            assert not one.reduced
            assert tenth.training.steps == one.task.steps // 10
            assert one.seed == 2
            assert one.model.cells == row.cells
            assert one.task.objective.metric == t.metric
            assert one.task.objective.higher_is_better == t.higher_is_better
            seen.add(one.name)
    assert len(seen) >= 16 + 28 + 28 + 84 + 4


def test_rows_are_chosen_by_their_options():
    noisy = table("copy-first-noisy")
    chosen = noisy.only(("cell=cmru,lru", "length=100,300", "state=16", "blocks=1"))
    assert [noisy.label(row) for row in chosen.rows] == [
        "cmru d 16 r 1 L 100",
        "cmru d 16 r 1 L 300",
        "lru d 16 r 1 L 100",
        "lru d 16 r 1 L 300",
    ]
    hybrid = table("shakespeare").only(("cell=mingru,cmru",))
    assert [row.cells for row in hybrid.rows] == [("mingru", "cmru")]
    assert table("parity").row(cell="lru").published.mean == 0.4988


@pytest.mark.parametrize(
    ("name", "filters", "says"),
    [
        ("party", (), "did you mean parity"),
        ("parity", ("cmru",), "write cell=cmru"),
        ("parity", ("cel=cmru",), "did you mean cell"),
        ("parity", ("cell=cmur",), "did you mean cmru"),
        ("parity", ("cell=lru", "epsilon=1"), "no row of parity"),
    ],
)
def test_wrong_choices_are_explained(name, filters, says):
    with pytest.raises(PersistorError, match=says):
        table(name).only(filters)
