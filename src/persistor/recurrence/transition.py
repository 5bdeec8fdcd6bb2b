"""The recurrence, written once: a cell never runs, it maps an input to a transition of its state.

Nearly every cell is affine in its state: h_t = decay_t * h_{t-1} + drive_t, elementwise, with decay
and drive computed from x_t alone (appendix "The alphaCMRU Admits a Selective State-Space
Representation": A(x_t) = diag(decay)). A ladder is affine between two ends. Both compose to maps of
their own kind. So streaming applies transitions one by one, training folds them with `then`, and
both come from the few lines below.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp

from persistor.arrays import Array, Bool, Float, Inexact
from persistor.recurrence.surrogate import saturate


class Affine(eqx.Module):
    """The map h -> decay * h + drive."""

    decay: Inexact[Array, "*s"]
    drive: Inexact[Array, "*s"]

    def __call__(self, h: Inexact[Array, "..."]) -> Inexact[Array, "..."]:
        """Apply to a state."""
        return self.decay * h + self.drive

    def then(self, later: Affine) -> Affine:
        """The composition: first self, then `later`. Associative, with the identity neutral."""
        return Affine(later.decay * self.decay, later(self.drive))

    def keep_where(self, keep: Bool[Array, "*s"]) -> Affine:
        """The identity (decay 1, drive 0) where `keep` is false: what padding does to a state."""
        one = jnp.ones((), self.decay.dtype)
        zero = jnp.zeros((), self.drive.dtype)
        return Affine(jnp.where(keep, self.decay, one), jnp.where(keep, self.drive, zero))

    def reset_where(self, reset: Bool[Array, "*s"]) -> Affine:
        """Forget the past where `reset` is true: the step then starts from a zero state."""
        return Affine(jnp.where(reset, jnp.zeros((), self.decay.dtype), self.decay), self.drive)

    def at(self, h: Inexact[Array, "*s"]) -> Affine:
        """The affine map that this is around a state: itself."""
        return self


def unbounded(dtype: jnp.dtype) -> float:
    """The upper bound that is none. It is finite, for a reset multiplies bounds by 0."""
    return float(jnp.finfo(dtype).max)


class Saturating(eqx.Module):
    """The map h -> clip(decay * h + drive, low, high), with low <= high and a constant decay >= 0.

    Gradients pass a clip as if it were not there (see `surrogate.saturate`).
    """

    affine: Affine
    low: Float[Array, "*s"]
    high: Float[Array, "*s"]

    @property
    def decay(self) -> Float[Array, "*s"]:
        """What gradients are multiplied by."""
        return self.affine.decay

    def __call__(self, h: Float[Array, "..."]) -> Float[Array, "..."]:
        """Apply to a state."""
        return saturate(self.affine(h), self.low, self.high)

    def then(self, later: Saturating) -> Saturating:
        """The composition: first self, then `later`. Associative, with the identity neutral."""
        return Saturating(self.affine.then(later.affine), later(self.low), later(self.high))

    def keep_where(self, keep: Bool[Array, "*s"]) -> Saturating:
        """The identity (decay 1, drive 0, no bounds) where `keep` is false."""
        low = jnp.where(keep, self.low, -unbounded(self.low.dtype))
        high = jnp.where(keep, self.high, unbounded(self.high.dtype))
        return Saturating(self.affine.keep_where(keep), low, high)

    def reset_where(self, reset: Bool[Array, "*s"]) -> Saturating:
        """Forget the past where `reset` is true: the step then starts from a zero state."""
        return Saturating(self.affine.reset_where(reset), self.low, self.high)

    def at(self, h: Float[Array, "*s"]) -> Affine:
        """The affine map that this is around a state: where it clips, the state is forgotten."""
        after = self(h)
        clips = after != self.affine(h)
        decay = jnp.where(clips, 0.0, self.affine.decay)
        return Affine(decay, jnp.where(clips, after, self.affine.drive))


Transition = Affine | Saturating
