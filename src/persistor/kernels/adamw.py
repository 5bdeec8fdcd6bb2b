"""AdamW on clipped gradients, in one pass over gradients, weights and moments, in their memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import jax
import jax.numpy as jnp
import numpy as np

from persistor.arrays import Array, Float, Int
from persistor.kernels.loader import require

Arrays = Sequence[Array]


@dataclass(frozen=True)
class AdamW:
    """What is constant: the clip of the global norm, and AdamW's numbers."""

    clip: float
    weight_decay: float
    first_decay: float = 0.9
    second_decay: float = 0.99
    epsilon: float = 1e-8

    def __call__(
        self,
        rates: Float[Array, " n"],
        count: Int[Array, ""],
        gradients: Arrays,
        weights: Arrays,
        first: Arrays,
        second: Arrays,
    ) -> tuple[Arrays, Arrays, Arrays]:
        """New weights and moments after `count` earlier steps, natively.

        Array i of the weights has a rate of its own. `training.schedule.optimiser` is the same in
        plain JAX.
        """
        require()
        n = len(weights)
        replaced = (*weights, *first, *second)
        results = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in replaced]
        call = jax.ffi.ffi_call(
            "persistor_adamw",
            results,
            input_output_aliases={2 + n + i: i for i in range(3 * n)},
        )
        numbers = {name: np.float32(value) for name, value in asdict(self).items()}
        new = call(rates, jnp.asarray(count, jnp.int32), *gradients, *replaced, **numbers)
        return new[:n], new[n : 2 * n], new[2 * n :]
