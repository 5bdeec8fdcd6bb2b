"""Compiled programs are kept, and whatever happens to them, a run goes on with the same result."""

import ast
import os
import subprocess
import sys
import time
import zlib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from persistor._tools import programs
from persistor.nn import positions
from persistor.nn.draws import native
from persistor.training.kept import compiled

TRAIN = ["train", "copy-first-discrete", "--length", "5", "--tiny", "--steps", "2", "--json"]
ROOM = 90_000  # bytes: more than a file of such a run, less than its largest program


LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


def start(folder, runs, *, room=None, **environment):
    """Start a run in a process of its own that keeps its programs in a folder."""
    limited = [] if room is None else ["-c", LIMITED, str(room)]
    own = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_"))}
    return subprocess.Popen(
        [sys.executable, *limited, "-m", "persistor.cli", *TRAIN, "--runs", str(runs)],
        env={**own, programs.VARIABLE: str(folder), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def curve(process, runs):
    """What a run wrote, when it has ended well and without a complaint."""
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert not [line for line in errors.splitlines() if "Error" in line or "Warning" in line]
    (path,) = runs.glob("*/progress.jsonl")
    return [line.split('"seconds"')[0] for line in path.read_text().splitlines()]


def kept(folder):
    return {path for path in folder.glob("*/*") if path.name != programs.CHECKED}


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A folder of programs, filled by two processes that started at once, and their curve."""
    root = tmp_path_factory.mktemp("programs")
    runs = [root / "one", root / "two"]
    processes = [start(root / "kept", run) for run in runs]
    first, second = (curve(process, run) for process, run in zip(processes, runs, strict=True))
    assert first == second
    assert kept(root / "kept")
    return root / "kept", first


@pytest.mark.slow
def test_a_second_run_compiles_nothing_and_is_the_same(filled, tmp_path):
    folder, expected = filled
    before = kept(folder)
    again = start(folder, tmp_path)
    assert curve(again, tmp_path) == expected
    assert kept(folder) == before


@pytest.mark.slow
def test_damaged_programs_are_compiled_again(filled, tmp_path):
    folder, expected = filled
    for number, path in enumerate(sorted(kept(folder))):
        data = path.read_bytes()
        path.write_bytes(
            [b"", b"nonsense", data[: len(data) // 2], data[:-9] + bytes(9)][number % 4]
        )
    assert curve(start(folder, tmp_path / "a"), tmp_path / "a") == expected
    before = {path: path.stat().st_mtime_ns for path in kept(folder)}
    assert curve(start(folder, tmp_path / "b"), tmp_path / "b") == expected
    assert {path: path.stat().st_mtime_ns for path in kept(folder)} == before  # healed


def settings(**environment):
    """What a command tells JAX, in a process of its own."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_"))}
    code = (
        "import os; from persistor._tools.programs import keep_programs; keep_programs(); "
        "print({k: v for k, v in os.environ.items() if k.startswith('JAX_')})"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env={**own, **environment}, capture_output=True, check=True)
    return ast.literal_eval(done.stdout.decode())


def test_a_folder_that_cannot_be_made_is_done_without(tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert settings(**{programs.VARIABLE: str(tmp_path / "file" / "below")}) == {}


def test_the_switch(tmp_path):
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert settings(**cache, **{programs.VARIABLE: "off"}) == {}
    chosen = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path)}
    assert settings(**cache, **chosen) == chosen
    assert not (tmp_path / "cache").exists()
    there = settings(**cache)["JAX_COMPILATION_CACHE_DIR"]
    assert Path(there).parent.name == "compiled"


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_is_read(filled, tmp_path):
    """Even root cannot write a file where a folder has its name."""
    folder, expected = filled
    (inner,) = folder.iterdir()
    mark, before = inner / programs.CHECKED, kept(folder)
    mark.unlink()
    mark.mkdir()
    one = sorted(before)[0]
    data = one.read_bytes()
    one.unlink()
    try:
        assert curve(start(folder, tmp_path), tmp_path) == expected
        assert kept(folder) == before - {one}
    finally:
        mark.rmdir()
        one.write_bytes(data)


@pytest.mark.slow
def test_a_full_disk_is_no_reason_to_stop(filled, tmp_path):
    runs = tmp_path / "runs"
    process = start(tmp_path / "kept", runs, room=ROOM)
    assert curve(process, runs) == filled[1]
    assert max(path.stat().st_size for path in kept(filled[0])) > ROOM
    assert max(path.stat().st_size for path in kept(tmp_path / "kept")) <= ROOM


def test_other_kernels_have_other_programs(tmp_path):
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    none = programs.made_for(kernels)
    library = kernels / "_portable.so"
    library.write_bytes(b"one")
    one = programs.made_for(kernels)
    library.write_bytes(b"two")
    assert len({none, one, programs.made_for(kernels)}) == 3
    library.write_bytes(b"one")
    assert programs.made_for(kernels) == one


def test_the_oldest_programs_go_first(tmp_path):
    folder, other = tmp_path / "now", tmp_path / "before"
    paths = [other / "a", other / "b", folder / "c"]
    for age, path in zip((30, 20, 10), paths, strict=True):
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as file:
            file.write(programs.ZSTANDARD)
            file.truncate(programs.LARGEST // 2 - 1000)  # takes no room on the disk
        moment = time.time() - age
        os.utime(path, (moment, moment))
    programs.tidy(tmp_path, folder)
    assert [path.exists() for path in paths] == [False, True, True]


class Counted:
    """A function that counts how often it is traced."""

    __name__ = "counted"

    def __init__(self):
        self.traced = 0

    def __call__(self, tree, offset):
        self.traced += 1
        noise = jax.random.uniform(tree["key"], tree["x"].shape)
        return tree["factor"] * tree["x"] + noise, offset + 1


@pytest.fixture
def folder(tmp_path):
    """Where this process keeps programs, as a command does."""
    programs.use(tmp_path)
    yield tmp_path
    programs.use(None)


def call(made_for: str | None = "one", factor=2.0, size=3):
    """How often a call traces its function, and its results; the tree holds what is no array."""
    function = Counted()
    tree = {"x": jnp.arange(float(size)), "factor": factor, "key": native(jax.random.key(3))}
    run = compiled(function, made_for, donated=1)
    run(tree, jnp.zeros(2))
    return function.traced, jax.tree.map(np.asarray, run(tree, jnp.zeros(2)))


def test_a_kept_program_is_not_traced_again(folder):
    first, again = call(), call()
    assert (first[0], again[0]) == (1, 0)
    jax.tree.map(np.testing.assert_array_equal, first[1], again[1])


@pytest.mark.parametrize("change", [{"made_for": "another"}, {"size": 4}, {"factor": 3.0}])
def test_another_program_is_compiled(folder, change):
    call()
    assert call(**change)[0] == 1


def test_a_program_that_nothing_describes_is_not_kept(folder):
    call(made_for=None)
    assert not list(folder.iterdir())


@pytest.mark.parametrize("content", [b"", b"nonsense", zlib.compress(b"nonsense"), None])
def test_a_damaged_program_is_compiled_again(folder, content):
    call()
    (path,) = folder.iterdir()
    path.write_bytes(path.read_bytes()[:-7] if content is None else content)
    assert (call()[0], call()[0]) == (1, 0)


def test_nothing_is_kept_where_that_is_not_allowed_or_fails(folder):
    programs.use(folder / "absent")
    assert (call()[0], call()[0]) == (1, 1)
    programs.use(folder, writable=False)
    assert (call()[0], call()[0]) == (1, 1)
    assert not list(folder.iterdir())


def test_positions_are_kept_as_they_were_computed(folder):
    def table():
        positions._compact.cache_clear()
        return jax.tree.map(np.asarray, positions.compact_encoding(50, 16))

    computed, (path,) = table(), folder.iterdir()
    jax.tree.map(np.testing.assert_array_equal, table(), computed)
    path.write_bytes(b"damaged")
    jax.tree.map(np.testing.assert_array_equal, table(), computed)
