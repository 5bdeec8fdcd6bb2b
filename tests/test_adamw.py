"""The native optimiser computes what the chain of optax does, at the rates of the architecture."""

import dataclasses
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from persistor import ARCHITECTURES as NAMED
from persistor import PAPER, ModelSpec, TrainingSpec
from persistor.experiment import Experiment
from persistor.kernels import AdamW, library
from persistor.kernels.engine import engine
from persistor.tasks import Parity
from persistor.training import Trainer
from persistor.training.schedule import updated

pytestmark = pytest.mark.skipif(library().variant is None, reason=library().reason)

MODEL = ModelSpec(("cmru", "mingru"), state_size=3, blocks=2, width=16, encoding=8)
ARCHITECTURES = {
    "paper": PAPER,
    "robust": NAMED["robust"],
    "sleepy": PAPER.but({"gate_sleep": 0.5, "gate_rate": 0.3}),
}


@pytest.fixture(autouse=True)
def as_users_have_it():
    """optax relies on JAX's usual promotion."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def normal(tree, seed, size):
    """A tree of random numbers of the same shapes."""
    rng = np.random.default_rng(seed)
    leaves, structure = jax.tree.flatten(tree)
    return jax.tree.unflatten(
        structure, [jnp.asarray(size * rng.normal(size=x.shape), jnp.float32) for x in leaves]
    )


@pytest.mark.parametrize("size", [1e-4, 10.0], ids=["small", "clipped"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_kernel_equals_optax(name, size):
    spec = TrainingSpec(steps=8, warmup=0.2, weight_decay=0.1, learning_rate=0.1)
    model = dataclasses.replace(MODEL, architecture=ARCHITECTURES[name])
    trainer = Trainer(Experiment(Parity(), model, spec))
    begin = trainer.start()

    def after(engine_name):
        @jax.jit
        def step(params, state, number, gradients):
            with engine(engine_name):
                return updated(spec, trainer.architecture, number, gradients, state, params)

        params, state = begin.params, begin.optimiser
        for number in range(6):
            gradients = normal(params, number, size)
            params, state = step(params, state, jnp.asarray(number), gradients)
        return params, state

    native, plain = after("native"), after("sequential")
    assert jax.tree.structure(native) == jax.tree.structure(plain)
    for a, b in zip(jax.tree.leaves(native), jax.tree.leaves(plain), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6 * float(jnp.abs(b).max()))


def test_no_number_is_not_hidden():
    zeros = [jnp.zeros(5), jnp.zeros((2, 3))]
    wrong = [jnp.zeros(5), jnp.full((2, 3), jnp.inf)]
    rates, count = jnp.ones(2), jnp.asarray(0)
    weights, *_ = AdamW(1.0, 0.0)(rates, count, wrong, zeros, zeros, zeros)
    assert not np.isfinite(weights[1]).any()


def test_arrays_of_other_shapes_are_refused():
    one, other = [jnp.zeros(5)], [jnp.zeros(6)]
    with pytest.raises(jax.errors.JaxRuntimeError, match="wrong operand"):
        AdamW(1.0, 0.0)(jnp.ones(1), jnp.asarray(0), other, one, one, one)


@pytest.mark.slow
def test_parameters_that_the_kernel_cannot_update_are_updated_plainly():
    spec = TrainingSpec(steps=8)
    trainer = Trainer(Experiment(Parity(), MODEL, spec))
    half = jax.tree.map(lambda x: x.astype(jnp.float16), trainer.start().params)
    state = trainer.optimiser.init(half)
    params, _ = updated(spec, PAPER, jnp.asarray(0), half, state, half)
    assert jax.tree.leaves(params)[0].dtype == jnp.float16


def test_training_calls_the_kernel():
    trainer = Trainer(Experiment(Parity(), MODEL, TrainingSpec(steps=8)))
    start = trainer.start()
    shared = (trainer.frozen, trainer.key, trainer.train_split, trainer.encoding)
    constants = (*shared, jnp.asarray(1))
    for name in ("native", "sequential"):
        with engine(name):
            text = str(jax.make_jaxpr(lambda: trainer._interval(constants, start)[1])())
        assert ("persistor_adamw" in text) == (name == "native")


@pytest.mark.slow
def test_same_bits_whatever_the_number_of_threads():
    code = """if True:
        import jax, jax.numpy as jnp, numpy as np
        from persistor.kernels import AdamW
        arrays = [[jnp.asarray(np.random.default_rng(i + 4 * j).normal(size=n), jnp.float32) ** 2
            for j, n in enumerate((5, 200_000, 16_384))] for i in range(4)]
        results = jax.tree.leaves(AdamW(1.0, 0.1)(jnp.ones(3), jnp.asarray(3), *arrays))
        print(hash(tuple(np.asarray(x).tobytes() for x in results)))
    """
    seen = set()
    for threads in ("1", "2", "3"):
        environment = {**os.environ, "PERSISTOR_THREADS": threads, "PYTHONHASHSEED": "0"}
        ran = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True
        )
        assert ran.returncode == 0, ran.stderr
        seen.add(ran.stdout)
    assert len(seen) == 1
