"""What a program takes: flash, memory, multiplications, and about how many instructions."""

from __future__ import annotations

import re
from functools import cache
from math import prod
from typing import Any

import jax

from persistor.data import mfcc
from persistor.export.block import Member
from persistor.export.front_end import EAR, frames_of
from persistor.export.program import Program

BYTES = {"int8_t": 1, "int16_t": 2, "int32_t": 4, "uint32_t": 4, "float": 4}
# Instructions for an operation and what goes with it, fitted to what `persistor export verify`
# counted in QEMU for models of width 16. A division or a sine in software takes hundreds.
INSTRUCTIONS = {
    "Cortex-M4": {
        "float": 5,
        "int8": 6,
        "exponentials": 75,
        "sines and cosines": 180,
        "frames": 51_000,
    },
    "Cortex-M3": {
        "float": 110,
        "int8": 42,
        "exponentials": 790,
        "sines and cosines": 1120,
        "frames": 860_000,
    },
}


def report(program: Program) -> dict[str, Any]:
    """The numbers of a program, known without a compiler; `verify` measures them."""
    cost, model = program.parts.cost, program.model
    phases = ["step", "answer", *(["frame"] if program.features else [])]
    arrays = [leaf for leaf in jax.tree.leaves(model) if not isinstance(leaf, float | int)]
    counts = {
        phase: {what: n for (of, what), n in sorted(cost.items()) if of == phase}
        for phase in phases
    }
    memory = {"state": state_bytes(program.members), "stack": stack_bytes(program)}
    if program.features and model.preparation is not None:
        bands = 2 * mfcc.BANDS * frames_of(model.preparation.clip)
        memory["ear"] = EAR + bands
    return {
        "parameters": int(sum(leaf.size for leaf in arrays)),
        "weights": program.weights,
        "bytes of constants": program.parts.bytes,
        "bytes of memory": memory,
        "operations": counts,
        "instructions, about": {
            processor: {phase: _instructions(program, phase, processor) for phase in phases}
            for processor in INSTRUCTIONS
        },
    }


def _instructions(program: Program, phase: str, processor: str) -> int:
    """An estimate, to two digits."""
    each, cost = INSTRUCTIONS[processor], program.parts.cost
    total = each[program.weights] * cost[phase, "multiplications"]
    total += sum(each[what] * cost[phase, what] for what in each)
    return int(float(f"{total:.2g}"))


def state_bytes(members: tuple[Member, ...]) -> int:
    """The size of the state: every member at a multiple of its own size."""
    size = 0
    for member in members:
        width = BYTES[member.kind]
        size = -(-size // width) * width + width * max(1, member.size)
    widest = max(BYTES[member.kind] for member in members)
    return -(-size // widest) * widest


def stack_bytes(program: Program) -> int:
    """The largest arrays that are alive at once in a call; a compiler adds some hundred bytes."""
    texts = dict(
        re.findall(r"^[\w ]+?[ *](\w+)\([^;{]*?\)\n\{\n(.*?)^\}", program.source, re.M | re.S)
    )
    constants = {program.name.upper() + "_INPUTS": program.model.encoder.linear.weight.shape[0]}
    constants |= {"LARGEST_INPUT": program.parts.largest_input, "HALF": 256, "HALF + 1": 257}
    constants |= {"BANDS": mfcc.BANDS, "TAIL": 5}

    def own(text: str) -> int:
        declared = re.findall(r"^    (float|int16_t) ([^=;]*\])[^\n]*;$", text, re.M)
        sizes = [
            BYTES[kind] * prod(constants.get(n) or int(n) for n in re.findall(r"\[(.*?)\]", each))
            for kind, names in declared
            for each in names.split(",")
        ]
        return sum(sizes) + (state_bytes(program.members) if "_state state;" in text else 0)

    @cache
    def deepest(name: str) -> int:
        calls = set(re.findall(r"\b(\w+)\(", texts[name])) & texts.keys() - {name}
        return own(texts[name]) + max((deepest(called) for called in calls), default=0)

    return max(deepest(name) for name in texts)


def table(numbers: dict[str, Any]) -> str:
    """The report as a table in Markdown."""
    rows = [("parameters", f"{numbers['parameters']:,}"), ("weights", numbers["weights"])]
    rows.append(("flash: constants", f"{numbers['bytes of constants']:,} bytes"))
    what = {
        "state": "memory: a state",
        "stack": "memory: arrays on the stack",
        "ear": "memory: what was heard of a clip",
    }
    rows += [(what[k], f"{v:,} bytes") for k, v in numbers["bytes of memory"].items()]
    for phase, counts in numbers["operations"].items():
        listed = ", ".join(f"{kind} {n:,}" for kind, n in sorted(counts.items()))
        rows.append((f"a{'n' if phase == 'answer' else ''} {phase}", listed))
    for processor, phases in numbers["instructions, about"].items():
        listed = ", ".join(f"{phase} {n:,}" for phase, n in phases.items())
        rows.append((f"instructions, a cycle or more each, on {processor}, about", listed))
    return "\n".join(["| | |", "|---|---|", *(f"| {k} | {v} |" for k, v in rows)])
