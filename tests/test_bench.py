"""The benchmark compares like with like, by turns."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from persistor import CELLS, Architecture, Backbone, Dense, Pooling
from persistor.bench.devices import device_steps
from persistor.bench.measure import QUICK, Scale, by_turns
from persistor.bench.straightforward import outputs_of, training_step
from persistor.bench.suite import PLAIN
from persistor.bench.workloads import Pictures, Stepper, matmul_flops, training
from persistor.cli import main
from persistor.export.compilers import missing

CASES = [((name,), Pooling.LAST, "scan") for name in CELLS]
CASES += [(("mingru", "cmru"), pooling, "associative scan") for pooling in Pooling]


def close(a, b):
    """Equal to rounding: relative to the largest entry."""
    a, b = np.asarray(a), np.asarray(b)
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.abs(b).max(initial=0))


@pytest.mark.parametrize(("stack", "pooling", "fold"), CASES)
def test_the_straightforward_version_is_the_same_model(stack, pooling, fold):
    """Outputs, and gradients for every weight."""
    one, two, *keys = jax.random.split(jax.random.key(0), 2 + len(stack))
    cells = tuple(CELLS[name](16, 5, key=k) for name, k in zip(stack, keys, strict=True))
    model = Backbone(
        2, 4, cells, width=16, architecture=Architecture(encoding=8), pooling=pooling, key=one
    )
    x = jax.random.normal(two, (3, 9, 2))

    def value_and_gradients(f):
        @eqx.filter_jit
        @eqx.filter_value_and_grad(has_aux=True)
        def loss(model, x):
            outputs = f(model, x)
            return jnp.square(outputs).mean(), outputs

        (_, outputs), gradients = loss(model, x)
        return outputs, gradients

    plain = value_and_gradients(lambda model, x: outputs_of(model, x, PLAIN[fold]))
    ours = value_and_gradients(lambda model, x: model(Dense(x))[0])
    jax.tree.map(close, ours, plain)


@pytest.mark.slow
def test_a_straightforward_training_step_is_the_same_step():
    with jax.numpy_dtype_promotion("standard"):  # optax needs it
        trainer = training(Pictures(12), batch=4, state_size=3)
        stepper = Stepper(trainer, 2)
        plain, step = trainer.start(), training_step(trainer, PLAIN["scan"])
        stepper()
        for _ in range(2):
            plain = step(plain)
    jax.tree.map(
        close, eqx.filter(stepper.checkpoint, eqx.is_array), eqx.filter(plain, eqx.is_array)
    )


def test_contenders_run_by_turns():
    calls = []
    seconds = by_turns(
        {name: lambda name=name: calls.append(name) for name in "ab"}, Scale(turns=3, least=0.0)
    )
    assert "".join(calls) == "ab" * 4  # the first turn warms up
    assert set(seconds) == set("ab")


def test_matrix_products_are_counted():
    def f(a, b):
        return jax.lax.scan(lambda carry, _: (carry @ b, None), a, None, length=3)[0] @ b

    traced = jax.make_jaxpr(jax.jit(f))(jnp.ones((5, 7)), jnp.ones((7, 7)))
    assert matmul_flops(traced.jaxpr) == 4 * 2 * 5 * 7 * 7


def test_a_step_of_a_device_is_measured():
    """With a compiler and ONNX Runtime every row has a number; what lacks is named."""
    rows = list(device_steps(QUICK))
    assert {row.against for row in rows} >= {"step of JAX", "ONNX Runtime"} or missing("gcc")
    for row in rows:
        assert row.ratio is not None or row.note.startswith("not here:")


def test_the_command(capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["bench", "--quick", "--only", "f", "--json"])
    assert not exit_.value.code
    found = json.loads(capsys.readouterr().out)
    assert found["quick"]
    (row,) = found["rows"]
    assert row["section"] == "f"
    assert row["ratio"] == row["other"] / row["ours"] > 0
    assert found["machine"]["cores"] >= 1
    with pytest.raises(SystemExit) as exit_:
        main(["bench", "--only", "z"])
    assert exit_.value.code == 2
    assert "unknown section 'z'" in capsys.readouterr().err
