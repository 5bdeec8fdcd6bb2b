"""Every way to differentiate works natively too: forward, reverse, one over the other, mapped."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from persistor import CELLS, Backbone, Dense, Pooling
from persistor.kernels import glu, layer_norm, library
from persistor.kernels.engine import engine
from persistor.nn.sequence import Indexed, Positions

pytestmark = pytest.mark.skipif(library().variant is None, reason=library().reason)

NAMES = sorted(CELLS)
B, T, M, D = 3, 18, 5, 4


def normal(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def cell_named(name):
    """A cell with every parameter away from special values."""
    cell = CELLS[name](M, D, key=jax.random.key(1))
    floats = eqx.filter(cell, eqx.is_inexact_array)
    moved = jax.tree.map(lambda a: 0.9 * a + 0.05 * normal(a.size, *a.shape), floats)
    return eqx.combine(moved, cell)


def indexed(p):
    """Projections of all kinds in one: rows, positions, a norm."""
    ids = jnp.asarray(np.random.default_rng(0).integers(0, 4, (B, T)), jnp.int32)
    positions = Positions(normal(1, T, 3), normal(2, 3, p), 1 + normal(3, 4, T) ** 2, normal(4, p))
    return Indexed(normal(5, 4, p), ids, positions)


def recurrence(name, kind):
    """States and last state as a function of a list of arrays, and such a list."""
    cell = cell_named(name)
    p = cell.project.weight.shape[1]
    projections = Dense(normal(0, B, T, p)) if kind == "dense" else indexed(p)
    state = cell.initial_state((B,)) + 0.3
    lengths = jnp.array([T, 0, T // 2])
    resets = jnp.zeros((B, T), bool).at[0, 5].set(True)
    floats, rest = eqx.partition((cell, projections, state), eqx.is_inexact_array)
    arrays, structure = jax.tree.flatten(floats)

    def f(*arrays):
        cell, projections, state = eqx.combine(jax.tree.unflatten(structure, arrays), rest)
        return cell.states_of(projections, state, lengths=lengths, resets=resets)

    return f, tuple(arrays)


def backbone():
    """Predictions of a network, as a function of its weights."""
    one, two = jax.random.split(jax.random.key(0))
    cells = (CELLS["cmru"](8, D, key=one),)
    model = Backbone(2, 3, cells, width=8, pooling=Pooling.MEAN, key=two)
    x = Dense(normal(0, B, T, 2))
    floats, rest = eqx.partition(model, eqx.is_inexact_array)
    arrays, structure = jax.tree.flatten(floats)

    def f(*arrays):
        return (eqx.combine(jax.tree.unflatten(structure, arrays), rest)(x)[0],)

    return f, tuple(arrays)


CASES = {
    **{f"{name}, dense": lambda name=name: recurrence(name, "dense") for name in NAMES},
    **{f"{name}, indexed": lambda name=name: recurrence(name, "indexed") for name in NAMES},
    "norm": lambda: (
        lambda *a: (layer_norm(*a, 1e-6),),
        (3 * normal(0, 2, 4, 6), normal(1, 6), normal(2, 6)),
    ),
    "glu": lambda: (lambda *a: (glu(*a),), (normal(0, 2, 4, 6), normal(1, 6))),
    "backbone": backbone,
}
TWICE = ["mingru, dense", "cmru, indexed", "norm", "glu"]


def assert_same(one, two, rtol=2e-4):
    """Equal to rounding: relative to each array's largest entry."""
    assert jax.tree.structure(one) == jax.tree.structure(two)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=0, atol=rtol * (np.abs(b).max(initial=0) + 1e-2))


def like(arrays, seed):
    """Random arrays of the same shapes; complex where these are."""

    def one(i, a):
        real = normal(seed + i, *a.shape)
        return jax.lax.complex(real, -real[::-1]) if jnp.iscomplexobj(a) else real

    return tuple(one(i, a) for i, a in enumerate(arrays))


def natively(f):
    """The function, which must run native code."""

    def run(*arrays):
        with engine("native"):
            return f(*arrays)

    return jax.jit(run)


def plainly(f):
    """The function in plain JAX."""

    def run(*arrays):
        with engine("sequential"):
            return f(*arrays)

    return jax.jit(run)


@pytest.mark.parametrize("case", CASES)
def test_forward_mode_is_that_of_plain_jax_and_the_transpose_of_reverse_mode(case):
    f, arrays = CASES[case]()
    tangents = like(arrays, 50)
    forward = lambda *a: jax.jvp(f, a[: len(arrays)], a[len(arrays) :])  # noqa: E731
    results, moved = natively(forward)(*arrays, *tangents)
    assert_same((results, moved), plainly(forward)(*arrays, *tangents))

    cotangents = like(results, 90)
    reverse = lambda *a: jax.vjp(f, *a)[1](cotangents)  # noqa: E731
    gradients = natively(reverse)(*arrays)
    assert_same(gradients, plainly(reverse)(*arrays))
    one = sum((c * m).sum().real for c, m in zip(cotangents, moved, strict=True))
    two = sum((g * t).sum().real for g, t in zip(gradients, tangents, strict=True))
    scale = sum(float(jnp.abs(g * t).sum()) for g, t in zip(gradients, tangents, strict=True))
    np.testing.assert_allclose(one, two, atol=2e-5 * scale)


@pytest.mark.parametrize("case", TWICE)
def test_second_derivatives_are_those_of_plain_jax(case):
    f, arrays = CASES[case]()
    tangents = like(arrays, 50)
    weights = like(f(*arrays), 90)

    def number(*a):
        return sum((w * jnp.sin(r)).sum() for w, r in zip(weights, f(*a), strict=True))

    slope = jax.grad(number, argnums=tuple(range(len(arrays))))
    along = lambda *a: jax.jvp(number, a, tangents)[1]  # noqa: E731

    def second(*a):
        return (
            jax.jvp(slope, a, tangents)[1],  # forward over reverse
            jax.grad(along, argnums=tuple(range(len(arrays))))(*a),  # reverse over forward
            jax.vjp(slope, *a)[1](tangents),  # reverse over reverse
            jax.jvp(along, a, tangents)[1],  # forward over forward
        )

    found, expected = natively(second)(*arrays), plainly(second)(*arrays)
    assert_same(found, expected, rtol=1e-3)
    assert_same(found[0], found[2], rtol=1e-3)  # a Hessian is symmetric


@pytest.mark.parametrize("name", NAMES)
def test_forward_mode_of_a_mapped_function_and_mapped_forward_mode(name):
    """And reverse mode, which stays one native call each way."""
    cell = cell_named(name)
    xs, dxs = normal(0, B, T, M), normal(1, B, T, M)
    scale = jnp.float32(1.1)

    def one(scale, x):
        return jnp.sin(cell(scale * x)[0])

    def each(scale, xs):
        return jax.vmap(one, in_axes=(None, 0))(scale, xs)

    functions = [
        lambda s, xs: jax.jvp(each, (s, xs), (s, dxs)),
        lambda s, xs: jax.vmap(lambda x, dx: jax.jvp(one, (s, x), (s, dx)))(xs, dxs),
        lambda s, xs: jax.linearize(each, s, xs)[1](s, dxs),
        lambda s, xs: jax.jacfwd(each)(s, xs),
        lambda s, xs: jax.grad(lambda *a: each(*a).sum(), (0, 1))(s, xs),
        lambda s, xs: jax.vmap(jax.grad(lambda *a: one(*a).sum(), (0, 1)), (None, 0))(s, xs),
    ]
    all_of_them = lambda s, xs: [f(s, xs) for f in functions]  # noqa: E731
    assert_same(natively(all_of_them)(scale, xs), plainly(all_of_them)(scale, xs))
    kernel = "lru_layer" if name == "lru" else cell.kernel  # its layer is a kernel of its own
    for f in functions[-2:]:
        text = natively(f).lower(scale, xs).as_text()
        assert text.count(f"@persistor_{kernel}_forward") == 1
        assert text.count(f"@persistor_{kernel}_backward") == 1
        assert "while" not in text


def test_forward_mode_without_compiling():
    """Eagerly, and inside a loop and a rematerialised function."""
    f, arrays = recurrence("cmru", "dense")
    tangents = like(arrays, 50)
    with engine("native"):
        found = jax.jvp(f, arrays, tangents)
        again = jax.jvp(jax.checkpoint(f), arrays, tangents)
    expected = plainly(lambda *a: jax.jvp(f, a, tangents))(*arrays)
    assert_same(found, expected)
    assert_same(again, expected)
