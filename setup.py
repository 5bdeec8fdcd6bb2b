"""The native kernels, compiled at installation where there is a C++ compiler.

Both are optional: without them everything runs on plain JAX, and `persistor doctor` says so. The
same source is compiled three times: for any processor, for those with AVX2 and FMA, and for those
with AVX-512; which one runs is decided when it is loaded.
"""

import importlib.metadata
import importlib.util
import platform
from pathlib import Path

from setuptools import Extension, setup

FOLDER = "src/persistor/kernels"
FLAGS = ["-std=c++17", "-O3", "-g0", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi"]


def include_dir() -> str | None:
    """XLA's headers, which come with jaxlib; found without importing JAX."""
    spec = importlib.util.find_spec("jaxlib")
    folders = spec.submodule_search_locations if spec else None
    return str(Path(folders[0]) / "include") if folders else None


def kernel(variant: str, *flags: str) -> Extension:
    """One variant of the kernels."""
    return Extension(
        f"persistor.kernels.{variant}",
        sources=[f"{FOLDER}/{name}" for name in ("unroll.cc", "pointwise.cc")],
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

setup(ext_modules=variants if include_dir() else [])
