"""The wheel installs without a compiler and trains, whatever the version of Python."""

import email
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

import persistor

ROOT = Path(__file__).parents[1]


def test_the_newest_release_notes_are_of_this_version():
    releases = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert releases[:2] == ["Unreleased", persistor.__version__]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The source archive, and the wheel that is made from it and from nothing else."""
    folder, compiler = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("bin") / "quickly"
    compiler.write_text(f'#!/bin/sh\nexec {os.environ.get("CXX", "c++")} "$@" -O0\n')
    compiler.chmod(0o755)  # kernels that are compiled well have tests of their own
    public = {"GITHUB_SERVER_URL": "https://host", "GITHUB_REPOSITORY": "somebody/persistor"}
    environment = {**os.environ, **public, "CXX": str(compiler)}
    command = [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)]
    made = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert made.returncode == 0, made.stderr
    return folder


@pytest.mark.slow
def test_the_wheel_has_all_that_the_package_needs(built):
    (wheel,) = built.glob("*.whl")
    assert re.fullmatch(rf"persistor-{persistor.__version__}-py3-none-\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    package = ROOT / "src" / "persistor"
    tracked = subprocess.run(["git", "ls-files"], cwd=package, capture_output=True, text=True)
    sources = {f"persistor/{name}" for name in tracked.stdout.splitlines()}
    if not sources:
        pytest.skip("not a checkout")
    kernels = {name for name in sources if re.fullmatch(r"persistor/kernels/.*\.(h|cc)", name)}
    compiled = {name for name in inside if name.endswith(".so")}
    assert "persistor/kernels/_portable.so" in compiled
    assert inside - compiled == sources - kernels
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as members:
        names = {name.split("/src/")[-1] for name in members.getnames()}
    assert sources <= names


@pytest.mark.slow
def test_links_of_the_readme_hold_on_a_package_index(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert len(metadata.get_all("Project-URL")) == 4
    links = re.findall(r"\]\((.+?)\)", metadata.get_payload())
    host, site = (
        "https://host/somebody/persistor/blob/main/",
        "https://somebody.github.io/persistor/",
    )
    assert len(links) > 30
    for link in links:
        page = link.split("#")[0]
        file = re.sub(r"\.html$", ".md", page.replace(site, "docs/")).replace(host, "")
        assert file != link, f"{link} leads nowhere from a package index"
        assert (ROOT / file).exists(), link


@pytest.mark.slow
def test_it_trains_where_there_is_no_compiler(built, tmp_path):
    """In a new environment that borrows only the dependencies of this one."""
    place = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    python = place / "bin" / "python"
    (wheel,) = built.glob("*.whl")
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    environment = {"PATH": str(place / "bin"), "HOME": str(tmp_path), "JAX_PLATFORMS": "cpu"}
    subprocess.run([*install, str(wheel)], env=environment, check=True)
    (site,) = place.glob("lib/python*/site-packages")
    # a plain entry of sys.path, behind this environment's own: editable installs stay behind
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + os.linesep)
    script = [str(python), str(ROOT / "tests" / "installed.py")]
    done = subprocess.run(script, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "parity learned" in done.stdout
