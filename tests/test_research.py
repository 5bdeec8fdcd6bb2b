"""The scripts in research/ run: a short call of each."""

import importlib.util
import json
from pathlib import Path

import jax
import pytest

SCRIPTS = sorted((Path(__file__).parents[1] / "research").glob("*.py"))
SHORT = {
    "parity_search": ["--tries", "1", "--cells", "cmru", "--starts", "poised"],
}


def test_every_script_has_a_short_call():
    assert {path.stem for path in SCRIPTS} == set(SHORT)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_runs_and_records(path, tmp_path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    out = tmp_path / "out.jsonl"
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        script.main([*SHORT[path.stem], "--out", str(out)])
    (record,) = map(json.loads, out.read_text().splitlines())
    assert record["tries"] == 1
    assert record["perfect"] in (0, 1)
