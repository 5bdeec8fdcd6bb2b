"""The native kernels, compiled where there is a C++ compiler when a wheel is made.

All are optional: without them everything runs on plain JAX, and `persistor doctor` says so. The
same source is compiled three times: for any processor, for those with AVX2 and FMA, and for those
with AVX-512; which one runs is decided when it is loaded. They are loaded with ctypes and know
nothing of Python, so that one wheel serves every version of it: files and wheel are named for the
platform alone.
"""

import copy
import importlib.metadata
import importlib.util
import os
import platform
import re
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

FOLDER = "src/persistor/kernels"
SOURCES = ("unroll", "lru_layer", "pointwise", "adamw", "threefry")
FLAGS = ["-std=c++17", "-O3", "-g0", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi"]


class Build(build_ext):
    """Files without the tag of a Python, compiled side by side."""

    def initialize_options(self) -> None:
        """As many at once as there are processors, unless told otherwise."""
        super().initialize_options()
        self.parallel = True

    def build_extension(self, ext: Extension) -> None:
        """In a folder of its own, since all have the same sources."""
        own = copy.copy(self)
        own.build_temp = str(Path(self.build_temp, ext.name))
        super(Build, own).build_extension(ext)

    def get_ext_filename(self, fullname: str) -> str:
        """`persistor/kernels/_portable.so`, also on macOS."""
        return fullname.replace(".", "/") + ".so"


class Wheel(bdist_wheel):
    """One wheel for every Python 3."""

    def get_tag(self) -> tuple[str, str, str]:
        """`py3-none-PLATFORM`, or `py3-none-any` where there was nothing to compile with."""
        return "py3", "none", super().get_tag()[2]


def addresses() -> dict[str, str]:
    """Where the project lives: the host whose continuous integration makes this wheel, if any."""
    host, repository = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
    if not host or not repository:
        return {}
    home, (owner, name) = f"{host}/{repository}", repository.split("/")
    return {
        "Source": home,
        "Documentation": f"https://{owner}.github.io/{name}/",
        "Issues": f"{home}/issues",
        "Changelog": f"{home}/blob/main/CHANGELOG.md",
    }


def readme() -> str:
    """The README as a package index shows it: links lead to the site and the host, or are text."""
    known = addresses()

    def absolute(link: re.Match[str]) -> str:
        text, path, anchor = link.groups()
        if not known:
            return text
        if page := re.fullmatch(r"docs/(.+)\.md", path):
            return f"[{text}]({known['Documentation']}{page[1]}.html{anchor})"
        return f"[{text}]({known['Source']}/blob/main/{path}{anchor})"

    text = Path("README.md").read_text(encoding="utf-8")
    return re.sub(r"\[([^]]+)\]\((?!\w+:)([^)#]+)(#[^)]*|)\)", absolute, text)


def include_dir() -> str | None:
    """XLA's headers, which come with jaxlib; found without importing JAX."""
    spec = importlib.util.find_spec("jaxlib")
    folders = spec.submodule_search_locations if spec else None
    return str(Path(folders[0]) / "include") if folders else None


def kernel(variant: str, *flags: str) -> Extension:
    """One variant of the kernels."""
    return Extension(
        f"persistor.kernels.{variant}",
        sources=[f"{FOLDER}/{name}.cc" for name in SOURCES],
        depends=[str(path) for path in Path(FOLDER).glob("*.h")],
        include_dirs=[include_dir() or ""],
        define_macros=[("PERSISTOR_JAXLIB", f'"{importlib.metadata.version("jaxlib")}"')],
        extra_compile_args=[*FLAGS, *flags],
        language="c++",
        optional=True,
    )


variants = [kernel("_portable")]
if platform.machine().lower() in ("x86_64", "amd64"):
    variants.append(kernel("_avx2", "-mavx2", "-mfma"))
    sets = [f"-mavx512{name}" for name in ("f", "vl", "dq", "bw")]
    variants.append(kernel("_avx512", *sets, "-mfma", "-mprefer-vector-width=512"))

setup(
    project_urls=addresses(),
    long_description=readme(),
    long_description_content_type="text/markdown",
    ext_modules=variants if include_dir() else [],
    cmdclass={"build_ext": Build, "bdist_wheel": Wheel},
)
