"""The recurrence, written once: every cell is affine in its state.

h_t = decay_t * h_{t-1} + drive_t, elementwise, with decay and drive computed from x_t alone
(appendix "The alphaCMRU Admits a Selective State-Space Representation": A(x_t) = diag(decay)).
So a cell never runs: it maps an input to a transition. Streaming applies transitions one by one,
training folds them with `then`, and both come from the two lines below.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp

from persistor.arrays import Array, Bool, Inexact


class Affine(eqx.Module):
    """The map h -> decay * h + drive."""

    decay: Inexact[Array, "*s"]
    drive: Inexact[Array, "*s"]

    def __call__(self, h: Inexact[Array, "..."]) -> Inexact[Array, "..."]:
        """Apply to a state."""
        return self.decay * h + self.drive

    def then(self, later: Affine) -> Affine:
        """The composition: first self, then `later`. Associative, with `identity` neutral."""
        return Affine(later.decay * self.decay, later(self.drive))

    def keep_where(self, keep: Bool[Array, "*s"]) -> Affine:
        """The identity (decay 1, drive 0) where `keep` is false: what padding does to a state."""
        one = jnp.ones((), self.decay.dtype)
        zero = jnp.zeros((), self.drive.dtype)
        return Affine(jnp.where(keep, self.decay, one), jnp.where(keep, self.drive, zero))

    def reset_where(self, reset: Bool[Array, "*s"]) -> Affine:
        """Forget the past where `reset` is true: the step then starts from a zero state."""
        return Affine(jnp.where(reset, jnp.zeros((), self.decay.dtype), self.decay), self.drive)


def identity(shape: tuple[int, ...], dtype: jnp.dtype) -> Affine:
    """The transition that retains: h -> h."""
    return Affine(jnp.ones(shape, dtype), jnp.zeros(shape, dtype))
