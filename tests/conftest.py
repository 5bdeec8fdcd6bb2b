"""Every array annotation is checked while tests run; promotion of types and ranks is an error."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from jaxtyping import install_import_hook

install_import_hook("persistor", "beartype.beartype")

import jax
import pytest
from hypothesis import settings

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

settings.register_profile("persistor", deadline=None, max_examples=10, derandomize=True)
settings.load_profile("persistor")


@pytest.fixture
def key():
    return jax.random.key(7)
