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
    "--xla_cpu_use_fusion_emitters=false"
)

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", QUICKLY)
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    compiled = tempfile.mkdtemp(prefix="persistor-compiled-")
    atexit.register(shutil.rmtree, compiled, ignore_errors=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = compiled
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

from jaxtyping import install_import_hook

install_import_hook("persistor", "beartype.beartype")

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
