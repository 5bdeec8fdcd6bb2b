"""A model in JAX, its twin in PyTorch, and what both make of the same inputs."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import torch

import persistor
import persistor.torch as twin


def draw(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def moved(model, seed=4):
    """The model away from the special values at the start."""
    arrays, rest = eqx.partition(model, eqx.is_array)
    leaves, tree = jax.tree.flatten(arrays)
    keys = jax.random.split(jax.random.key(seed), len(leaves))
    leaves = [
        x + 0.1 * jax.random.normal(k, x.shape, x.dtype) for x, k in zip(leaves, keys, strict=True)
    ]
    return eqx.combine(jax.tree.unflatten(tree, leaves), rest)


def in_torch(model, folder):
    """The same model for PyTorch, by way of a file."""
    persistor.save(model, folder / "jax.safetensors")
    kind = twin.Cell if isinstance(model, persistor.Cell) else twin.Backbone
    return twin.load(folder / "jax.safetensors", kind)


def close(ours, theirs, tolerance, name=""):
    theirs = theirs.detach().numpy() if isinstance(theirs, torch.Tensor) else theirs
    np.testing.assert_allclose(
        np.asarray(ours), theirs, rtol=tolerance, atol=tolerance, err_msg=name
    )


def number(leaves, cos, total):
    """A number made of all results, by the functions of one of the frameworks."""
    return sum(total(cos(part)) for leaf in leaves for part in leaf)


def jax_gradients(call, model, *arrays):
    """Results of `call(model, *arrays)`, and the gradients of a number made of all of them."""

    def loss(pair):
        results = call(pair[0], *pair[1])
        parts = [(r.real, r.imag) if jnp.iscomplexobj(r) else (r,) for r in results]
        return number(parts, jnp.cos, jnp.sum), results

    given = (model, tuple(map(jnp.asarray, arrays)))
    (_, results), (of_model, of_arrays) = eqx.filter_value_and_grad(loss, has_aux=True)(given)
    return results, eqx.combine(of_model, model), of_arrays


def torch_gradients(call, model, *arrays):
    """The same in PyTorch; gradients of parameters are left in the model."""
    given = [torch.tensor(np.asarray(a), requires_grad=True) for a in arrays]
    results = call(model, *given)
    parts = [(r.real, r.imag) if r.is_complex() else (r,) for r in results]
    number(parts, torch.cos, torch.sum).backward()
    return results, [a.grad for a in given]


def same_gradients(of_model, model, folder, tolerance):
    """Whether the gradients in JAX, in the shape of a model, are those left in its twin."""
    expected = in_torch(of_model, folder)
    for (name, value), (_, parameter) in zip(
        expected.named_parameters(), model.named_parameters(), strict=True
    ):
        grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        size = np.abs(value.detach().numpy()).max(initial=1.0)
        close(value.detach(), grad, tolerance * size, name)
