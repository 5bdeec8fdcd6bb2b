"""Kernels are proven when they are loaded; a library that does not work is as good as none."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.extend.random import threefry_2x32

import persistor
from persistor.cells import CELLS
from persistor.kernels import library, proof
from persistor.kernels.doctor import examine
from persistor.recurrence.surrogate import heaviside, sign
from persistor.recurrence.transition import Affine, Saturating, unbounded
from persistor.recurrence.unroll import sequential

TESTS = Path(__file__).parent


def cumulative(margin, direction, scale, epsilon):
    z = heaviside(margin)
    return Affine(1 - z + epsilon * z, z * direction * scale)


def ladder(p, q):
    z = heaviside(jnp.abs(p[0]) - jnp.abs(q[0]))
    free, top = jnp.full_like(z, unbounded(z.dtype)), jnp.broadcast_to(q[1], z.shape)
    low, high = jnp.where(z > 0, 0.0, -free), jnp.where(z > 0, top, free)
    return Saturating(Affine(jnp.ones_like(z), z * sign(p[0])), low, jax.lax.stop_gradient(high))


def lru(p, q):
    decay = jnp.broadcast_to(jax.lax.complex(q[0], q[1]), p[0].shape)
    return Affine(decay, jax.lax.complex(q[2] * p[0], q[2] * p[1]))


GATES = {  # projections and parameters to the transition, as each kernel has them
    "cmru": lambda p, q: cumulative(jnp.abs(p[0]) - jnp.abs(p[1]), sign(p[0]), q[0], q[1]),
    "alpha_cmru": lambda p, q: cumulative(jnp.abs(p[0]) - jnp.abs(p[1]), sign(p[0]), p[2], q[0]),
    "positive_cmru": lambda p, q: cumulative(
        jnp.abs(p[0]) - jnp.abs(q[0]), heaviside(p[0]) - q[2] / 2, q[1], q[2]
    ),
    "ladder": ladder,
    "mingru": lambda p, q: Affine(1 - jax.nn.sigmoid(p[0]), jax.nn.sigmoid(p[0]) * p[1]),
    "lru": lru,
}


def test_every_kernel_of_a_cell_has_a_proof():
    assert {kind.kernel for kind in CELLS.values()} - {None} == set(proof.RECURRENCES) == set(GATES)


@pytest.mark.parametrize("name", proof.RECURRENCES)
def test_the_sums_of_a_recurrence_are_those_of_plain_jax(name):
    kernel = proof.RECURRENCES[name]
    given = {key: jnp.asarray(a) for key, a in proof.operands(kernel).items()}

    def run(projections, parameters, state):
        p = jnp.split(projections[0, 0], kernel.projections, axis=-1)
        states = sequential(GATES[name](p, list(parameters[0][:, None])), state[0, 0])
        return states[None, None], states[None, None, -1]

    operands = (given["projections"], given["parameters"], given["state"])
    results, pull = jax.vjp(run, *operands)
    gradients = pull((given["of_states"], given["of_last"]))
    np.testing.assert_allclose(proof.total(results), kernel.forward, atol=1e-4)
    np.testing.assert_allclose(proof.total(gradients), kernel.backward, atol=1e-4)


@pytest.mark.parametrize("name", proof.LAYERS)
def test_the_sums_of_a_layer_are_those_of_plain_jax(name):
    def norm(x, scale, shift):
        centred = x - x.mean(-1, keepdims=True)
        deviation = jnp.sqrt(jnp.square(centred).mean(-1, keepdims=True) + proof.NORM_EPSILON)
        return scale[None] * centred / deviation + shift[None]

    def glu(x, bias):
        return jax.nn.glu(x + bias[None])

    *operands, cotangent = map(jnp.asarray, proof.layer_operands(proof.LAYERS[name]))
    result, pull = jax.vjp({"norm": norm, "glu": glu}[name], *operands)
    np.testing.assert_allclose(proof.total([result]), proof.LAYERS[name].forward, atol=1e-4)
    np.testing.assert_allclose(proof.total(pull(cotangent)), proof.LAYERS[name].backward, atol=1e-4)


def test_the_sum_of_the_optimiser_is_that_of_optax():
    rates, count, *arrays = map(jnp.asarray, proof.optimiser_operands())
    gradients, weights, first, second = (arrays[i : i + 2] for i in range(0, 8, 2))
    clip, *numbers, decay = proof.OPTIMISER.values()
    with jax.numpy_dtype_promotion("standard"):  # optax relies on it
        clipped, _ = optax.clip_by_global_norm(clip).update(gradients, optax.EmptyState())
        state = optax.ScaleByAdamState(count, first, second)
        steps, state = optax.scale_by_adam(*numbers).update(clipped, state)
    weights = [
        w - rate * (step + decay * w) for w, rate, step in zip(weights, rates, steps, strict=True)
    ]
    results = [*weights, *state.mu, *state.nu]
    np.testing.assert_allclose(proof.total(results), proof.ADAMW, atol=1e-4)


def test_the_sum_of_the_random_words_is_that_of_jax():
    def pairs(key, first):
        counts = first + np.arange(proof.STEPS, dtype=np.uint32)
        return threefry_2x32(key, jnp.concatenate([jnp.zeros_like(counts), counts]))

    found = np.array([pairs(*each) for each in zip(*map(jnp.asarray, proof.words()), strict=True)])
    x, y = np.split(found, 2, axis=1)
    np.testing.assert_allclose(proof.total([x, y]), proof.THREEFRY, rtol=1e-9)


def test_the_sums_of_the_layer_of_linear_units_are_those_of_plain_jax():
    *weights, state, of_outputs, of_last = map(jnp.asarray, proof.lru_operands().values())

    def layer(x, project, parameters, mix, skip, state):
        p = jnp.split(x @ project, 2, axis=-1)
        h = sequential(lru(p, list(parameters[:, None, None])), state)
        return jnp.concatenate([h.real, h.imag], -1) @ mix + x @ skip, h[:, -1]

    results, pull = jax.vjp(layer, *weights, state)
    gradients = pull((of_outputs, of_last))
    np.testing.assert_allclose(proof.total(results), proof.LRU_LAYER.forward, atol=1e-4)
    np.testing.assert_allclose(proof.total(gradients), proof.LRU_LAYER.backward, rtol=1e-5)


@pytest.mark.skipif(library().variant is None, reason=library().reason)
def test_the_doctor_lists_every_kernel_as_proven():
    assert library().proven == proof.KERNELS
    for kernel in proof.KERNELS:
        assert f"{kernel} proven" in examine()["kernels"]


def package_without_kernels(folder):
    """This package, copied without what was compiled."""
    package = Path(persistor.__file__).parent
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(package, folder / "persistor", ignore=ignored)
    return folder / "persistor" / "kernels"


def computes_plainly(folder):
    """What the package in a folder says of itself, after a cell ran there as plain JAX."""
    code = """if True:
        import json, jax, jax.numpy as jnp, persistor
        from persistor.kernels.doctor import examine
        cell = persistor.CMRU(3, 4, key=jax.random.key(0))
        x = jnp.cos(jnp.arange(30.0)).reshape(2, 5, 3)
        ys = jax.jit(jax.vmap(lambda x: cell(x)[0]))(x)  # loaded in the middle of a trace
        with persistor.engine("sequential"):
            assert (ys == cell(x)[0]).all()
        try:
            with persistor.engine("native"):
                cell(x)
        except persistor.PersistorError as error:
            print(json.dumps({**examine(), "error": str(error)}))
    """
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_without_the_library_plain_jax_runs(tmp_path):
    package_without_kernels(tmp_path)
    findings = computes_plainly(tmp_path)
    assert (findings["engine"], findings["kernels"]) == ("sequential", "none")
    assert "not compiled" in findings["reason"]
    assert "not compiled" in findings["error"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler (g++)")
@pytest.mark.parametrize(
    ("kind", "reason"), [(1, "version"), (2, "this kernel is broken"), (3, "is right")]
)
def test_a_library_that_does_not_work_is_as_good_as_none(kind, reason, tmp_path):
    compiled = package_without_kernels(tmp_path) / "_portable.so"
    source, headers = str(TESTS / "broken_library.cc"), f"-I{jax.ffi.include_dir()}"
    command = ["g++", "-std=c++17", "-shared", "-fPIC", f"-DKIND={kind}", headers, source]
    subprocess.run([*command, "-o", str(compiled)], check=True)
    findings = computes_plainly(tmp_path)
    assert (findings["engine"], findings["kernels"]) == ("sequential", "none")
    assert "the compiled kernels fail with jaxlib" in findings["reason"]
    assert reason in findings["reason"]
    assert reason in findings["error"]
