"""A block of the backbone in C: `update` moves its cell's state, `mix` reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from persistor.export.cells import CellCode, cell_code
from persistor.export.parts import Parts
from persistor.model.block import Block


class Member(NamedTuple):
    """A member of the state: one number, or an array if it has a size."""

    kind: str
    name: str
    size: int = 0
    comment: str = ""

    def __str__(self) -> str:
        declared = f"{self.kind} {self.name}{f'[{self.size}]' if self.size else ''};"
        return f"{declared} /* {self.comment} */" if self.comment else declared


@dataclass(frozen=True)
class BlockCode:
    """A block in C, after its constants were taken in."""

    name: str
    block: Block
    cell: CellCode

    @property
    def hidden(self) -> int:
        """The width of the MLP after its gate."""
        return self.block.mlp.narrow.weight.shape[0]

    @property
    def keeps_u(self) -> bool:
        """Whether `mix` reads what the cell has read."""
        return bool(self.cell.mixing) or not self.block.gate_before

    def members(self) -> list[Member]:
        """What the state keeps of it."""
        d = self.block.cell.state_size
        return [Member(kind, member, d) for member, kind in self.cell.kept.items()]

    def update(self, parts: Parts) -> str:
        """The function that takes an input of the block to the next state of its cell."""
        block, name = self.block, self.name
        m, d = block.skip.shape[0], block.cell.state_size
        p = block.cell.project.weight.shape[1]
        places = block.position.positions.shape[0]
        body = [f"float p[{p}];"]
        begin = "x"
        if block.norm_first:
            body = [f"float p[{p}], normed[{m}];"]
            body.append(parts.normed(f"{name}_norm", block.norm, "x", "normed"))
            begin = "normed"
        body.append(parts.applied(f"{name}_values", block.position.values, begin, "0", "u"))
        if places:
            weight = block.position.positions
            body.append(parts.applied(f"{name}_positions", weight, "places", "u", "u"))
        if not block.norm_first:
            body.append(parts.normed(f"{name}_norm", block.norm, "u", "u"))
        if block.loudness:
            body.append(parts.loud(block.loudness, m))
        body.append(parts.applied(f"{name}_project", block.cell.project, "u", "0", "p"))
        body += loop(d, self.cell.update)
        given = "const float *x, const float *places, " if places else "const float *x, "
        return function(f"void {name}_update({given}float *u, NAME_state *state)", body)

    def mix(self, parts: Parts) -> str:
        """The function from input and state to the MLP's two: y, and what its last map takes."""
        block, name, cell = self.block, self.name, self.block.cell
        m, d = block.skip.shape[0], cell.state_size
        body = [f"float h[{d}], r[{m}];", *self.cell.mixing, *loop(d, self.cell.read)]
        parts.spend("multiplications", self.cell.multiplications)
        body.append(parts.applied(f"{name}_readout", block.readout, "h", "0", "r"))
        body.append(parts.normed(f"{name}_readout_norm", block.readout_norm, "r", "r"))
        reads = "u"
        if block.gate_before:
            reads = "wide"
            body.append(parts.normed(f"{name}_norm", block.norm, "x", "wide"))
        body.append(parts.applied(f"{name}_gate", block.output_gate, reads, "0", "y"))
        parts.spend("exponentials", m)
        body += loop(m, [f"y[i] = {name}_skip[i] * x[i] + r[i] * sigmoid(y[i]);"])
        body.append(parts.normed(f"{name}_mlp_norm", block.mlp_norm, "y", "r"))
        body.append(parts.applied(f"{name}_widen", block.mlp.widen, "r", "0", "wide"))
        parts.spend("exponentials", self.hidden)
        body.append(f"gate(wide, {self.hidden});")
        u = "const float *u, " if self.keeps_u else ""
        given = f"const NAME_state *state, const float *x, {u}float *y, float *wide"
        return function(f"void {name}_mix({given})", body)

    def mixed(self, x: str, u: str) -> str:
        """The call of `mix`."""
        return f"{self.name}_mix(state, {x}, {f'{u}, ' if self.keeps_u else ''}y, wide);"

    def finished(self, parts: Parts, out: str) -> list[str]:
        """From y and what the MLP's last map takes to the output of the block."""
        m = self.block.skip.shape[0]
        scaled = loop(m, [f"{out}[i] = {self.name}_mlp_skip[i] * y[i];"])
        narrow = parts.applied(f"{self.name}_narrow", self.block.mlp.narrow, "wide", out, out)
        return [*scaled, narrow]


def block_code(block: Block, name: str, parts: Parts) -> BlockCode:
    """A block in C; its constants become part of the program."""
    parts.norm(f"{name}_norm", block.norm)
    parts.linear(f"{name}_values", block.position.values)
    if block.position.positions.shape[0]:
        parts.map(f"{name}_positions", block.position.positions)
    parts.linear(f"{name}_project", block.cell.project)
    cell = cell_code(block.cell, name, parts)
    parts.linear(f"{name}_readout", block.readout)
    parts.norm(f"{name}_readout_norm", block.readout_norm)
    parts.linear(f"{name}_gate", block.output_gate)
    parts.constant(f"{name}_skip", block.skip)
    parts.norm(f"{name}_mlp_norm", block.mlp_norm)
    parts.linear(f"{name}_widen", block.mlp.widen)
    parts.linear(f"{name}_narrow", block.mlp.narrow)
    parts.constant(f"{name}_mlp_skip", block.mlp_skip)
    parts.need("sigmoid")
    parts.need("silu" if block.mlp.gate == "silu" else "glu")
    return BlockCode(name, block, cell)


def loop(count: int, lines: list[str]) -> list[str]:
    """The lines for every i below a count."""
    if not lines:
        return []
    inner = [f"    {line}" for line in lines]
    head = f"for (int i = 0; i < {count}; i++)"
    return [f"{head} {{", *inner, "}"] if len(lines) > 1 else [head, *inner]


def function(head: str, body: list[str], *, public: bool = False) -> str:
    """A function of C."""
    inner = "\n".join(f"    {line}" for line in body)
    return f"{'' if public else 'static '}{head}\n{{\n{inner}\n}}\n"
