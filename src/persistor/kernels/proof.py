"""Proof that compiled kernels work with the jaxlib that is here: every one is called once.

A library that was compiled against other headers than those of the jaxlib at run time may load and
register without an error, and fail at the first call, or compute nonsense. So each kernel is given
a few numbers, forward and backward, all in one compiled program, and what its results add up to is
compared with what plain JAX computes. These sums stand below; a test computes them again.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np

STEPS, UNITS, ROWS = 5, 3, 2
TOLERANCE = 1e-3


class Unrolling(NamedTuple):
    """How many projections and parameters a unit has, and the sums of the results."""

    projections: int
    parameters: int
    forward: float
    backward: float
    states: Any = np.float32


class Layer(NamedTuple):
    """The width of the operands of a layer besides its rows, how many, and the sums."""

    width: int
    parameters: int
    forward: float
    backward: float


RECURRENCES = {
    "cmru": Unrolling(2, 2, 0.04966, 0.51655),
    "alpha_cmru": Unrolling(3, 1, 0.03951, 11.81107),
    "positive_cmru": Unrolling(1, 3, 3.58511, -23.62861),
    "ladder": Unrolling(1, 2, -1.43259, -2.61622),
    "mingru": Unrolling(2, 0, -0.56582, 1.75291),
    "lru": Unrolling(2, 3, -2.91976, -203.99906, np.complex64),
}
LAYERS = {
    "norm": Layer(UNITS, 2, 1.56857, 0.31178),
    "glu": Layer(2 * UNITS, 1, 1.27401, -1.91123),
}
ADAMW = 0.05585  # what the results of the optimiser add up to
THREEFRY = 3826600846.36  # what the random words add up to
LRU_LAYER = Unrolling(2, 3, -45.97114, 310.27844, np.complex64)
KERNELS = (*RECURRENCES, *LAYERS, "lru_layer", "adamw", "threefry")
SUMS = {
    f"{name}_{way}": getattr(kernel, way)
    for name, kernel in (RECURRENCES | LAYERS | {"lru_layer": LRU_LAYER}).items()
    for way in ("forward", "backward")
} | {"adamw": ADAMW, "threefry": THREEFRY}
SYMBOLS = tuple(SUMS)  # what the libraries export
OPTIMISER = {
    "clip": 1.0,
    "first_decay": 0.9,
    "second_decay": 0.99,
    "epsilon": 1e-8,
    "weight_decay": 0.1,
}
NORM_EPSILON = np.float32(1e-6)


def prove() -> None:
    """Call every kernel that is registered; a ValueError says which results are wrong.

    The calls are made in a thread of their own, where JAX traces nothing and has no mesh,
    for a library is often loaded in the middle of a trace.
    """
    with ThreadPoolExecutor(1) as thread:
        results = thread.submit(lambda: jax.jit(_call_all)()).result()
    for name, right in SUMS.items():
        found = total(results[name])
        if not abs(found - right) <= TOLERANCE * (1 + abs(right)):
            raise ValueError(f"{name} gives {found:g} where {right:g} is right")


def total(results) -> float:
    """What arrays add up to, each of their numbers with a weight of its own."""
    flat = np.concatenate([np.asarray(result, np.complex128).ravel() for result in results])
    weights = np.exp(1j * np.arange(flat.size))
    return float((flat * weights).real.sum())


def numbers(start: int, shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    """Some numbers between -1 and 1."""
    count = int(np.prod(shape))
    values = np.cos(start + 1.7 * np.arange(count)).reshape(shape)
    return (values + (0.5j * values[..., ::-1] if dtype == np.complex64 else 0)).astype(dtype)


def operands(kernel: Unrolling) -> dict[str, np.ndarray]:
    """What a recurrence is given; absent are ids, offsets, gain, shift, lengths and resets."""
    d, dtype = UNITS, kernel.states
    return {
        "projections": numbers(1, (1, 1, STEPS, kernel.projections * d)),
        "parameters": numbers(2, (1, kernel.parameters, d)) + 1.2,  # none of them negative
        "state": numbers(3, (1, 1, d), dtype),
        "of_states": numbers(4, (1, 1, STEPS, d), dtype),
        "of_last": numbers(5, (1, 1, d), dtype),
    }


def layer_operands(layer: Layer) -> list[np.ndarray]:
    """Rows and parameters of a layer, then the cotangent of its result."""
    parameters = [numbers(7 + i, (layer.width,)) for i in range(layer.parameters)]
    return [numbers(6, (ROWS, layer.width)), *parameters, numbers(9, (ROWS, UNITS))]


def optimiser_operands() -> list[np.ndarray]:
    """Rates, earlier steps; gradients, weights and both moments of two arrays."""
    shapes = [(ROWS, STEPS), (UNITS,)]
    arrays = [numbers(i, shape) for i in range(10, 14) for shape in shapes]
    squares = [np.square(array) for array in arrays[6:]]
    return [np.array([0.5, 0.2], np.float32), np.array(2, np.int32), *arrays[:6], *squares]


def words() -> tuple[np.ndarray, np.ndarray]:
    """Keys, and the first of the numbers that they are given."""
    return np.arange(1, 5, dtype=np.uint32).reshape(ROWS, 2) << 20, np.array([0, 7], np.uint32)


def lru_operands() -> dict[str, np.ndarray]:
    """What the layer of linear recurrent units is given; absent are lengths and resets."""
    d, given = UNITS, operands(LRU_LAYER)
    return {
        "x": numbers(10, (1, STEPS, ROWS)),
        "project": numbers(11, (ROWS, 2 * d)),
        "parameters": given["parameters"][0],
        "mix": numbers(12, (2 * d, d)),
        "skip": numbers(13, (ROWS, d)),
        "state": given["state"][0],
        "of_outputs": numbers(14, (1, STEPS, d)),
        "of_last": given["of_last"][0],
    }


def _call_all() -> dict[str, Any]:
    """The results of all kernels, by name and way."""
    results = {}
    for name, kernel in RECURRENCES.items():
        results |= _call_recurrence(name, kernel)
    x, scale, shift, dy = layer_operands(LAYERS["norm"])
    results["norm_forward"] = _call("norm_forward", [x], x, scale, shift, epsilon=NORM_EPSILON)
    like = [x, scale, shift]
    results["norm_backward"] = _call("norm_backward", like, x, scale, dy, epsilon=NORM_EPSILON)
    x, bias, dy = layer_operands(LAYERS["glu"])
    results["glu_forward"] = _call("glu_forward", [dy], x, bias)
    results["glu_backward"] = _call("glu_backward", [x, bias], x, bias, dy)
    given = optimiser_operands()
    constants = {name: np.float32(value) for name, value in OPTIMISER.items()}
    results["adamw"] = _call("adamw", given[4:], *given, **constants)
    like = np.zeros((ROWS, STEPS), np.uint32)
    results["threefry"] = _call("threefry", [like, like], *words())
    return results | _call_lru_layer()


def _call_lru_layer() -> dict[str, Any]:
    """The layer of linear recurrent units, forward and backward from its checkpoint."""
    *given, state, of_outputs, of_last = lru_operands().values()
    inputs = (*given, np.zeros(0, np.int32), np.zeros(0, bool))
    checkpoint = np.concatenate([np.real(state), np.imag(state)], axis=-1)[:, None]
    like = [of_outputs, of_last, checkpoint]
    outputs = _call("lru_layer_forward", like, *inputs, state, chunk=STEPS)
    gradients = _call(
        "lru_layer_backward",
        [*given, state],
        *inputs,
        checkpoint,
        of_outputs,
        of_last,
        chunk=STEPS,
    )
    return {"lru_layer_forward": outputs[:2], "lru_layer_backward": gradients}


def _call_recurrence(name: str, kernel: Unrolling) -> dict[str, Any]:
    """One recurrence, forward and backward from its checkpoint."""
    given, none = operands(kernel), np.zeros((1, 0), np.float32)
    ids, truths = np.zeros((1, 0), np.int32), np.zeros((1, 0), bool)
    projections, parameters, state = given["projections"], given["parameters"], given["state"]
    inputs = (projections, ids, none, none, none, parameters, ids, truths)
    of_states, of_last = given["of_states"], given["of_last"]
    checkpoint = state[:, :, None]
    states = _call(f"{name}_forward", [of_states, of_last, checkpoint], *inputs, state, chunk=STEPS)
    gradients = _call(
        f"{name}_backward",
        [projections, none, none, none, parameters, state],
        *inputs,
        checkpoint,
        of_states,
        of_last,
        chunk=STEPS,
    )
    return {f"{name}_forward": states[:2], f"{name}_backward": gradients}


def _call(name: str, like: list[np.ndarray], *arrays: np.ndarray, **attributes):
    """A native call whose results have shapes and types like these arrays."""
    results = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in like]
    return jax.ffi.ffi_call(f"persistor_{name}", results)(*arrays, **attributes)
