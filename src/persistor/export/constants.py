"""Arrays and texts as constants of C."""

from __future__ import annotations

import re
import textwrap
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Weights = Literal["float", "int8"]
TYPES = {
    "float32": "float",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int16": "int16_t",
    "int32": "int32_t",
}
KEYWORDS = re.split(
    " ",
    "alignas asm auto bool break case catch char class const continue default delete do double "
    "else enum extern false float for goto if inline int long main namespace new register "
    "restrict return short signed sizeof static struct switch template this throw true try "
    "typedef union unsigned using virtual void volatile while",
)


def array(name: str, values: NDArray) -> str:
    """`static const` array of any number of axes, exact to the last bit."""
    kind = TYPES[values.dtype.name]
    sizes = "".join(f"[{size}]" for size in values.shape)
    return f"static const {kind} {name}{sizes} = {_rows(values, kind == 'float')};\n"


def _rows(values: NDArray, is_float: bool) -> str:
    if values.ndim > 1:
        return "{\n" + ",\n".join(_rows(row, is_float) for row in values) + "}"
    numbers = [decimal(v) for v in values.tolist()] if is_float else map(str, values.tolist())
    text = textwrap.fill(
        ", ".join(numbers), 98, initial_indent="    ", subsequent_indent="    ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return "{\n" + text + "}"


def decimal(number: float) -> str:
    """A float of single precision, in as many digits as it takes to have it back."""
    text = f"{np.float32(number):.9g}"
    return f"{text}f" if re.search(r"[.e]", text) else f"{text}.0f"


def string(text: str) -> str:
    """A string of C: ASCII as it is, other bytes of UTF-8 as octal numbers."""
    plain = set(range(32, 127)) - set(b'"\\?')
    text = "".join(chr(b) if b in plain else f"\\{b:03o}" for b in text.encode())
    return '"' + text.replace("NAME", "\\116AME") + '"'  # no mark of a template


def identifier(text: str) -> str:
    """A name that C and C++ take, made from any text."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").lower()
    return name if name[:1].isalpha() and name not in KEYWORDS else f"model_{name}".strip("_")
