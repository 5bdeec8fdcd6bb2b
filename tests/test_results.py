"""The page of results is what the committed runs make of it, and no difference goes unexplained."""

import pytest
from committed import RESULTS, committed, unpack

from persistor import PersistorError
from persistor.cli import main
from persistor.data import speech
from persistor.paper.tables import table, tables
from persistor.report.markdown import markdown
from persistor.reproduction.comparison import compare, overall
from persistor.reproduction.outcomes import Outcome
from persistor.reproduction.plan import experiment_of

REMARKS = """
[[smnist-epsilon]]
entries = ["cmru eps 1"]
text = "Because."
[[smnist-state]]
entries = ["cmru d 32"]
text = "Because."
[[annealing]]
entries = ["cmru eps 1 d 32"]
text = "Because."
[[pmnist]]
entries = ["cmru smnist eps 1"]
text = "Because."
"""


@pytest.fixture
def folder(tmp_path):
    """One run, whose result is outside the published range in four tables."""
    unpack(committed("smnist-cmru-eps1-d32-r1-seed0-"), tmp_path)
    return tmp_path


@pytest.mark.parametrize("there", ["0.01", "0.02"])
def test_the_committed_page_is_that_of_the_committed_runs(there, tmp_path, monkeypatch):
    (tmp_path / f"speech_commands_v{there}").mkdir()  # it does not depend on the data that are here
    monkeypatch.setenv("PERSISTOR_DATA", str(tmp_path))
    assert speech.version() == there
    page = (RESULTS.parent / "docs" / "results.md").read_text()
    assert markdown(RESULTS) == page, "run: persistor report --runs results --page docs/results.md"


def test_a_page_has_the_measured_rows_and_what_is_said_of_them(folder):
    (folder / "differences.toml").write_text(REMARKS + "[[pmnist]]\nentries = []\ntext = 'All.'\n")
    page = markdown(folder)
    assert page.count("| 96.60 | 1 | 95.92 [95.41; 96.19] | +0.68 | better (1 in 3) | full |") == 4
    assert page.count("\n| ") == 4 * 3  # head, rule, and the one row that was measured
    assert page.count(".**\nBecause.\n") == 4
    assert "**cmru smnist eps 1.**\nBecause.\n\nAll.\n" in page
    assert "different entries that the paper publishes, 1 are measured" in page


def test_an_unexplained_difference_is_an_error(folder):
    with pytest.raises(PersistorError, match=r"smnist-epsilon.*'cmru eps 1'.*differences.toml"):
        markdown(folder)
    (folder / "differences.toml").write_text(REMARKS.replace("cmru smnist eps 1", "cmru eps 1"))
    with pytest.raises(PersistorError, match="'cmru eps 1' of pmnist, which is not measured"):
        markdown(folder)
    (folder / "differences.toml").write_text(REMARKS.split("[[pmnist]]")[0])
    with pytest.raises(PersistorError, match=r"of pmnist.*'cmru smnist eps 1'"):
        markdown(folder)


def test_the_command_writes_a_whole_page_or_none(folder, capsys):
    page = folder / "page.md"
    command = ["report", "--runs", str(folder), "--page", str(page)]
    with pytest.raises(SystemExit, match="2"):
        main(command)
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert not page.exists()
    (folder / "differences.toml").write_text(REMARKS)
    with pytest.raises(SystemExit, match="0"):
        main(command)
    assert page.read_text() == markdown(folder)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[party]]\nentries = []\ntext = ''", "did you mean parity"),
        ("[[parity]]\nentries = []", "needs entries and text"),
        ("[parity]\nentries = []\ntext = ''", "needs entries and text"),
        ("parity = 1", "needs entries and text"),
        ("[[parity]]\nentries = ['lru']\ntext = 'x'", "not measured"),
        ("[[parity]", "not TOML"),
    ],
)
def test_wrong_remarks_are_explained(folder, text, says):
    (folder / "differences.toml").write_text(text + "\n" + REMARKS)
    with pytest.raises(PersistorError, match=says) as caught:
        markdown(folder)
    assert "\n" not in str(caught.value)


def test_the_summary_counts_shared_entries_once_and_reduced_ones_apart():
    def run(name, budget=1.0, seeds=(0,), value=1.0, **row):
        return [Outcome(experiment_of(table(name).row(**row), s, budget), value) for s in seeds]

    outcomes = [
        *run("smnist-epsilon", value=0.96, cell="cmru", epsilon="1"),  # in four tables
        *run("parity", seeds=(0, 1), cell="cmru", epsilon="-1"),
        *run("parity", seeds=(0, 1), value=0.51, cell="cmru", epsilon="1"),
        *run("parity", seeds=(0, 1), value=0.9, cell="lru"),
        *run("copy-first-discrete", budget=0.1, cell="cmru", length="100"),
    ]
    total, several, single, reduced = overall(compare(t, outcomes) for t in tables().values())
    assert total.endswith("4 are measured at its full budget.")
    assert several == (
        "3 of these with two seeds or more: 1 inside the published range, 1 a blind guess like the "
        "paper's, 1 better than the published range."
    )
    assert single.startswith("1 of these with a single seed")
    assert "1 inside" in single
    assert reduced == "Measured at a reduced budget only: 1."
