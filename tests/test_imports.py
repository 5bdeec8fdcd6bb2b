"""Imports point one way, and looking costs nothing."""

import ast
import subprocess
import sys
from pathlib import Path

import persistor

ROOT = Path(persistor.__file__).parent
# Each layer may import from those before it.
LAYERS = [
    {"_tools", "arrays"},
    {"data", "kernels", "paper"},
    {"nn"},
    {"recurrence"},
    {"cells"},
    {"model"},
    {"tasks"},
    {"analysis", "experiment", "hardware"},
    {"training"},
    {"reproduction"},
    {"plots"},
    {"report", "bench"},
    {"cli"},
]
LEVEL = {name: i for i, layer in enumerate(LAYERS) for name in layer}


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name.split(".")[1] for name in names if name.startswith("persistor."))


def test_imports_point_one_way():
    files = [p for p in ROOT.rglob("*.py") if p != ROOT / "__init__.py"]
    assert len(files) > 20
    for path in files:
        own = path.relative_to(ROOT).parts[0].removesuffix(".py")
        for name in imported(path):
            assert name == own or LEVEL[name] < LEVEL[own], f"{path} imports {name}"


def test_every_public_name_is_there():
    assert persistor.__all__
    for name in persistor.__all__:
        assert getattr(persistor, name) is not None
    assert set(persistor.__all__) <= set(dir(persistor))


def test_importing_the_package_or_the_command_line_does_not_import_jax():
    code = "import sys, persistor, persistor.cli; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
