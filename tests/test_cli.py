"""The command line as its users meet it: results on stdout, one line for a mistake."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import jax
import pytest
from committed import committed, unpack

from persistor import Run
from persistor.cli import main
from persistor.cli.train import Train

SMALL = ["--width", "16", "--state", "3", "--batch", "8"]
TRAIN = ["train", "copy-first-discrete", "--length", "10", "--steps", "70", *SMALL]


@pytest.fixture(autouse=True)
def as_users_have_it():
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def call(*arguments):
    with pytest.raises(SystemExit) as exit_:
        main([str(a) for a in arguments])
    return exit_.value.code or 0


def test_version(capsys):
    assert call("--version") == 0
    assert capsys.readouterr().out == f"persistor {version('persistor')}\n"


def test_train_evaluate_inspect_list(capsys, tmp_path):
    assert call(*TRAIN, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["steps"] == 70
    assert result["experiment"]["task"] == {"name": "copy-first-discrete", "length": 10}
    assert 0 <= result["test"]["accuracy"] <= 1
    assert result["seconds"] > 0

    assert call(*TRAIN) == 0
    assert "test accuracy" in capsys.readouterr().out

    assert call("evaluate", result["run"], "--lengths", 5, 20, "--json") == 0
    lengths = json.loads(capsys.readouterr().out)["results"]
    assert [r["length"] for r in lengths] == [5, 20]
    assert call("evaluate", f"runs/{result['run']}", "--json") == 0
    (again,) = json.loads(capsys.readouterr().out)["results"]
    assert again["length"] is None
    assert again["accuracy"] == result["test"]["accuracy"]

    assert call("inspect", result["run"], "--json") == 0
    looked = json.loads(capsys.readouterr().out)
    assert len(looked["units"]) == 3
    assert (tmp_path / looked["picture"]).read_bytes().startswith(b"\x89PNG")
    assert call("inspect", result["run"], "--length", 7, "--picture", "x.png") == 0
    assert "verdict" in capsys.readouterr().out

    assert call("list", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["runs"] == {result["run"]: result["test"]}
    assert "cmru" in listed["cells"]
    (tmp_path / "runs" / "torn").mkdir()
    (tmp_path / "runs" / "torn" / "experiment.json").write_text("{")
    assert call("list") == 0
    listed = capsys.readouterr().out
    assert result["run"] in listed
    assert "torn  damaged: runs/torn/experiment.json is damaged" in listed


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["train", "party"], "did you mean parity"),
        (["train", "parity", "--cell", "cmur"], "did you mean cmru"),
        (["train", "parity", "--epsilon", "2"], "[-1, 1]"),
        (["train", "parity", "--cell", "lru", "--epsilon", "0.5"], "does not apply"),
        (["train", "parity", "--levels", "4"], "use ladder"),
        (["train", "parity", "--deployable", "--levels", "0"], "at least 1"),
        (["train", "parity", "--length", "10"], "leave the length out"),
        (["train", "parity", "--anneal", "--cell", "lru"], "annealing needs"),
        (["train", "copy-first-discrete", "--length", "0"], "at least 1 step"),
        (["train", "copy-first-discrete", "--steps", "0"], "at least 1"),
        (["train", "parity", "--cell", ""], "unknown cell"),
        (["train", "parity", "--seed", str(2**32)], "between 0 and 4294967295"),
        (["evaluate", "nowhere"], "not a run folder"),
        (["data", "show", "parity", "--picture", "x.foo"], "use one of .png"),
        (["data", "show", "parity", "--picture", "nowhere/x.png"], "the folder does not exist"),
        (["report", "--page", "nowhere/x.md"], "the folder does not exist"),
        (["hardware", "yield", "runs/x", "--corner", "ss"], "--corner has no effect on a run"),
        (["hardware", "yield", "cell", "--noise", "0.1"], "--noise has no effect on cell"),
        (["hardware", "simulate", "ladder", "--everywhere"], "--everywhere has no effect"),
        (["hardware", "power", "runs/x", "--widths", "0"], "each at least 1"),
        (["inspect", "."], "not a run folder"),
        (["reproduce"], "--list"),
        (["reproduce", "party"], "did you mean parity"),
        (["reproduce", "parity", "--budget", "2"], "such as 0.05"),
        (["reproduce", "parity", "--budget", "half"], "such as 0.05"),
        (["reproduce", "parity", "--seeds", "0"], "at least 1"),
        (["reproduce", "parity", "--workers", "0"], "at least 1"),
        (["reproduce", "parity", "--only", "cell=cmur"], "did you mean cmru"),
        (["compare", "party"], "did you mean parity"),
        (["figure", "smist"], "did you mean smnist"),
        (["compare", "parity", "--runs", "elsewhere"], "there is no folder elsewhere"),
        (["figure", "--runs", "elsewhere"], "there is no folder elsewhere"),
        (["report", "--runs", "elsewhere"], "there is no folder elsewhere"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(arguments, says, capsys, tmp_path):
    assert call(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert says in captured.err
    assert not list(tmp_path.iterdir())


def test_tiny_is_a_whole_network_of_thousands():
    def parameters(**options):
        model = Train(task="copy-first-discrete", **options).experiment().build()
        return sum(array.size for array in jax.tree.leaves(model) if hasattr(array, "size"))

    assert parameters() > 500_000
    assert 1_000 < parameters(tiny=True) < 10_000
    assert 1_000 < parameters(deployable=True) < 10_000
    assert parameters(tiny=True, width=32) > parameters(tiny=True)


@pytest.mark.slow
def test_a_deployable_ladder(capsys):
    assert call(*TRAIN, "--deployable", "--levels", 3, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    model = result["experiment"]["model"]
    assert (model["cells"], model["levels"], model["encoding"]) == (["ladder"], 3, 0)
    assert result["experiment"]["training"]["anneal"] is False
    assert call("inspect", result["run"]) == 0
    assert capsys.readouterr().out.count("steps at level  0: ") == 3


def test_a_pattern_that_finds_several_runs_is_named(capsys, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "experiment.json").touch()
    assert call("inspect", "one", "two") == 2
    assert "2 runs were given, and this command takes one" in capsys.readouterr().err


@pytest.mark.slow
def test_reproduce_compare_and_figure_read_what_is_there(capsys, tmp_path):
    unpack(committed("copy-first-discrete-L1000-cmru-eps1-d4-r1-seed0-"), tmp_path / "runs")
    row = ["copy-first-discrete", "--only", "cell=cmru", "length=1000"]
    assert call("reproduce", *row, "--seeds", 1, "--json") == 0
    (repeated,) = json.loads(capsys.readouterr().out)["tables"]
    assert repeated["entries"][0]["verdict"] == "inside"
    assert call("compare", *row, "--json") == 0
    assert json.loads(capsys.readouterr().out)["tables"] == [repeated]
    assert call("compare") == 0
    shown = capsys.readouterr().out
    assert "cmru L 1000                  100.00  1" in shown
    assert "parity" not in shown
    (tmp_path / "empty").mkdir()
    assert call("compare", "--runs", "empty") == 0
    assert "no run" in capsys.readouterr().out
    assert call("reproduce", "--list", "--json") == 0
    listed = json.loads(capsys.readouterr().out)["tables"]["copy-first-discrete"]
    assert (listed["runs"], listed["done"]) == (140, 1)
    assert call("reproduce", "--list") == 0
    assert "copy-first-discrete    140     1        0" in capsys.readouterr().out
    assert call("figure", "copy-first", "--json") == 0
    pdf, png = json.loads(capsys.readouterr().out)["figures"]
    assert (tmp_path / pdf).read_bytes().startswith(b"%PDF")
    assert (tmp_path / png).read_bytes().startswith(b"\x89PNG")


def test_a_runs_folder_that_cannot_be_written(capsys, tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert call(*TRAIN, "--runs", "file") == 2
    assert "file" in capsys.readouterr().err


def test_help_comes_at_once():
    for command in ([], ["train"], ["evaluate"], ["inspect"], ["list"]):
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "persistor.cli", *command, "--help"], capture_output=True
        )
        assert done.returncode == 0
        assert b"usage: persistor" in done.stdout
        assert b"\x1b" not in done.stdout
        assert time.monotonic() - began < 5  # under one second when the machine is not busy


ALLOCATE = """if True:
    import resource, sys
    from persistor._tools.machine import keep_freed_memory
    if sys.argv[1] == "keep" and not keep_freed_memory():
        sys.exit(3)
    def faults():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        bytearray(64 << 20)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    for _ in range(3):
        faults()
    print(faults())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc")
def test_a_large_block_comes_without_new_pages():
    def faults(how):
        ran = subprocess.run([sys.executable, "-c", ALLOCATE, how], capture_output=True, text=True)
        if ran.returncode == 3:
            pytest.skip("not glibc")
        return int(ran.stdout)

    assert faults("keep") < 100 < faults("leave")


COMMAND = [sys.executable, "-m", "persistor.cli"]


def ended(arguments, **how):
    """A command in a process of its own, as its exit status and what it wrote to stderr."""
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **how}
    process = subprocess.Popen([*COMMAND, *map(str, arguments)], **how)
    if process.stdout is not None:
        process.stdout.close()  # nobody reads
    with process.stderr:
        said = process.stderr.read()
    return process.wait(), said


@pytest.mark.parametrize("arguments", [["--version"], ["completion", "bash"], ["list"]], ids=str)
def test_output_that_cannot_be_written_leaves_no_traceback(arguments):
    assert ended(arguments) == (1, "")
    with open("/dev/full", "w") as full:
        status, said = ended(arguments, stdout=full)
    assert (status, said.count("\n")) == (1, 1)
    assert said.startswith("persistor: cannot write to standard output: No space")


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="there may be a GPU")
@pytest.mark.parametrize("platform", ["cuda", "abacus"])
def test_a_platform_that_jax_does_not_have(platform):
    status, said = ended(["doctor"], env={**os.environ, "JAX_PLATFORMS": platform})
    assert (status, said.count("\n")) == (2, 1)
    assert f"JAX_PLATFORMS={platform} here; unset JAX_PLATFORMS" in said


@pytest.mark.slow
def test_a_file_size_limit_is_one_line_and_the_run_continues_without_it(capsys):
    assert call(*TRAIN, "--json") == 0  # so that JAX need not write what it compiles
    whole = json.loads(capsys.readouterr().out)
    shutil.rmtree("runs")
    limited = ["bash", "-c", 'ulimit -f 4; exec "$@"', "bash", *COMMAND, *TRAIN]
    done = subprocess.run(limited, capture_output=True, text=True)
    said = done.stderr
    assert (done.returncode, said.count("\n")) == (1, 1)
    assert "best.safetensors: the file would be larger than `ulimit -f` allows" in said
    assert {path.name for path in Path("runs", whole["run"]).iterdir()} == {
        ".lock",
        "experiment.json",
        "progress.jsonl",
    }
    assert call(*TRAIN, "--json") == 0
    assert json.loads(capsys.readouterr().out)["test"] == whole["test"]


ENDLESS = [*TRAIN, "--steps", str(10**7)]
INTERRUPT = """if True:
    import os, signal, sys, threading, time
    from pathlib import Path
    def interrupt():
        while sys.argv[1] not in sys.modules and not list(Path().glob(sys.argv[1])):
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt, daemon=True).start()
    from persistor.cli import main
    main(sys.argv[2:])
"""


@pytest.mark.parametrize("moment", ["tyro", "jax", "jax._src.lib", "equinox", "runs/*/.lock"])
def test_an_early_interrupt_is_one_line(moment):
    """While modules are imported, and (when the run is locked) while JAX traces and compiles."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPT, moment, *ENDLESS], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "persistor: stopped\n")


def stop_when_it_trains(arguments, number):
    """Send a command a signal after its first evaluation: status, what it said, its run."""
    command = [*COMMAND, *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while not any(path.stat().st_size for path in Path("runs").glob("*/progress.jsonl")):
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(number)
    said = process.communicate()[1]
    (folder,) = Path("runs").iterdir()
    return process.returncode, said, Run.open(folder)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_the_run(number, status):
    returned, said, run = stop_when_it_trains(ENDLESS, number)
    assert returned == status
    first, second = said.splitlines()
    assert first.startswith("stopping soon")
    assert second.startswith(f"stopped; runs/{run.path.name} is saved")
    assert run.latest.exists()


@pytest.mark.slow
def test_a_signal_saves_the_runs_of_a_table():
    row = ["copy-first-discrete", "--only", "cell=cmru", "length=100", "--workers", "1"]
    returned, said, run = stop_when_it_trains(["reproduce", *row], signal.SIGTERM)
    assert returned == 143
    assert said.splitlines()[-1] == "stopped; run the same command again to continue"
    assert "Traceback" not in said
    assert run.latest.exists()


def on_a_terminal(*arguments, **environment):
    """What a command prints on a terminal."""
    ours, theirs = os.openpty()
    ignored = ("PYTHON_TYRO_ANSI_CODES", "NO_COLOR")
    inherited = {name: value for name, value in os.environ.items() if name not in ignored}
    environment = {**inherited, "TERM": "xterm", **environment}
    with subprocess.Popen(
        [*COMMAND, *arguments], stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        printed = b""
        with open(ours, "rb", buffering=0) as terminal, contextlib.suppress(OSError):
            while part := terminal.read(65536):  # an OSError when the process has gone
                printed += part
        process.wait()
    return printed.decode()


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["compare", "--help"], ["compare", "--hlep"]], ids=str)
def test_no_color(arguments):
    assert "\x1b[" in on_a_terminal(*arguments)
    assert "\x1b" not in on_a_terminal(*arguments, NO_COLOR="1")
    assert "\x1b" not in ended(arguments)[1]


@pytest.mark.parametrize(
    ("shell", "says"),
    [
        ("bash", "complete -F _tyro_persistor persistor"),
        ("zsh", "#compdef persistor"),
        ("fish", "complete --no-files --command 'persistor'"),
    ],
)
def test_completion(shell, says, capsys):
    assert call("completion", shell) == 0
    script = capsys.readouterr().out
    assert says in script
    assert "--deployable" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


@pytest.mark.slow
def test_reproduce_list_measures_line_by_line():
    """The first table lacks its data; Ctrl-C comes while the second is timed."""
    environment = {**os.environ, "PERSISTOR_DATA": "empty"}
    names = ["smnist-state", "parity", "copy-first-discrete"]
    command = [*COMMAND, "reproduce", *names, "--list", "--measure"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        heading, first = process.stdout.readline(), process.stdout.readline()
        time.sleep(0.5)
        assert process.poll() is None  # timing parity takes more than a second
        process.send_signal(signal.SIGINT)
        second, third, reason, advice = process.stdout.read().splitlines()
    assert process.returncode == 130
    assert heading.startswith("table ")
    assert first.startswith("smnist-state           140     0        0    not here  sMNIST")
    assert second.startswith("parity                  80     0        0  ")
    assert "?" not in second
    assert third.startswith("copy-first-discrete    140     0        0           ?  Copy")
    assert "`persistor data fetch mnist` gets it" in reason
    assert advice.startswith("? not timed here yet")
