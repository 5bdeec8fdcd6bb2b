"""Each cell in C: what it keeps, how a step changes it, and what the network reads of it.

In the texts, `p` are the projections of an input, `state` is the program's state and `h` what the
cell gives. States that are whole numbers of one scale are kept as integers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor.cells import (
    BMRU,
    CELLS,
    CMRU,
    LRU,
    AlphaCMRU,
    Cell,
    Ladder,
    MinGRU,
    PositiveCMRU,
)
from persistor.cells.epsilon import Epsilon, by_unit
from persistor.export.parts import Parts

SIGN = "p[i] >= 0.0f ? 1 : -1"


@dataclass(frozen=True)
class CellCode:
    """A cell in C. `unit` says which number of the model an integer state counts."""

    kept: dict[str, str]  # members of the state, each with one number a unit, and their types
    update: list[str]  # of unit i
    read: list[str]
    unit: NDArray[np.float32] | None = None
    mixing: list[str] = field(default_factory=list)  # all units at once, from the cell's input u
    multiplications: int = 0  # of `mixing`


def cell_code(cell: Cell, name: str, parts: Parts) -> CellCode:
    """The C of a cell whose block has this name."""
    if type(cell) not in WRITERS:
        known = ", ".join(n for n, kind in CELLS.items() if kind in WRITERS)
        raise PersistorError(
            f"the cell {type(cell).__name__} cannot be exported: C is written for {known}"
        )
    return WRITERS[type(cell)](cell, name, parts)


def _bmru(cell: BMRU, name: str, parts: Parts) -> CellCode:
    return _hysteresis(cell, 0.0, name, parts)


def _cmru(cell: CMRU, name: str, parts: Parts) -> CellCode:
    return _hysteresis(cell, cell.epsilon, name, parts)


def _hysteresis(cell: BMRU | CMRU, epsilon: Epsilon, name: str, parts: Parts) -> CellCode:
    """States of -1, 0 or 1 scales; counted scales; or numbers, as epsilon says."""
    updates = f"if (fabsf(p[i]) >= fabsf(p[{cell.state_size} + i]))"
    kept = _numbers(epsilon, cell)
    if not _is_whole(kept):
        scale = parts.constant(f"{name}_scale", cell.scale)
        drive = f"(p[i] >= 0.0f ? {scale}[i] : -{scale}[i])"
        return _continuous(name, updates, f"{_factor(kept, name, parts)}MINE + {drive}")
    return _counted(name, updates, SIGN, kept, cell.scale, parts)


def _counted(
    name: str, updates: str, drive: str, kept: NDArray[np.float32], scale: Any, parts: Parts
) -> CellCode:
    """A state that is a whole number of scales: a sign if nothing is kept, else a count."""
    unit = np.asarray(scale, np.float32)
    if not kept.any():
        member, value = "int8_t", drive
    else:
        parts.need("count")
        member, value = "int32_t", f"count({_factor(kept, name, parts)}MINE, {drive})"
    mine = f"state->{name}[i]"
    return CellCode(
        {name: member},
        [updates, f"    {mine} = {value.replace('MINE', mine)};"],
        [f"h[i] = {parts.constant(f'{name}_scale', unit)}[i] * (float){mine};"],
        unit,
    )


def _continuous(name: str, updates: str, value: str) -> CellCode:
    """A state that is a number."""
    mine = f"state->{name}[i]"
    assigned = f"{mine} = {value.replace('MINE', mine)};"
    update = [updates, f"    {assigned}"] if updates else [assigned]
    return CellCode({name: "float"}, update, [f"h[i] = {mine};"])


def _alpha_cmru(cell: AlphaCMRU, name: str, parts: Parts) -> CellCode:
    d = cell.state_size
    updates = f"if (fabsf(p[i]) >= fabsf(p[{d} + i]))"
    drive = f"(p[i] >= 0.0f ? p[{2 * d} + i] : -p[{2 * d} + i])"
    kept = _numbers(cell.epsilon, cell)
    return _continuous(name, updates, f"{_factor(kept, name, parts)}MINE + {drive}")


def _positive_cmru(cell: PositiveCMRU, name: str, parts: Parts) -> CellCode:
    """States of 0 or 1 scales at epsilon 0, counted halves of a scale at 1 and -1, or numbers."""
    updates = f"if (fabsf(p[i]) >= {_threshold(cell, name, parts)}[i])"
    kept, scale = _numbers(cell.epsilon, cell), np.asarray(cell.scale, np.float32)
    if not kept.any():
        return _counted(name, updates, "p[i] >= 0.0f ? 1 : 0", kept, scale, parts)
    if _is_whole(kept):
        up, down = 2 - kept.astype(np.int8), -kept.astype(np.int8)
        drive = _either(up, down, name, parts)
        return _counted(name, updates, drive, kept, scale / 2, parts)
    drive = _either((1 - kept / 2) * scale, -kept / 2 * scale, name, parts)
    return _continuous(name, updates, f"{_factor(kept, name, parts)}MINE + ({drive})")


def _either(up: NDArray, down: NDArray, name: str, parts: Parts) -> str:
    """What a positive CMRU adds if its candidate is positive, and else."""
    names = parts.constant(f"{name}_up", up), parts.constant(f"{name}_down", down)
    return f"p[i] >= 0.0f ? {names[0]}[i] : {names[1]}[i]"


def _ladder(cell: Ladder, name: str, parts: Parts) -> CellCode:
    """The level, from 0 to N."""
    top, mine = cell.levels, f"state->{name}[i]"
    fits = [kind for kind in (np.int8, np.int16, np.int32) if top <= np.iinfo(kind).max]
    if not fits:
        raise PersistorError(f"a ladder has {top:,} levels; at most 2,147,483,647 can be exported")
    update = [
        f"if (fabsf(p[i]) >= {_threshold(cell, name, parts)}[i]) {{",
        "    if (p[i] >= 0.0f)",
        f"        {mine} = ({fits[0].__name__}_t)({mine} + ({mine} < {top}));",
        f"    else if ({mine} > 0)",
        f"        {mine}--;",
        "}",
    ]
    read = [f"h[i] = {parts.constant(f'{name}_scale', cell.scale)}[i] * (float){mine};"]
    return CellCode({name: f"{fits[0].__name__}_t"}, update, read, np.ones(cell.state_size, "f"))


def _mingru(cell: MinGRU, name: str, parts: Parts) -> CellCode:
    parts.need("sigmoid")
    parts.spend("exponentials", cell.state_size)
    mine = f"state->{name}[i]"
    update = [
        "const float z = sigmoid(p[i]);",
        f"{mine} = (1.0f - z) * {mine} + z * p[{cell.state_size} + i];",
    ]
    return CellCode({name: "float"}, update, [f"h[i] = {mine};"])


def _lru(cell: LRU, name: str, parts: Parts) -> CellCode:
    """Complex states as two arrays; what is read is mixed by matrices: Re(C h) + D x."""
    d, (decay, gamma) = cell.state_size, (cell.eigenvalues(), cell.gamma())
    parts.constant(f"{name}_decay_real", decay.real)
    parts.constant(f"{name}_decay_imaginary", decay.imag)
    parts.constant(f"{name}_gamma", gamma)
    parts.map(f"{name}_mixture", jnp.concatenate([cell.mix_real, -cell.mix_imaginary]))
    parts.linear(f"{name}_skip_input", cell.skip)
    re, im = f"state->{name}_real", f"state->{name}_imaginary"
    update = [
        f"const float a = {name}_decay_real[i], b = {name}_decay_imaginary[i];",
        f"const float re = a * {re}[i] - b * {im}[i] + {name}_gamma[i] * p[i];",
        f"{im}[i] = a * {im}[i] + b * {re}[i] + {name}_gamma[i] * p[{d} + i];",
        f"{re}[i] = re;",
    ]
    mixing = [
        f"float both[{2 * d}];",
        f"for (int i = 0; i < {d}; i++) {{",
        f"    both[i] = {re}[i];",
        f"    both[{d} + i] = {im}[i];",
        "}",
        f"apply(&{name}_skip_input, u, 0, h);",
        f"apply(&{name}_mixture, both, h, h);",
    ]
    kept = {f"{name}_real": "float", f"{name}_imaginary": "float"}
    return CellCode(kept, update, [], None, mixing, 2 * d * d + int(cell.skip.weight.size))


def _threshold(cell: PositiveCMRU | Ladder, name: str, parts: Parts) -> str:
    return parts.constant(f"{name}_threshold", np.abs(np.asarray(cell.threshold)))


def _numbers(epsilon: Epsilon, cell: Cell) -> NDArray[np.float32]:
    """Epsilon of every unit."""
    return np.asarray(by_unit(epsilon, cell.state_size, jnp.dtype(jnp.float32)))


def _is_whole(kept: NDArray[np.float32]) -> bool:
    return bool(np.isin(kept, (-1.0, 0.0, 1.0)).all())


def _factor(kept: NDArray[np.float32], name: str, parts: Parts) -> str:
    """Epsilon as a factor: nothing, a minus, or one number a unit."""
    if (kept == 1).all() or (kept == -1).all():
        return "" if kept[0] == 1 else "-"
    values = kept.astype(np.int8) if _is_whole(kept) else kept
    return f"{parts.constant(f'{name}_epsilon', values)}[i] * "


WRITERS: dict[type[Cell], Callable[[Any, str, Parts], CellCode]] = {
    BMRU: _bmru,
    CMRU: _cmru,
    AlphaCMRU: _alpha_cmru,
    PositiveCMRU: _positive_cmru,
    Ladder: _ladder,
    LRU: _lru,
    MinGRU: _mingru,
}
