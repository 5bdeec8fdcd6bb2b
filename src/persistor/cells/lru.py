"""LRU: the linear recurrent unit, a fading-memory baseline with complex states."""

from __future__ import annotations

import math
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from persistor import kernels
from persistor.arrays import Array, Bool, Complex, Float, Inexact, Int, Key
from persistor.cells.cell import Cell
from persistor.kernels.engine import runs_natively
from persistor.nn.draws import normal, split, times, uniform
from persistor.nn.layers import Linear, check_key
from persistor.nn.sequence import Dense, Sequence
from persistor.recurrence.lru_layer import Weights, lru_layer
from persistor.recurrence.transition import Affine


class LRU(Cell):
    """Appendix "Linear Recurrent Unit" (Orvieto et al., 2023): diagonal, complex, always decaying.

    h_t = Lambda h_{t-1} + gamma B x_t,  Lambda = exp(-exp(nu) + i exp(theta))
    y_t = Re(C h_t) + D x_t,             gamma = sqrt(1 - |Lambda|^2)

    At the start |Lambda| is uniform on the ring [0.9, 0.999] and the phase in [0, 2 pi].
    """

    kernel: ClassVar[str | None] = "lru"
    project: Linear  # B: real parts, imaginary parts
    nu: Float[Array, " d"]
    theta: Float[Array, " d"]
    mix_real: Float[Array, "d d"]  # C
    mix_imaginary: Float[Array, "d d"]
    skip: Linear  # D
    state_size: int = eqx.field(static=True)

    def __init__(self, input_size: int, state_size: int, *, key: Key):
        check_key(key)
        radius, phase, project, real, imaginary, skip = split(key, 6)
        square = uniform(radius, (state_size,), 0.9**2, 0.999**2)
        self.nu = jnp.log(-0.5 * jnp.log(square))
        self.theta = jnp.log(uniform(phase, (state_size,), 1e-6, 2 * math.pi))
        # B and C: each part has half of the variance 1 / inputs that a complex entry has.
        self.project = Linear(input_size, 2 * state_size, bias=False, key=project)
        self.project = eqx.tree_at(lambda p: p.weight, self.project, self.project.weight / 2**0.5)
        spread = (2 * state_size) ** -0.5
        self.mix_real = times(spread, normal(real, (state_size, state_size)))
        self.mix_imaginary = times(spread, normal(imaginary, (state_size, state_size)))
        self.skip = Linear(input_size, state_size, bias=False, key=skip)
        self.state_size = state_size

    @property
    def state_dtype(self) -> jnp.dtype:
        """Complex numbers of the parameters' precision, at least single."""
        is_double = self.project.weight.dtype == jnp.float64
        return jnp.dtype(jnp.complex128 if is_double else jnp.complex64)

    def eigenvalues(self) -> Complex[Array, " d"]:
        """Lambda."""
        return jnp.exp(jax.lax.complex(-jnp.exp(_wide(self.nu)), jnp.exp(_wide(self.theta))))

    def gamma(self) -> Float[Array, " d"]:
        """The factor of the input that keeps states of unit size."""
        return jnp.sqrt(-jnp.expm1(-2 * jnp.exp(_wide(self.nu))))

    def kernel_parameters(self) -> Float[Array, "3 d"]:
        """Eigenvalues, real and imaginary parts, and gamma."""
        decay = self.eigenvalues()
        return jnp.stack([decay.real, decay.imag, self.gamma()])

    def gate(self, p: Float[Array, "*s p"]) -> Affine:
        """A constant decay; the drive is the normalised projection of the input."""
        real, imaginary = self.parts(_wide(p))
        decay = self.eigenvalues().reshape((1,) * (real.ndim - 1) + (self.state_size,))
        gamma = self.gamma().reshape(decay.shape)
        drive = jax.lax.complex(gamma * real, gamma * imaginary)
        return Affine(jnp.broadcast_to(decay, drive.shape), drive)

    def read(self, states: Complex[Array, "*b t d"], inputs: Sequence) -> Float[Array, "*b t d"]:
        """Re(C h) + D x."""
        mixed = states.real @ _wide(self.mix_real) - states.imag @ _wide(self.mix_imaginary)
        return mixed.astype(self.mix_real.dtype) + inputs.linear(self.skip).dense()

    def outputs(
        self,
        inputs: Sequence,
        initial_state: Inexact[Array, "*b d"] | None = None,
        *,
        lengths: Int[Array, "*b"] | None = None,
        resets: Bool[Array, "*b t"] | None = None,
    ) -> tuple[Float[Array, "*b t d"], Inexact[Array, "*b d"]]:
        """Outputs and the last state: natively in one pass, where every step is written out."""
        first = self._first_state(initial_state, inputs.batch)
        has_bias = self.project.bias is not None or self.skip.bias is not None
        if has_bias or not isinstance(inputs, Dense):
            return super().outputs(inputs, first, lengths=lengths, resets=resets)
        x = inputs.values.astype(self.project.weight.dtype)
        if not runs_natively(lambda: kernels.refusal(x, first)):
            return super().outputs(inputs, first, lengths=lengths, resets=resets)
        mix = jnp.concatenate([self.mix_real, -self.mix_imaginary])
        parameters = self.kernel_parameters()
        weights = Weights(self.project.weight, parameters, mix, self.skip.weight)
        return lru_layer(weights, x, first, lengths=lengths, resets=resets)


def _wide(x: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """In single precision or more: there are no complex numbers of less."""
    return x if jnp.finfo(x.dtype).bits >= 32 else x.astype(jnp.float32)
