"""Recurrent layers of other packages that run on a CPU (`pip install persistor[bench]`), and our
models in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from persistor._tools.errors import PersistorError
from persistor.model import Backbone

Step = Callable[[], Any]


def mingru_pytorch(x: np.ndarray, state: int) -> Step:
    """minGRU-pytorch: a log-space parallel scan."""
    from minGRU_pytorch import minGRU  # pyright: ignore[reportMissingImports]

    return _torch(minGRU(state), x)


def torch_gru(x: np.ndarray, state: int) -> Step:
    """PyTorch's own GRU: a loop over time in C++."""
    from torch import nn  # pyright: ignore[reportMissingImports]

    return _torch(nn.GRU(x.shape[-1], state, batch_first=True), x)


def s5_pytorch(x: np.ndarray, state: int) -> Step:
    """s5-pytorch: a complex diagonal state space, with an associative scan."""
    from s5 import S5  # pyright: ignore[reportMissingImports]

    return _torch(S5(x.shape[-1], state), x)


def memax_lru(x: np.ndarray, state: int) -> Step:
    """memax: LRU as a semigroup, with an associative scan in JAX."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    from memax.equinox.semigroups.lru import LRU  # pyright: ignore[reportMissingImports]

    layer = LRU(recurrent_size=state, hidden_size=x.shape[-1], key=jax.random.key(0))
    begins = jnp.zeros(x.shape[:2], bool).at[:, 0].set(True)

    @eqx.filter_jit
    @eqx.filter_grad
    def gradient(layer_and_input, begins):
        layer, x = layer_and_input
        outputs = jax.vmap(lambda x, b: layer(layer.initialize_carry(), (x, b))[1])(x, begins)
        return outputs.sum()

    arguments = (layer, jnp.asarray(x))
    return lambda: jax.block_until_ready(eqx.filter(gradient(arguments, begins), eqx.is_array))


PEERS: dict[str, tuple[str, Callable[[np.ndarray, int], Step]]] = {  # name: (our cell, its layer)
    "minGRU-pytorch": ("mingru", mingru_pytorch),
    "torch.nn.GRU": ("mingru", torch_gru),
    "s5-pytorch": ("lru", s5_pytorch),
    "memax LRU": ("lru", memax_lru),
}


def _torch(layer: Any, x: np.ndarray) -> Step:
    """Forward and backward pass of a PyTorch layer, with gradients of weights and input."""
    import torch  # pyright: ignore[reportMissingImports]

    values = torch.from_numpy(x)

    def step() -> None:
        layer.zero_grad()
        outputs = layer(values.clone().requires_grad_())
        (outputs[0] if isinstance(outputs, tuple) else outputs).sum().backward()

    return step


def onnx_runtime(model: Backbone, x: np.ndarray, *, whole: bool = True) -> Step:
    """A model in ONNX Runtime on whole sequences (b, t, i), or on a step (b, i) of each.

    There is an error if ONNX Runtime is not here.
    """
    try:
        from persistor.export.onnx import SEQUENCE, STEP, graphs
        from persistor.export.onnx.proof import carried, session
    except ImportError as error:
        raise PersistorError(f"{error}: pip install 'persistor[onnx]'") from None
    run = session(graphs(model)[SEQUENCE if whole else STEP].SerializeToString()).run
    given = {"x": x, **carried(model, model.initial_state((len(x),)))}
    return lambda: run(["y"], given)[0]
