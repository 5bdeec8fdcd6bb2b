"""The axis glossary. Every array annotation in this package uses these letters.

| letter | axis |
|---|---|
| b | batch; written `*b` where any number of leading axes, or none, is welcome |
| t | time: steps of a sequence |
| m | model width: features between blocks |
| d | state width: units of a cell |
| p | projections of a cell side by side: a small multiple of d |
| k | distinct input values of an indexed sequence |
| w | width of the positional encoding |

Time is always the last axis but one, features are always the last.
"""

from __future__ import annotations

from jaxtyping import Array, Bool, Complex, Float, Inexact, Int, PRNGKeyArray, UInt

__all__ = [
    "Array",
    "Bool",
    "Complex",
    "Float",
    "Inexact",
    "Int",
    "Key",
    "UInt",
]

Key = PRNGKeyArray
