"""What all cells share: how a transition becomes a layer, a stream, or a state-space form."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from persistor import kernels
from persistor._tools.errors import PersistorError
from persistor._tools.options import Option
from persistor.arrays import Array, Bool, Float, Inexact, Int, Key
from persistor.kernels.engine import runs_natively
from persistor.nn.arguments import array, batch_shape, sequence
from persistor.nn.layers import Linear
from persistor.nn.sequence import Indexed, Sequence, in_type_of
from persistor.recurrence.native import native_states
from persistor.recurrence.transition import Transition
from persistor.recurrence.unroll import composed, unroll


class Cell(eqx.Module):
    """A recurrent cell: it maps an input to a transition of its state.

    A new cell gives `project` (a linear map of the input, all projections side by side), `gate`
    (elementwise, from projections to the transition) and, if it is more, `read` (from states to
    outputs).
    Everything else follows from these and is final. Leading axes of the input are free: a single
    sequence (t, m) and a batch (b, t, m) both work.

    Settings beyond the two sizes are declared as `options` and are arguments of the constructor by
    the same names. A cell may name a native `kernel` that computes `gate` and the recurrence in one
    pass, and then says with `kernel_parameters` what the kernel needs besides projections.

    A cell computes in the type of its parameters, in which its states are too. Its outputs have the
    type of its inputs.
    """

    kernel: ClassVar[str | None] = None
    options: ClassVar[tuple[Option, ...]] = ()
    project: eqx.AbstractVar[Linear]
    state_size: eqx.AbstractVar[int]

    if TYPE_CHECKING:  # what a checker may assume of any cell's class; each has its own

        def __init__(self, input_size: int, state_size: int, *, key: Key, **options: Any): ...

    @property
    def input_size(self) -> int:
        """The width of the inputs."""
        return self.project.weight.shape[0]

    @property
    def state_dtype(self) -> jnp.dtype:
        """The type of the states: that of the parameters."""
        return self.project.weight.dtype

    def parts(self, p: Float[Array, "*s p"]) -> list[Float[Array, "*s d"]]:
        """The projections one by one, as many as `project` has."""
        return jnp.split(p, p.shape[-1] // self.state_size, axis=-1)

    @abstractmethod
    def gate(self, p: Float[Array, "*s p"]) -> Transition:
        """The transition, from the projections of an input; elementwise in the units."""

    def read(self, states: Inexact[Array, "*b t d"], inputs: Sequence) -> Float[Array, "*b t d"]:
        """The outputs, from the states and the inputs that led to them: the states themselves."""
        return states

    def kernel_parameters(self) -> Float[Array, "q d"]:
        """What the kernel needs besides projections: nothing."""
        return jnp.zeros((0, self.state_size), self.project.weight.dtype)

    def disturbed(self, projections: Sequence, key: Key) -> Sequence:
        """The projections as a circuit that is not ideal would have them: here, as they are."""
        return projections

    def transition(self, x: Float[Array, "*s m"]) -> Transition:
        """The transition of the state, such as h -> decay * h + drive, that input x stands for."""
        return self.gate(self.project(x))

    def initial_state(self, batch: tuple[int, ...] = ()) -> Inexact[Array, "*b d"]:
        """The state before the first step: zeros."""
        return jnp.zeros((*batch_shape(batch), self.state_size), self.state_dtype)

    def states(
        self,
        inputs: Sequence,
        initial_state: Inexact[Array, "*b d"] | None = None,
        *,
        lengths: Int[Array, "*b"] | None = None,
        resets: Bool[Array, "*b t"] | None = None,
        every: bool = True,
        key: Key | None = None,
    ) -> tuple[Inexact[Array, "*b s d"], Inexact[Array, "*b d"]]:
        """All states over a sequence (only the last if not `every`), and the last one.

        With a `key`, in training, the inputs are disturbed as a circuit would disturb them. What
        computes is the chosen engine: see `persistor.kernels.engine`.
        """
        projections = inputs.linear(self.project)
        return self.states_of(
            projections if key is None else self.disturbed(projections, key),
            initial_state,
            lengths=lengths,
            resets=resets,
            every=every,
        )

    def states_of(
        self,
        projections: Sequence,
        initial_state: Inexact[Array, "*b d"] | None = None,
        *,
        lengths: Int[Array, "*b"] | None = None,
        resets: Bool[Array, "*b t"] | None = None,
        every: bool = True,
    ) -> tuple[Inexact[Array, "*b s d"], Inexact[Array, "*b d"]]:
        """As `states`, from the projections of the inputs: gates and the recurrence."""
        initial_state = self._first_state(initial_state, projections.batch)
        if isinstance(projections, Indexed) and projections.rest:
            if every or lengths is not None or resets is not None:
                projections = projections.whole()
            else:
                return self._states_of_shared(projections, initial_state)
        if runs_natively(lambda: self._refusal(projections, initial_state)):
            return native_states(
                self._without_projection(),
                projections,
                initial_state,
                lengths=lengths,
                resets=resets,
                every=every,
            )
        transitions = self.gate(projections.dense())
        states, last = unroll(transitions, initial_state, lengths=lengths, resets=resets)
        return (states if every else last[..., None, :]), last

    def _first_state(
        self, state: Inexact[Array, "*b d"] | None, batch: tuple[int, ...]
    ) -> Inexact[Array, "*b d"]:
        """The state to begin with, checked: zeros if there is none."""
        if state is None:
            return self.initial_state(batch)
        state = array("the state", state, "numbers or complex numbers")
        if jnp.iscomplexobj(state) != jnp.issubdtype(self.state_dtype, jnp.complexfloating):
            raise PersistorError(
                f"initial_state is {state.dtype}; this cell's state is {self.state_dtype}"
            )
        return self._checked(state, batch)

    def _checked(self, state: Any, batch: tuple[int, ...]) -> Array:
        """A state in the type of this cell's; it must have one for each sequence."""
        state = array("the state", state, "numbers or complex numbers")
        if state.shape != (*batch, self.state_size):
            raise PersistorError(
                f"the state has shape {state.shape}; {(*batch, self.state_size)} is expected"
            )
        return state.astype(self.state_dtype)

    def _states_of_shared(
        self, projections: Indexed, initial_state: Inexact[Array, "*b d"]
    ) -> tuple[Inexact[Array, "*b 1 d"], Inexact[Array, "*b d"]]:
        """The last state, where sequences share their later steps: these are one map for all."""
        own, shared = projections.parts()
        _, last = self.states_of(own, initial_state, every=False)
        after = composed(self.gate(shared.dense()))
        last = jax.tree.map(lambda a: jnp.broadcast_to(a, last.shape), after)(last)
        return last[..., None, :], last

    def _without_projection(self) -> Cell:
        """The cell as the kernel has it: the projection is done, and has no gradient there."""
        return eqx.tree_at(lambda c: c.project, self, jax.lax.stop_gradient(self.project))

    def _refusal(self, projections: Sequence, initial_state: Array) -> str | None:
        """Why the kernel cannot take this call; None if it can."""
        if self.kernel is None:
            return "this cell has no kernel"
        if not projections.length:
            return "there are no steps"
        parameters = self.kernel_parameters()
        given = [
            *jax.tree.leaves(projections),
            initial_state,
            *([parameters] * (parameters.size > 0)),
        ]
        return kernels.refusal(*given)

    def __call__(
        self,
        x: Float[Array, "*b t m"] | np.ndarray | Sequence,
        initial_state: Inexact[Array, "*b d"] | None = None,
        *,
        lengths: Int[Array, "*b"] | None = None,
        resets: Bool[Array, "*b t"] | None = None,
    ) -> tuple[Float[Array, "*b t d"], Inexact[Array, "*b d"]]:
        """Outputs over a whole sequence, and the last state: `(xs, h0) -> (ys, hT)`.

        `initial_state` is the state to begin with (zeros by default). Feed the last state of one
        chunk into the next, and the chunks equal the whole. `lengths` and `resets` are explained in
        `recurrence.unroll`.
        """
        inputs, lengths = sequence(x, self.input_size, lengths)
        ys, last = self.outputs(inputs, initial_state, lengths=lengths, resets=resets)
        return in_type_of(inputs, ys), last

    def outputs(
        self,
        inputs: Sequence,
        initial_state: Inexact[Array, "*b d"] | None = None,
        *,
        lengths: Int[Array, "*b"] | None = None,
        resets: Bool[Array, "*b t"] | None = None,
    ) -> tuple[Float[Array, "*b t d"], Inexact[Array, "*b d"]]:
        """Outputs over a whole sequence, and the last state: all states, read."""
        states, last = self.states(inputs, initial_state, lengths=lengths, resets=resets)
        return self.read(states, inputs), last

    def step(
        self, x: Float[Array, "*b m"], state: Inexact[Array, "*b d"]
    ) -> tuple[Float[Array, "*b d"], Inexact[Array, "*b d"]]:
        """One step of a stream: the output and the next state."""
        x = array("the input", x)
        inputs, _ = sequence(x[..., None, :], self.input_size)
        state = self.transition(x)(self._checked(state, x.shape[:-1]))
        return in_type_of(inputs, self.read(state[..., None, :], inputs))[..., 0, :], state
