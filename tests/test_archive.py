"""Runs in an archive are those that were written there: every kind of edit is found.

The page of results is what the committed runs make of it, and no difference goes unexplained.
"""

import copy
import hashlib
import json
import zipfile

import pytest
from committed import RESULTS, committed, unpack

from persistor import PersistorError
from persistor.cli import main
from persistor.data import speech
from persistor.paper.tables import table, tables
from persistor.report.markdown import markdown
from persistor.reproduction.archive import Archive, digest_of, line_of
from persistor.reproduction.comparison import compare, overall
from persistor.reproduction.outcomes import Outcome, find_outcomes
from persistor.reproduction.plan import experiment_of
from persistor.reproduction.record import read_folder

FULL = "copy-first-discrete-L1000-cmru-eps1-d4-r1-seed0-"  # with evaluate.json
RICH = "copy-first-discrete-L100-cmru-annealed-d32-"  # reduced, with inspect.json too


@pytest.fixture(scope="module")
def run():
    return committed(FULL)


@pytest.fixture
def archive(run, tmp_path):
    """An archive of one run."""
    archive = Archive(tmp_path / "archive")
    assert archive.add([run]) == {run.name: "added"}
    assert [o.record.name for o in find_outcomes(archive.folder)[0]] == [run.name]
    return archive


def line(archive):
    return json.loads((archive.folder / "runs.jsonl").read_text())


def rewrite(archive, value):
    (archive.folder / "runs.jsonl").write_text(json.dumps(value) + "\n")


def rezip(archive, members):
    (path,) = (archive.folder / "curves").iterdir()
    with zipfile.ZipFile(path, "w") as file:
        for name, text in members.items():
            file.writestr(f"{name}.jsonl", text)


def problem(archive):
    """What is wrong with the one run of an archive: told when reading, and when checking."""
    outcomes, problems = find_outcomes(archive.folder)
    assert outcomes == []
    assert len(problems) == 1
    assert "\n" not in problems[0]
    assert archive.check()
    return problems[0]


def leaves(value, path=()):
    """The paths to all values inside lists and dictionaries."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[key], (*path, key))
    else:
        yield path


def edited(value, path):
    """A copy with one value changed."""
    value = copy.deepcopy(value)
    inner = value
    for key in path[:-1]:
        inner = inner[key]
    old = inner[path[-1]]
    inner[path[-1]] = not old if isinstance(old, bool) else f"{old}x" if old else 1
    if isinstance(old, int | float) and not isinstance(old, bool):
        inner[path[-1]] = old + 1
    return value


def test_the_committed_archive_is_whole():
    assert Archive(RESULTS).check() == []
    lines = (RESULTS / "runs.jsonl").read_text().splitlines()
    assert lines == [line_of(record) for record in Archive(RESULTS).read()[0]]
    assert len(lines) >= 126
    assert Archive(RESULTS).printed()


def test_runs_of_another_reading_are_whole_too():
    """No experiment of today describes them; their names are still hashes, and curves theirs."""
    lines = (RESULTS / "norm-first.jsonl").read_text().splitlines()
    assert len(lines) == 20
    with zipfile.ZipFile(RESULTS / "norm-first.zip") as file:
        for value in map(json.loads, lines):
            text = json.dumps(value["experiment"], sort_keys=True, separators=(",", ":"))
            assert value["run"].endswith(hashlib.sha256(text.encode()).hexdigest()[:16])
            curve = file.read(f"{value['run']}.jsonl").decode()
            assert value["digest"] == digest_of(value, curve)


def test_a_run_comes_out_as_it_went_in(tmp_path):
    folder = unpack(committed(RICH), tmp_path)
    archive = Archive(tmp_path / "archive")
    archive.add([read_folder(folder)])
    ((record,), ()) = archive.read()
    assert record.result == json.loads((folder / "result.json").read_text())
    assert record.experiment.to_json() == json.loads((folder / "experiment.json").read_text())
    assert record.curve == (folder / "progress.jsonl").read_text()
    assert set(record.extras) == {"evaluate", "inspect"}
    for name, value in record.extras.items():
        assert value == json.loads((folder / f"{name}.json").read_text())


def test_no_value_of_a_line_can_be_edited_unseen(archive, run):
    value = line(archive)
    paths = list(leaves(value))
    assert len(paths) > 30
    for path in paths:
        rewrite(archive, edited(value, path))
        said = problem(archive)
        assert run.name in said or path == ("run",) or "line 1" in said
    rewrite(archive, value)
    assert archive.check() == []


FORGERIES = [
    (lambda v: v["result"]["valid"].update(accuracy=0.999), "its curve disagree"),
    (lambda v: v["result"]["valid"].update(step=64), "its curve disagree"),
    (lambda v: v["result"]["valid"].update(step=5), "is damaged"),
    (lambda v: v["result"].update(steps=5), "its curve disagree"),
    (lambda v: v["result"]["test"].update(accuracy=1.5), "test accuracy is 1.5"),
    (lambda v: v["result"]["test"].update(accuracy=float("nan")), "test accuracy is nan"),
    (lambda v: v["result"]["test"].update(accuracy="good"), "is damaged"),
    (lambda v: v["result"].update(test=None), "is damaged"),
    (lambda v: v["result"].pop("test"), "is damaged"),
    (lambda v: v["result"].update(budget="reduced"), "disagree on the budget"),
    (lambda v: v["result"].update(experiment={}), "another experiment"),
    (lambda v: v["result"].update(run="another"), "another experiment"),
    (lambda v: v["experiment"].update(seed=4), "its name does not match its experiment"),
    (lambda v: v["experiment"].update(note="?"), "another experiment"),
    (lambda v: v["experiment"]["task"].update(name="../x"), "unknown task"),
    (lambda v: v["experiment"].pop("model"), "not the description"),
    (lambda v: v.update(run=v["run"][:-1] + "x"), "its name does not match its experiment"),
    (lambda v: v.pop("result"), "does not describe a run"),
    (lambda v: v.update(result=[]), "does not describe a run"),
]


@pytest.mark.parametrize(("edit", "says"), FORGERIES)
def test_a_forged_digest_does_not_help(archive, run, edit, says):
    value = line(archive)
    edit(value)
    value["digest"] = digest_of(value, run.curve)
    rewrite(archive, value)
    assert says in problem(archive)


def test_a_run_without_its_own_curve_is_left_out(archive, run):
    (path,) = (archive.folder / "curves").iterdir()
    whole = path.read_bytes()
    for curve in (run.curve.replace("0", "1", 1), run.curve + "\n", committed(RICH).curve, ""):
        rezip(archive, {run.name: curve})
        assert "its" in problem(archive)
    rezip(archive, {"another": run.curve})
    assert "its curve is not in" in problem(archive)
    path.write_bytes(whole[: len(whole) // 2])
    assert "damaged" in problem(archive)
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :])
    assert "damaged" in problem(archive)
    path.unlink()
    assert "its curve is not in" in problem(archive)
    path.write_bytes(whole)
    rezip(archive, {run.name: run.curve, "another": run.curve})
    assert archive.check() == [f"{path} holds a curve of another, which has no line"]


@pytest.mark.parametrize("text", ["{", "[]", "5", '{"run": 1}', "\xff"])
def test_one_bad_line_spoils_no_other(archive, run, text):
    path = archive.folder / "runs.jsonl"
    good = path.read_text()
    path.write_text(text + "\n" + good, encoding="latin-1" if text == "\xff" else None)
    if text == "\xff":
        with pytest.raises(PersistorError, match="not text"):
            find_outcomes(archive.folder)
        return
    outcomes, problems = find_outcomes(archive.folder)
    assert [o.record.name for o in outcomes] == [run.name]
    assert len(problems) == 1
    assert "line 1 of runs.jsonl" in problems[0]
    path.write_text(good + good)
    assert "already has a line" in find_outcomes(archive.folder)[1][0]


def test_folders_and_lines_are_read_together(archive, run):
    other = unpack(committed(RICH), archive.folder)
    unpack(run, archive.folder)
    outcomes, problems = find_outcomes(archive.folder)
    assert [o.record.name for o in outcomes] == sorted([run.name, other.name])
    assert problems == []
    result = archive.folder / run.name / "result.json"
    result.write_text(json.dumps({**run.result, "seconds": 1.0}))
    outcomes, problems = find_outcomes(archive.folder)
    assert len(outcomes) == 2
    assert problems == [f"{run.name} is left out: the archive has another result of this run"]


def call(*arguments):
    """The exit status of a command."""
    with pytest.raises(SystemExit) as caught:
        main([*map(str, arguments)])
    return caught.value.code


def test_runs_are_added_by_name_or_folder_and_only_once(tmp_path, monkeypatch, capsys, run):
    monkeypatch.chdir(tmp_path)
    rich = committed(RICH)
    unpack(run, tmp_path / "runs")
    other = unpack(rich, tmp_path / "elsewhere")
    assert call("results", "add", run.name, other.relative_to(tmp_path)) == 0
    assert capsys.readouterr().out == f"added: {run.name}\nadded: {rich.name}\n"
    archive = Archive(tmp_path / "results")
    assert [record.name for record in archive.read()[0]] == sorted([run.name, rich.name])
    before = {path: path.read_bytes() for path in archive.folder.rglob("*") if path.is_file()}
    assert len(before) == 2  # runs.jsonl, and the curves of one task
    assert call("results", "add", run.name, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said == {"archive": "results", "runs": {run.name: "there already"}}
    assert {path: path.read_bytes() for path in before} == before
    assert call("results", "check", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"runs": 2, "problems": []}


def test_a_new_run_is_one_line_and_leaves_other_curves_as_they_are(archive, run):
    line_before = (archive.folder / "runs.jsonl").read_text()
    (path,) = (archive.folder / "curves").iterdir()
    start = path.read_bytes()[: len(run.curve) // 10]
    other = committed("copy-first-discrete-L300-lru")
    archive.add([other, committed("parity-cmru-eps-1-d1-r1-seed0-")])
    lines = (archive.folder / "runs.jsonl").read_text().splitlines(keepends=True)
    assert len(lines) == 3
    assert line_before in lines
    assert lines == sorted(lines)
    assert path.read_bytes().startswith(start)
    assert archive.check() == []


def test_what_was_asked_of_a_run_later_is_an_update(archive, run, tmp_path):
    folder = unpack(run, tmp_path / "runs")
    (folder / "inspect.json").write_text('{"units": []}')
    assert archive.add([read_folder(folder)]) == {run.name: "updated"}
    assert archive.read()[0][0].extras == {**run.extras, "inspect": {"units": []}}
    assert archive.add([run]) == {run.name: "there already"}
    assert archive.check() == []


def refused(capsys, *arguments):
    """What a refused command says, in one line."""
    assert call(*arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err


def test_what_does_not_belong_is_refused_in_a_line(archive, run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    before = (archive.folder / "runs.jsonl").read_text()
    add = ("results", "add", "--to", "archive")
    good = unpack(committed(RICH), tmp_path / "runs")
    folder = unpack(run, tmp_path / "runs")
    result = folder / "result.json"
    result.write_text(json.dumps({**run.result, "test": {"accuracy": 0.5}}))
    said = refused(capsys, *add, good, folder)
    assert "another result of this experiment (test accuracy 1.0000, this one 0.5000)" in said
    result.write_text(json.dumps({**run.result, "steps": 7}))
    assert "its result and its curve disagree" in refused(capsys, *add, good, folder)
    result.unlink()
    assert "not finished" in refused(capsys, *add, good, folder)
    assert "not a run folder" in refused(capsys, *add, good, "nowhere")
    assert "name a run" in refused(capsys, *add)
    moved = folder.rename(tmp_path / "runs" / "moved")
    assert "with another name" in refused(capsys, *add, good, moved)
    assert (archive.folder / "runs.jsonl").read_text() == before
    (archive.folder / "runs.jsonl").write_text("{\n")
    assert "must be repaired first" in refused(capsys, *add, good)
    assert "cannot write" in refused(capsys, "results", "add", good, "--to", good / "result.json")


def test_an_interrupted_addition_is_made_good(archive, run):
    """The curves are written first: what is left of a stop in between is written over."""
    other = committed("copy-first-discrete-L300-lru")
    rezip(archive, {run.name: run.curve, other.name: "half a cur"})
    assert archive.add([other]) == {other.name: "added"}
    assert archive.check() == []


def test_show_prints_a_run_its_curve_or_an_output(capsys, run):
    show = ("results", "show", "--runs", RESULTS)
    assert call(*show, run.name[-16:]) == 0
    assert json.loads(capsys.readouterr().out) == {**run.result, **run.extras}
    assert call(*show, run.name, "--curve") == 0
    assert capsys.readouterr().out == run.curve
    assert call(*show, "hardware/yield-ladder") == 0
    assert "spice" in json.loads(capsys.readouterr().out)
    assert "give more of the name" in refused(capsys, *show, "parity")
    assert "no run 'party'" in refused(capsys, *show, "party")
    assert "no archive" in refused(capsys, "results", "show", "x", "--runs", RESULTS / "curves")


def test_list_and_check_tell_what_does_not_count(archive, run, capsys):
    folder = ("--runs", archive.folder)
    assert call("results", "list", *folder) == 0
    assert capsys.readouterr().out == f"{run.name}  accuracy 1.0000\n"
    assert call("list", *folder, "--json") == 0
    assert json.loads(capsys.readouterr().out)["runs"] == {run.name: {"accuracy": 1.0}}
    value = line(archive)
    value["result"]["test"]["accuracy"] = 0.75
    rewrite(archive, value)
    assert call("results", "list", *folder) == 0
    assert "does not count: its line or its curve" in capsys.readouterr().out
    assert call("results", "check", *folder) == 1
    assert capsys.readouterr().out.startswith(f"{run.name}: its line or its curve")
    (archive.folder / "runs.jsonl").write_text("{\n")
    assert call("list", *folder) == 0
    assert "runs.jsonl  damaged: line 1" in capsys.readouterr().out


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


@pytest.mark.slow
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
