"""Imports point one way, looking costs nothing, and nothing replaces a part of persistor."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

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
    {"analysis", "experiment", "export", "hardware"},
    {"training"},
    {"reproduction", "torch"},
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


def test_the_picture_of_the_rooms_is_this_order():
    page = (Path(__file__).parents[1] / "docs" / "explanation" / "design.md").read_text()
    picture = page.split("## The rooms")[1].split("```")[1]
    lines = [
        line.split("  ")[0].split() for line in picture.splitlines() if line[:1].isidentifier()
    ]
    rooms = [room for line in lines for room in line]
    assert set(rooms) == set(LEVEL)
    assert [LEVEL[room] for room in rooms] == sorted(LEVEL[room] for room in rooms)


def test_every_public_name_is_there():
    assert persistor.__all__
    for name in persistor.__all__:
        assert getattr(persistor, name) is not None
    assert set(persistor.__all__) <= set(dir(persistor))


def test_importing_the_package_or_the_command_line_does_not_import_jax():
    code = "import sys, persistor, persistor.cli; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


CHECKOUT = Path(__file__).parents[1]
FILES = sorted(
    path for room in ("tests", "research", "src") for path in (CHECKOUT / room).rglob("*.py")
)
# Of the machine, not of persistor: replaced to try its moods.
OUTSIDE = (
    *("time", "os", "sys", "socket", "urllib", "http", "webbrowser"),
    *("shutil.which", "importlib.util"),
)


def imported_modules(tree):
    """The whole name of every module that a file imports, by its name in the file."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                names[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def replaced(tree):
    """What is replaced, as far as a reader can tell: `module.name` of every such call."""
    modules = imported_modules(tree)

    def whole(node):
        if isinstance(node, ast.Constant):
            return str(node.value)
        if isinstance(node, ast.Attribute):
            return f"{whole(node.value)}.{node.attr}"
        return modules.get(node.id, node.id) if isinstance(node, ast.Name) else ast.unparse(node)

    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                owner = target.value if isinstance(target, ast.Attribute) else None
                if isinstance(owner, ast.Name) and owner.id in modules:
                    yield whole(target)
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called == "object.__setattr__" and ast.unparse(node.args[0]) in ("self", "spec"):
                continue  # a frozen value that settles its own fields
            if called.split(".")[-1] in ("setattr", "__setattr__", "delattr", "setitem"):
                name = [whole(node.args[0])]
                yield ".".join(name + [whole(a) for a in node.args[1:2] if len(node.args) > 2])


def is_outside(name):
    """Whether it belongs to the machine; a module may be reached through one of ours."""
    return any(f".{name}.".find(f".{known}.") >= 0 for known in OUTSIDE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_nothing_of_persistor_is_replaced(path):
    wrong = [name for name in replaced(ast.parse(path.read_text())) if not is_outside(name)]
    assert wrong == []


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("from persistor.training import loop\nm.setattr(loop, 'SAVE_EVERY', 0)", True),
        ("from persistor.training import loop\nloop.SAVE_EVERY = 0", True),
        ("m.setattr('persistor.data.speech.version', lambda: '0.01')", True),
        ("from persistor.data import DATASETS\nm.setitem(DATASETS, 'mnist', None)", True),
        ("from persistor.cells import CMRU\nobject.__setattr__(CMRU, 'kernel', None)", True),
        ("import os\nm.setattr(os, 'fsync', None)", False),
        ("import importlib.util\nm.setattr(importlib.util, 'find_spec', None)", False),
        ("import shutil\nm.setattr(shutil, 'which', None)", False),
        ("from persistor._tools import progress\nm.setattr(progress.time, 'monotonic', 0)", False),
    ],
)
def test_a_replacement_is_recognised(code, wrong):
    (name,) = replaced(ast.parse(code))
    assert is_outside(name) is not wrong
