"""What the paper proves, as functions."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp

from persistor._tools.errors import PersistorError
from persistor.arrays import Array, Float, Inexact
from persistor.cells import Cell
from persistor.nn.layers import check_size
from persistor.recurrence.transition import Affine, Saturating, Transition


def quantisation_limit(bits: int) -> float:
    """The least mean absolute error of a number in [-1, 1] kept in `bits` binary slots.

    Appendix "Optimal Quantization on [-1, 1] and Minimal MAE": 2^bits equal bins, read at their
    middle, leave an error of 1 / 2^(bits + 1) on average.
    """
    check_size("bits", bits)
    return 0.5 ** (bits + 1)


class StateSpaceForm(eqx.Module):
    """h_t = A(x_t) h_{t-1} + B(x_t) x_t, where A is diagonal and stored as its diagonal."""

    a: Inexact[Array, "*s d"]
    b: Inexact[Array, "*s d m"]

    def __call__(
        self, x: Float[Array, "*s m"], state: Inexact[Array, "*s d"]
    ) -> Inexact[Array, "*s d"]:
        """One step."""
        return self.a * state + jnp.einsum("...dm,...m->...d", self.b, x.astype(self.b.dtype))


def state_space_form(cell: Cell, x: Float[Array, "*s m"]) -> StateSpaceForm:
    """The selective state-space form of a cell on given inputs.

    Appendix "The alphaCMRU Admits a Selective State-Space Representation": A(x) = diag(decay) and,
    in canonical form, B(x) = drive(x) x^T / (x^T x). An input of zero has no such B.
    """
    transition = cell.transition(x)
    if not isinstance(transition, Affine):
        raise PersistorError(f"{type(cell).__name__} saturates, so it has no state-space form")
    direction = x / jnp.square(x).sum(-1, keepdims=True)
    b = transition.drive[..., :, None] * direction[..., None, :].astype(transition.drive.dtype)
    return StateSpaceForm(transition.decay, b)


def gradient_flow(transitions: Transition) -> Float[Array, "*b t d"]:
    """|dh_T / dh_t| for every t: the product of the decays after t; 1 at the last step."""
    if not isinstance(transitions, Affine | Saturating):
        raise PersistorError(f"transitions is {transitions!r}; give those of a cell")
    later = jnp.concatenate(
        [transitions.decay[..., 1:, :], jnp.ones_like(transitions.decay[..., :1, :])], axis=-2
    )
    return jnp.abs(jnp.flip(jnp.cumprod(jnp.flip(later, -2), -2), -2))
