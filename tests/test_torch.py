"""The twins for PyTorch compute what JAX computes: values and gradients, over the registries."""

import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_architecture
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_twins import (
    close,
    draw,
    in_torch,
    jax_gradients,
    moved,
    same_gradients,
    torch_gradients,
)

import persistor.torch as twin
from persistor import CELLS, Backbone, PersistorError, Pooling, engine
from persistor.torch.surrogate import heaviside, saturate, sign
from persistor.torch.transition import Affine, Saturating, unroll
from persistor.training.schedule import held

NAMES = sorted(twin.CELLS)
B, T, M, D = 3, 11, 5, 4
ROUNDING = 2e-5  # of single precision, after a few sums


def cell_named(name):
    options = {"epsilon": 0.5} if "cmru" in name else {}
    return moved(CELLS[name](M, D, key=jax.random.key(3), **options))


def state_of(cell):
    state = draw(8, B, D)
    if cell.state_dtype == jnp.complex64:
        return state + 1j * draw(9, B, D)
    return np.abs(np.rint(state)) if isinstance(cell, CELLS["ladder"]) else state


LENGTHS = np.array([4, T, 0])
RESETS = np.random.default_rng(1).random((B, T)) < 0.2


def test_twins_have_the_names_of_their_cells():
    assert len(NAMES) >= 7
    for name, kind in twin.CELLS.items():
        assert kind.__name__ == CELLS[name].__name__


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_cell_gives_the_numbers_and_gradients_of_jax(name, masked, tmp_path):
    cell = cell_named(name)
    other = in_torch(cell, tmp_path)
    x, state = draw(7, B, T, M), state_of(cell)
    lengths, resets = (LENGTHS, RESETS) if masked else (None, None)
    ours = {"lengths": lengths, "resets": resets} if masked else {}
    theirs = {k: torch.from_numpy(v) for k, v in ours.items()}
    ours = {k: jnp.asarray(v) for k, v in ours.items()}
    results, of_model, of_arrays = jax_gradients(
        lambda cell, x, h: cell(x, h, **ours), cell, x, state
    )
    found, of_found = torch_gradients(lambda cell, x, h: cell(x, h, **theirs), other, x, state)
    for a, b in zip(results, found, strict=True):
        close(a, b, ROUNDING)
    close(of_arrays[0], of_found[0], 5 * ROUNDING)
    conjugate = np.conj(np.asarray(of_arrays[1]))  # PyTorch's convention for complex numbers
    close(conjugate, of_found[1], 5 * ROUNDING)
    same_gradients(of_model, other, tmp_path, 5 * ROUNDING)


@pytest.mark.parametrize("choice", ["auto", "parallel"])
@pytest.mark.parametrize("name", ["bmru", "cmru", "alpha-cmru"])
def test_gradients_at_zero_are_those_of_every_engine(name, choice, tmp_path):
    """|x| has two slopes at 0: thresholds start there, and half of the inputs are 0 too."""
    cell = CELLS[name](M, D, thresholds="constant", key=jax.random.key(3))
    other = in_torch(cell, tmp_path)
    x = draw(7, B, T, M)
    x[:, ::2] = 0.0
    with engine(choice):
        _, of_model, _ = jax_gradients(lambda cell, x: cell(x), cell, x)
    torch_gradients(lambda cell, x: cell(x), other, x)
    same_gradients(of_model, other, tmp_path, 5 * ROUNDING)


@pytest.mark.parametrize("name", NAMES)
def test_chunked_and_streamed_equal_whole(name, tmp_path):
    cell = in_torch(cell_named(name), tmp_path)
    x, state = torch.from_numpy(draw(7, B, T, M)), torch.from_numpy(state_of(cell_named(name)))
    whole, last = cell(x, state)
    first, between = cell(x[:, :5], state)
    second, end = cell(x[:, 5:], between)
    close(torch.cat([first, second], 1).detach(), whole, ROUNDING)
    close(end.detach(), last, ROUNDING)
    outputs = []
    for t in range(T):
        y, state = cell.step(x[:, t], state)
        outputs.append(y)
    close(torch.stack(outputs, 1).detach(), whole, ROUNDING)
    alone, _ = cell(x[0])
    close(alone.detach(), cell(x)[0][0], ROUNDING)
    nothing, same = cell(x[:, :0], last)
    assert nothing.shape == (B, 0, D)
    close(same.detach(), last, 0)


def random_transitions(kind, length, generator):
    def numbers(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    decay, drive = numbers(2, length, 3), numbers(2, length, 3)
    if kind is Affine:
        return Affine(decay, drive)
    low = numbers(2, length, 3)
    return Saturating(decay.abs(), drive, low, low + numbers(2, length, 3).abs())


@given(st.integers(1, 40), st.sampled_from([Affine, Saturating]), st.integers(0, 99))
def test_the_parallel_scan_is_the_loop(length, kind, seed):
    generator = torch.Generator().manual_seed(seed)
    transitions = random_transitions(kind, length, generator)
    state = torch.randn(2, 3, generator=generator, dtype=torch.float64)
    states, last = unroll(transitions, state)
    for t in range(length):
        state = kind(*(a[:, t] for a in transitions))(state)
        torch.testing.assert_close(states[:, t], state)
    torch.testing.assert_close(last, state)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_the_gradient_of_the_scan_is_its_derivative(dtype):
    """Of the first and of the second order, by finite differences."""
    decay, drive, state = (
        torch.randn(*shape, dtype=dtype, requires_grad=True) for shape in [(5, 2), (5, 2), (2,)]
    )

    def states(decay, drive, state):
        return Affine(decay, drive).states(state)

    assert torch.autograd.gradcheck(states, (decay, drive, state))
    assert torch.autograd.gradgradcheck(states, (decay, drive, state))


def test_surrogates():
    x = torch.linspace(-2, 2, 9, requires_grad=True)
    slope = 1 / (1 + (torch.pi * x.detach()) ** 2)
    assert heaviside(x).tolist() == [0.0] * 4 + [1.0] * 5
    assert sign(x).tolist() == [-1.0] * 4 + [1.0] * 5
    torch.testing.assert_close(torch.autograd.grad(heaviside(x).sum(), x)[0], slope)
    torch.testing.assert_close(torch.autograd.grad(sign(x).sum(), x)[0], 2 * slope)
    clipped = saturate(x, torch.tensor(-1.0), torch.tensor(1.0))
    torch.testing.assert_close(clipped, x.clamp(-1, 1))
    assert torch.autograd.grad(clipped.sum(), x)[0].tolist() == [1.0] * 9


@pytest.mark.parametrize("name", NAMES)
def test_vmap_over_sequences(name, tmp_path):
    cell = in_torch(cell_named(name), tmp_path)
    x = torch.from_numpy(draw(7, B, T, M))
    weights = dict(cell.named_parameters())

    def loss(weights, x):
        return torch.func.functional_call(cell, weights, (x,))[0].square().sum()

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(weights, x)
    whole = torch.func.grad(loss)(weights, x)
    for key, gradient in whole.items():
        torch.testing.assert_close(each[key].sum(0), gradient, rtol=1e-4, atol=1e-4)


HYBRID = ("mingru", "cmru")
CASES = [((name,), Pooling.LAST, None) for name in NAMES]
CASES += [(HYBRID, pooling, lengths) for pooling in Pooling for lengths in (None, LENGTHS)]


def network(names, pooling=Pooling.LAST, **settings):
    *keys, last = jax.random.split(jax.random.key(5), len(names) + 1)
    cells = tuple(
        CELLS[name](8, D, key=k, **({"epsilon": 0.5} if "cmru" in name else {}))
        for name, k in zip(names, keys, strict=True)
    )
    return moved(Backbone(2, 3, cells, width=8, pooling=pooling, key=last, **settings))


def same_as_jax(model, other, x, lengths, folder):
    """Outputs, memory, and the gradients of inputs and of every weight."""
    memory = other.initial_state((len(x),))

    def ours(model, x):
        outputs, memory = model(x, lengths=None if lengths is None else jnp.asarray(lengths))
        if lengths is not None and model.pooling is Pooling.NONE:
            outputs = outputs[:, 0]  # beyond a length, outputs mean nothing
        return outputs, *memory.cells, memory.total

    def theirs(model, x):
        found = None if lengths is None else torch.from_numpy(lengths)
        outputs, memory = model(x, lengths=found)
        if lengths is not None and model.pooling == "none":
            outputs = outputs[:, 0]
        return outputs, *memory.cells, memory.total

    results, of_model, of_x = jax_gradients(ours, model, x)
    found, of_found = torch_gradients(theirs, other, x)
    assert len(memory.cells) + 2 == len(found)
    for a, b in zip(results, found, strict=True):
        close(a, b, 5 * ROUNDING)
    close(of_x[0], of_found[0], 5e-4)
    # what JAX leaves out of the update, PyTorch leaves out of the gradient
    still = held(of_model, jax.tree.map(jnp.zeros_like, of_model), model.architecture)
    same_gradients(still, other, folder, 5e-4)


@pytest.mark.parametrize(("stack", "pooling", "lengths"), CASES)
def test_a_backbone_gives_the_numbers_and_gradients_of_jax(stack, pooling, lengths, tmp_path):
    lengths = None if lengths is None else np.maximum(lengths, 1)
    model = network(stack, pooling)
    same_as_jax(model, in_torch(model, tmp_path), draw(6, B, T, 2), lengths, tmp_path)


@pytest.mark.parametrize("reading", list(test_architecture.READINGS))
def test_every_point_of_an_architecture_is_honoured(reading, tmp_path):
    architecture = test_architecture.READINGS[reading]
    model = test_architecture.model_of(architecture)
    other = in_torch(model, tmp_path)
    assert other.architecture == architecture
    same_as_jax(model, other, draw(6, B, T, 2), None, tmp_path)


@pytest.mark.parametrize("pooling", Pooling)
def test_a_backbone_streams(pooling, tmp_path):
    model = network(("cmru", "lru"), pooling)
    other = in_torch(model, tmp_path)
    x = torch.from_numpy(draw(6, B, T, 2))
    whole, memory = other(x)
    _, half = other(x[:, :5])
    chunked, after = other(x[:, 5:], half)
    close(chunked.detach(), whole[:, 5:] if pooling is Pooling.NONE else whole, 5 * ROUNDING)
    stream = other.initial_state((B,))
    for t in range(T):
        streamed, stream = other.step(x[:, t], stream)
    close(streamed.detach(), whole[:, -1] if pooling is Pooling.NONE else whole, 5 * ROUNDING)
    for found in (after, stream):
        assert int(found.position) == T
        close(found.total.detach(), memory.total, 1e-4)
        for a, b in zip(found.cells, memory.cells, strict=True):
            close(a.detach(), b, 5 * ROUNDING)


def test_with_positions_a_stream_cannot_go_on_from_several(tmp_path):
    other = in_torch(network(("cmru",)), tmp_path)
    x = torch.from_numpy(draw(6, B, T, 2))
    _, memory = other(x, lengths=torch.tensor([4, 6, 5]))
    assert memory.position.tolist() == [4, 6, 5]
    with pytest.raises(PersistorError, match="different positions"):
        other(x, memory)


@pytest.mark.parametrize("name", NAMES)
def test_autocast_keeps_states_in_the_type_of_the_parameters(name, tmp_path):
    cell = in_torch(cell_named(name), tmp_path)
    x = torch.from_numpy(draw(7, B, T, M))
    exact, _ = cell(x)
    with torch.autocast("cpu", torch.bfloat16):
        y, h = cell(x)
    assert y.dtype == torch.float32
    assert h.dtype == cell.state_dtype
    assert not torch.equal(y, exact) or name in ("bmru", "cmru", "positive-cmru", "ladder")
    y.sum().backward()
    assert cell.project.weight.grad.dtype == torch.float32
    if name in ("lru", "mingru"):  # hard gates may decide otherwise
        torch.testing.assert_close(y, exact, rtol=0.05, atol=0.05)
    halves, _ = cell(x.bfloat16())
    assert halves.dtype == torch.bfloat16


def test_autocast_of_a_backbone(tmp_path):
    other = in_torch(network(("mingru", "lru"), Pooling.MEAN), tmp_path)
    x = torch.from_numpy(draw(6, B, T, 2))
    with torch.autocast("cpu", torch.bfloat16):
        y, memory = other(x)
    assert y.dtype == torch.float32
    assert memory.cells[0].dtype == torch.float32
    torch.testing.assert_close(y, other(x)[0], rtol=0.1, atol=0.1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", NAMES)
def test_other_precisions(name, dtype, tmp_path):
    cell = in_torch(cell_named(name), tmp_path).to(dtype)
    y, h = cell(torch.from_numpy(draw(7, B, T, M)).to(dtype))
    assert y.dtype == dtype
    assert h.dtype == cell.state_dtype
    y.float().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == dtype for p in cell.parameters())


COMPILE = """
import sys, torch, persistor.torch as twin
from torch import nn
torch.manual_seed(0)
backend, *names = sys.argv[1:]
def same(model, x):
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    results = []
    for f in (model, compiled):
        model.zero_grad()
        y, _ = f(x)
        y.square().sum().backward()
        results.append([y.detach(), *(p.grad.clone() for p in model.parameters())])
    torch.testing.assert_close(*results, rtol=1e-3, atol=1e-4)
for name in names:
    torch._dynamo.reset()
    cells = [twin.CELLS[name](8, 3)]
    same(cells[0], torch.randn(2, 13, 8))
    torch._dynamo.reset()
    same(twin.Backbone(2, 3, cells, width=8, pooling="mean"), torch.randn(2, 13, 2))
    print(name)
"""


def compiled(*arguments):
    """In a process of its own: the checks of annotations in tests cannot be compiled."""
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == list(arguments[1:])


@pytest.mark.slow
def test_every_cell_is_one_graph():
    compiled("aot_eager", *NAMES)


@pytest.mark.slow
def test_compiled_code_computes_the_same():
    compiled("inductor", "cmru", "ladder")


def test_dropout_acts_in_training_only(tmp_path):
    other = in_torch(network(("mingru",), dropout=0.5), tmp_path)
    x = torch.from_numpy(draw(6, B, T, 2))
    one, two = other(x)[0], other(x)[0]
    assert not torch.equal(one, two)
    other.eval()
    assert torch.equal(other(x)[0], other(x)[0])
    close(network(("mingru",), dropout=0.5)(jnp.asarray(x.numpy()))[0], other(x)[0], 5 * ROUNDING)


@pytest.mark.parametrize("name", ["positive-cmru", "ladder"])
@pytest.mark.parametrize("kind", ["mismatch", "noise"])
def test_a_circuit_is_disturbed_in_training_only(name, kind):
    cell = twin.CELLS[name](M, 64, **{kind: 0.5})
    x = torch.from_numpy(draw(7, B, 40, M))
    assert not torch.equal(cell(x)[0], cell(x)[0])
    cell.eval()
    assert torch.equal(cell(x)[0], cell(x)[0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c, x: c(x[..., :2]), r"the inputs have shape .*; give \(.., steps, 5\)"),
        (lambda c, x: c(x[0, 0]), "give"),
        (lambda c, x: c.step(x[:, 0, :2], c.initial_state((B,))), r"give \(.., 5\)"),
        (lambda c, x: c(x, torch.zeros(2, D)), "the state: the shape is"),
        (lambda c, x: c(x, torch.zeros(B, D) + 0j), "this cell's state is torch.float32"),
        (lambda c, x: c(x, lengths=torch.tensor([1])), "lengths: the shape is"),
        (lambda c, x: c(x, resets=torch.zeros(B, 2, dtype=bool)), "resets: the shape is"),
        (lambda c, x: twin.CMRU(M, 0), "the number of units is 0"),
        (lambda c, x: twin.CMRU(M, D, epsilon=2.0), "epsilon is 2"),
        (lambda c, x: twin.CMRU(M, D, epsilon=(0.5, 0.5)), "one per unit"),
        (lambda c, x: twin.CMRU(M, D, hold=-1.0), "hold is -1"),
        (lambda c, x: twin.CMRU(M, D, thresholds="x"), "thresholds is x"),
        (lambda c, x: twin.Ladder(M, D, levels=0), "levels is 0"),
        (lambda c, x: twin.Backbone(2, 3, [c]), "the model's width is 256"),
        (lambda c, x: twin.Backbone(2, 3, []), "at least one"),
        (lambda c, x: twin.Backbone(2, 3, [c], width=M, pooling="sum"), "unknown pooling"),
        (lambda c, x: twin.Backbone(2, 3, [c], width=M, dropout=1.0), "dropout is 1"),
        (lambda c, x: twin.Backbone(2, 3, [c], width=M)(x), r"give \(.., steps, 2\)"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(PersistorError, match=message):
        call(twin.CMRU(M, D), torch.from_numpy(draw(7, B, T, M)))


def test_importing_the_cells_does_not_import_jax():
    code = (
        "import sys, torch, persistor.torch as twin; twin.CMRU(3, 4)(torch.zeros(5, 3)); "
        "assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_pytorch_its_command_is_named():
    code = "import importlib.util as u; u.find_spec = lambda name: None; import persistor.torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "PyTorch is not installed: pip install 'persistor[torch]'" in done.stderr


def test_gradients_are_trees_of_the_model():
    """What `same_gradients` compares has all parameters, and none is a zero by mistake."""
    cell = cell_named("cmru")
    _, of_model, _ = jax_gradients(lambda c, x: c(x), cell, draw(7, B, T, M))
    for leaf in jax.tree.leaves(eqx.filter(of_model, eqx.is_inexact_array)):
        assert jnp.abs(leaf).max() > 0
