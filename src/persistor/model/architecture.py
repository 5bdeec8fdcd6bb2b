"""How a model fills in what the paper leaves open: all such points, as one value."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_type_hints

from persistor._tools.errors import PersistorError, unknown
from persistor._tools.options import Option, Value, check_all
from persistor.cells import CELLS
from persistor.nn.layers import NORM_EPSILON, LinearStart, MLPGate
from persistor.nn.positions import BASE

SHOWN = 3  # points of an architecture in the name of a run, at most


@dataclass(frozen=True)
class Architecture:
    """What the paper leaves open. The defaults are this package's reading of it, `PAPER`.

    | field | what it says |
    |---|---|
    | norm | where the norm before the cell is: `after` the positional encoding, or `first` |
    | gate | what the output gate reads: the vector `after` the encoding, or the norm `before` it |
    | norm_epsilon | what every norm adds to the variance |
    | encoding | width of the positional encoding; None: the model's width; 0: no positions |
    | base | base of the encoding's wavelengths |
    | position_scale | initial factor on the positional weights |
    | places | how much thresholds differ from place to place at the start (`model.placed`) |
    | loudness | a cell's input is scaled by sqrt(v / (v + loudness)), v the input's variance |
    | encoder_bias | whether the encoder has biases; without them, an input of zeros stays zeros |
    | empty | the code of an input of zeros: as `coded`, or `zero` (subtracted from every code) |
    | encoder_norm | whether a norm follows the encoder |
    | decoder_norm | whether a norm precedes the decoder |
    | linear | how linear maps around the cells start: `lecun` normal, or `uniform` (`nn.layers`) |
    | hidden | hidden width of the MLPs, in widths of their inputs, before the GLU halves it |
    | decoder_hidden | whether `hidden` of the decoder counts `output` widths or `model` widths |
    | mlp_gate | the gate in the MLPs: the `sigmoid` of one half, or its `silu` |
    | readout_bias | initial standard deviation of the biases of the cell's read-out |
    | gate_rate | learning rate of what feeds the gates, in learning rates |
    | gate_sleep | share of the steps before what feeds the gates begins to learn |
    | starts | how cells start: their options that are starts, such as `hold` |

    What feeds the gates is the projection inside a cell with thresholds (BMRU, CMRU, alphaCMRU),
    the map that adds positions before it, and the norm before that. After its sleep its rate rises
    linearly during half as many steps.
    """

    norm: Literal["after", "first"] = "after"
    gate: Literal["after", "before"] = "after"
    norm_epsilon: float = NORM_EPSILON
    encoding: int | None = None
    base: float = BASE
    position_scale: float = 1.0
    places: float = 0.0
    loudness: float = 0.0
    encoder_bias: bool = True
    empty: Literal["coded", "zero"] = "coded"
    encoder_norm: bool = False
    decoder_norm: bool = False
    linear: LinearStart = "lecun"
    hidden: int = 4
    decoder_hidden: Literal["output", "model"] = "output"
    mlp_gate: MLPGate = "sigmoid"
    readout_bias: float = 0.0
    gate_rate: float = 1.0
    gate_sleep: float = 0.0
    starts: tuple[tuple[str, Value], ...] = ()

    def __post_init__(self):
        for name, option in _points().items():
            if getattr(self, name) is not None:
                object.__setattr__(self, name, option.checked(getattr(self, name)))
        if self.encoding is not None and self.encoding % 2:
            raise PersistorError(
                f"encoding is {self.encoding}; the positional encoding's width must be even "
                "(0 leaves positions out)"
            )
        if self.hidden % 2:
            raise PersistorError(f"hidden is {self.hidden}; it must be even, since a GLU halves it")
        if self.gate == "before" and self.norm != "first":
            raise PersistorError(
                "gate=before needs norm=first: the gate then reads the norm before the encoding"
            )
        if self.loudness and self.norm != "first":
            raise PersistorError("loudness needs norm=first: the norm then stands before positions")
        options = cell_starts()
        starts = check_all(options, dict(self.starts), "start")
        kept = {name: value for name, value in starts.items() if value != options[name].default}
        object.__setattr__(self, "starts", tuple(sorted(kept.items())))

    def but(self, changes: Mapping[str, object]) -> Architecture:
        """This architecture with other values for some points or starts, which may be text."""
        points = {name: value for name, value in changes.items() if name in _points()}
        starts = {name: value for name, value in changes.items() if name not in _points()}
        for name in starts:
            if name not in cell_starts():
                raise unknown("point of the architecture", name, [*_points(), *cell_starts()])
        checked = check_all(_points(), points, "point")
        merged = {**dict(self.starts), **check_all(cell_starts(), starts, "start")}
        made: dict[str, Any] = {**checked, "starts": tuple(merged.items())}
        return dataclasses.replace(self, **made)

    def of_cells(self, known: Container[str]) -> Architecture:
        """This architecture with the starts that some cells know; those of others say nothing."""
        starts = tuple((name, value) for name, value in self.starts if name in known)
        return self if starts == self.starts else dataclasses.replace(self, starts=starts)

    def start(self, name: str) -> Value:
        """The value of a start option, by its name."""
        return dict(self.starts).get(name, cell_starts()[name].default)

    @property
    def name(self) -> str:
        """Its name in `ARCHITECTURES`, or what it changes."""
        named = (name for name, value in ARCHITECTURES.items() if value == self)
        return next(named, " ".join(f"{k}={v}" for k, v in self.to_json().items()))

    @property
    def words(self) -> list[str]:
        """How it shows in the name of a run: by what it changes, whatever is named later.

        Its starts show as options of the cells do, and a width of the encoding never did.
        """
        starts = dict(self.starts)
        points = {k: v for k, v in self.to_json().items() if k not in starts and k != "encoding"}
        if len(points) > SHOWN:
            return [f"{len(points)}changes"]
        return [f"{name.replace('_', '')}-{_word(value)}" for name, value in points.items()]

    def to_json(self) -> dict[str, Any]:
        """The points that differ from `PAPER`, and the starts, as plain values."""
        fields = {name: getattr(self, name) for name in _points()}
        points = {name: v for name, v in fields.items() if v != getattr(PAPER, name)}
        return {**points, **dict(self.starts)}


def architecture_named(name: str) -> Architecture:
    """The architecture with this name."""
    if name not in ARCHITECTURES:
        raise unknown("architecture", name, ARCHITECTURES)
    return ARCHITECTURES[name]


def _word(value: Value) -> str:
    """A value in the name of a run."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else f"{value:g}"


@functools.cache
def cell_starts() -> dict[str, Option]:
    """The start options of all registered cells, by name."""
    return {o.name: o for kind in CELLS.values() for o in kind.options if o.start}


@functools.cache
def _points() -> dict[str, Option]:
    """The fields of an architecture, except `starts`, as options that check their values."""
    limits: dict[str, dict[str, float | int]] = {
        "norm_epsilon": {"low": 0.0},
        "encoding": {"low": 0},
        "base": {"low": 1.0},
        "position_scale": {"low": 0.0},
        "places": {"low": 0.0},
        "loudness": {"low": 0.0},
        "hidden": {"low": 2},
        "readout_bias": {"low": 0.0},
        "gate_rate": {"low": 0.0},
        "gate_sleep": {"low": 0.0, "high": 0.5},
    }
    hints = get_type_hints(Architecture)
    return {
        field.name: Option(
            field.name,
            0 if field.default is None else field.default,  # pyright: ignore[reportArgumentType]
            "",
            choices=get_args(hints[field.name]) if isinstance(field.default, str) else (),
            **limits.get(field.name, {}),  # pyright: ignore[reportArgumentType]
        )
        for field in dataclasses.fields(Architecture)
        if field.name != "starts"
    }


PAPER = Architecture()

# An empty input feeds a cell nothing, every unit listens at places of its own, and gates learn
# later and slowly. Nothing here may change: runs are named after it.
ROBUST = Architecture(
    norm="first",
    gate="before",
    norm_epsilon=1.0,
    base=100.0,
    position_scale=0.01,
    places=8.0,
    loudness=1.0,
    empty="zero",
    readout_bias=1.0,
    gate_rate=0.3,
    gate_sleep=0.05,
    starts=(
        ("gain", 4.0),
        ("hold", 0.5),
        ("longest", 1000.0),
        ("scales", "one"),
        ("thresholds", "constant"),
    ),
)

ARCHITECTURES: dict[str, Architecture] = {
    "paper": PAPER,
    # The norm comes first in the sub-layer, and the gate does not see positions.
    "norm-first": Architecture(norm="first", gate="before"),
    # The same, with SiLU gates and a norm before the decoder, as in later work of the authors.
    "norm-first-silu": Architecture(
        norm="first", gate="before", mlp_gate="silu", decoder_norm=True
    ),
    # An input of zeros stays zeros, and the positional encoding changes fast.
    "quiet": Architecture(norm="first", gate="before", encoder_bias=False, base=100.0),
    "robust": ROBUST,
}
