"""Every array annotation is checked while tests run; promotion of types and ranks is an error.

What XLA compiles is kept for the length of a test run, for all its processes: most of the time of
the tests would go into compiling the same programs again. And it compiles quickly rather than well:
a test computes little with any program.
"""

import atexit
import gc
import os
import shutil
import tempfile

QUICKLY = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", QUICKLY)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # PyTorch's threads would wait for one another
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    compiled = tempfile.mkdtemp(prefix="persistor-compiled-")
    atexit.register(shutil.rmtree, compiled, ignore_errors=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = compiled
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

from importlib.util import find_spec
from pathlib import Path

from jaxtyping import install_import_hook


def annotated():
    """The modules that annotate arrays; to check every call of the others would take longer."""
    (folder,) = find_spec("persistor").submodule_search_locations
    for path in Path(folder).rglob("*.py"):
        if "persistor.arrays" in path.read_text():
            module = path.relative_to(Path(folder).parent).with_suffix("")
            yield ".".join(module.parts)


install_import_hook([*annotated()], "beartype.beartype")

import jax
import pytest
from hypothesis import settings

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

settings.register_profile("persistor", deadline=None, max_examples=10, derandomize=True)
settings.register_profile("quick", settings.get_profile("persistor"), max_examples=3)
gc.set_threshold(100_000)  # looking for garbage took a tenth of the time


def pytest_addoption(parser):
    parser.addoption(
        "--quick", action="store_true", help="of each law one case, and none that is slow"
    )


def pytest_configure(config):
    settings.load_profile("quick" if config.getoption("quick") else "persistor")


def pytest_collection_modifyitems(config, items):
    """With `--quick`, keep the first case of every test that is not slow."""
    if not config.getoption("quick"):
        return
    first = {}
    for item in items:
        if item.get_closest_marker("slow") is None:
            first.setdefault((item.path, item.originalname), item)
    kept = set(first.values())
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = first.values()


@pytest.fixture(autouse=True, scope="module")
def forget_programs():
    """What a file compiled leaves memory with it: all files together would fill gigabytes."""
    yield
    jax.clear_caches()


@pytest.fixture
def key():
    return jax.random.key(7)
