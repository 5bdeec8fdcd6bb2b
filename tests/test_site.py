"""The documentation site: what its pages say is there, and every script of the gallery runs."""

import ast
import importlib
import importlib.util
import re
import shutil
import sys
from functools import cache
from pathlib import Path

import pytest

import persistor
import persistor.torch

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SMALL = {  # of each script of the gallery: what makes it short
    "annealing": {"steps": 64, "lengths": (100,)},
    "cell_in_your_model": {"steps": 2},
    "chips": {"steps": 64, "chips": 16},
    "cmru_in_pytorch": {"steps": 2},
    "exported_c": {"steps": 50},
    "gates": {"length": 20},
    "parity": {"longest": 300, "strings": 2},
}


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_an_example_runs_and_draws(name, tmp_path):
    if name == "exported_c" and shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    import jax

    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        loaded(ROOT / "examples" / f"{name}.py").main(tmp_path, **SMALL[name])
    assert (tmp_path / f"{name}.svg").read_text().startswith("<?xml")


def test_every_example_has_a_test_and_a_page():
    scripts = {path.stem for path in (ROOT / "examples").glob("*.py")}
    pages = {path.stem.replace("-", "_") for path in (DOCS / "gallery").glob("*.md")} - {"index"}
    index = (DOCS / "gallery" / "index.md").read_text()
    assert set(SMALL) == scripts == pages
    assert all(f"]({name.replace('_', '-')}.md)" in index for name in scripts)


@pytest.mark.parametrize("package", [persistor, persistor.torch], ids=lambda p: p.__name__)
def test_the_api_pages_have_every_public_name(package):
    pages = "\n".join(page.read_text() for page in (DOCS / "reference" / "api").glob("*.md"))
    listed = re.findall(
        rf"^\.\. (?!\w+module)[\w:]+:: {re.escape(package.__name__)}\.(\w+)$", pages, re.M
    )
    assert sorted(listed) == sorted(package.__all__)


def test_the_api_pages_name_modules_that_are_there():
    pages = "\n".join(page.read_text() for page in (DOCS / "reference" / "api").glob("*.md"))
    modules = re.findall(r"^\.\. automodule:: ([\w.]+)$", pages, re.M)
    assert len(modules) > 15
    for module in modules:
        importlib.import_module(module)


def test_the_navigation_has_every_page():
    source = (DOCS / "conf.py").read_text()
    tree = next(
        node.value
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and node.targets[0].id == "NAVIGATION"
    )
    named = [page for pages in ast.literal_eval(tree).values() for page in pages]
    below = {f"gallery/{p.stem}" for p in (DOCS / "gallery").glob("*.md")}
    below |= {f"reference/api/{p.stem}" for p in (DOCS / "reference" / "api").glob("*.md")}
    there = {str(p.relative_to(DOCS).with_suffix("")) for p in DOCS.rglob("*.md")}
    assert len(named) == len(set(named))
    assert set(named) == (there - below - {"index"}) | {"gallery/index", "reference/api/index"}


@cache
def messages():
    """Every text in the package, `...` for what is filled in."""
    found = []
    for path in (ROOT / "src" / "persistor").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = (getattr(part, "value", "...") for part in node.values)
                found.append("".join(p if isinstance(p, str) else "..." for p in parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


def explained():
    page = (DOCS / "how-to" / "error-messages.md").read_text()
    return re.findall(r"^### `(.+)`$", page, re.M)


def test_there_are_messages():
    assert len(explained()) > 25


@pytest.mark.parametrize("message", explained())
def test_a_message_of_the_faq_is_one_of_the_package(message):
    wanted = ".*".join(map(re.escape, message.split("...")))
    assert any(re.search(wanted, text) for text in messages()), message


def test_a_message_that_the_package_has_not_would_be_noticed():
    assert not any("the moon is not made of cheese" in text for text in messages())


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("myst_parser", reason="the extra `docs` is not installed")
    import subprocess

    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-D", "examples=0", "-b", "html"]
    done = subprocess.run([*command, DOCS, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    landing = (tmp_path / "index.html").read_text()
    assert "persistor.playground(" in landing
    assert 'href="report.html"' in landing
    assert (tmp_path / "report.html").exists()
