"""ListOps (Nangia and Bowman, 2018): nested operators on lists of digits, and their values.

    ( ( ( [MAX 2 ) ( ( ( [MIN 4 ) 7 ) ] ) ) ] )

A node is an operator with probability 1/4, else a digit. An operator has 2 to `arguments`
arguments, all numbers equally likely. The publisher's parentheses add nothing to the brackets: they
are written to files and dropped when read, and lengths do not count them.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor._tools.files import reading, replacing
from persistor.data.workers import Parts, Report, silent

DIGITS = tuple("0123456789")
OPERATORS = ("[MIN", "[MAX", "[MED", "[SM")
TOKENS = (*DIGITS, *OPERATORS, "]")  # a token's id is its place here
FIRST_OPERATOR = len(DIGITS)
END = len(TOKENS) - 1
OPERATOR_SHARE = 0.25
PART = 1_000  # examples in a part
ATTEMPTS = 4_000  # expressions grown at a time


@dataclass(frozen=True)
class Grammar:
    """Which expressions are drawn, and the files they go to; their length decides if they count."""

    depth: int  # of the deepest digit; the outermost operator has depth 1
    arguments: int
    shortest: int  # tokens
    longest: int
    files: tuple[tuple[str, int], ...]
    labels_first: bool

    def __post_init__(self):
        if self.depth < 2 or self.arguments < 2:
            raise PersistorError(
                f"depth is {self.depth} and arguments is {self.arguments}; both must be at least 2"
            )
        possible = self.longest >= 4 and self.shortest <= min(self.longest, self.limit)
        if not possible:
            raise PersistorError(
                f"no expression of depth {self.depth} with up to {self.arguments} arguments has "
                f"{self.shortest} to {self.longest} tokens; the shortest has 4, the longest "
                f"{self.limit:,}"
            )

    @property
    def limit(self) -> int:
        """The length of the longest possible expression."""
        length = 1
        for _ in range(self.depth - 1):
            length = 2 + self.arguments * length
        return length


# Long Range Arena (Tay et al., 2020): more than 500 tokens, fewer than 2,000.
LRA = Grammar(
    depth=10,
    arguments=10,
    shortest=501,
    longest=1_999,
    files=(("basic_train.tsv", 96_000), ("basic_val.tsv", 2_000), ("basic_test.tsv", 2_000)),
    labels_first=False,
)
# The original, "d20s": of any length.
D20S = Grammar(
    depth=20,
    arguments=5,
    shortest=4,
    longest=1_000_000,
    files=(("train_d20s.tsv", 90_000), ("test_d20s.tsv", 10_000)),
    labels_first=True,
)
GRAMMARS = {"lra": LRA, "d20s": D20S}


@dataclass(frozen=True)
class Expressions:
    """Expressions one after another: number i has the tokens `starts[i]` to `starts[i + 1]`."""

    tokens: NDArray[np.uint8]
    starts: NDArray[np.int64]
    values: NDArray[np.uint8]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of tokens of each expression."""
        return np.diff(self.starts)

    def __len__(self) -> int:
        return len(self.values)

    def text(self, index: int) -> str:
        """An expression as a person writes it, without parentheses."""
        tokens = self.tokens[self.starts[index] : self.starts[index + 1]]
        return " ".join(TOKENS[token] for token in tokens)


def evaluate(expression: str) -> int:
    """The value of an expression, with the publisher's parentheses or without."""
    pending: list[tuple[str, list[int]]] = []
    result: int | None = None
    for token in expression.split():
        if token in "()":
            continue
        if result is not None:
            raise PersistorError(f"{token!r} follows a complete expression")
        if token in OPERATORS:
            pending.append((token, []))
            continue
        if token in DIGITS:
            value = int(token)
        elif token == "]" and pending and pending[-1][1]:
            value = _apply(*pending.pop())
        else:
            raise PersistorError(f"{token!r} cannot come at this place in an expression")
        if pending:
            pending[-1][1].append(value)
        else:
            result = value
    if result is None:
        raise PersistorError("the expression is not complete")
    return result


def _apply(operator: str, values: list[int]) -> int:
    match operator:
        case "[MIN":
            return min(values)
        case "[MAX":
            return max(values)
        case "[SM":
            return sum(values) % 10
        case _:  # the median; of an even number of values, the mean of the middle two, rounded down
            ordered, middle = sorted(values), len(values) // 2
            return (ordered[middle] + ordered[-middle - 1]) // 2


@dataclass
class Level:
    """Nodes of one depth, the children of one operator side by side and in its parent's order."""

    root: NDArray[np.int64]
    tokens: NDArray[np.uint8]
    arity: NDArray[np.int64]  # of operators; zero for digits

    @property
    def operators(self) -> NDArray[np.intp]:
        """Which nodes are operators."""
        return np.flatnonzero(self.arity)

    @property
    def families(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sizes of the sibling groups in the next level, and where each begins."""
        sizes = self.arity[self.operators]
        return sizes, np.cumsum(sizes) - sizes

    def only(self, kept: NDArray[np.bool_]) -> Level:
        """The nodes of the kept roots, with the roots renumbered."""
        chosen = kept[self.root]
        number = np.cumsum(kept) - 1
        return Level(number[self.root[chosen]], self.tokens[chosen], self.arity[chosen])


def draw(grammar: Grammar, rng: np.random.Generator) -> tuple[Expressions, NDArray[np.int64]]:
    """Some expressions of accepted lengths, and the number of arguments at each operator's token.

    All grow together, level by level: nothing here loops over expressions or tokens.
    """
    levels = _grow(grammar, rng)
    lengths = _lengths(levels)
    kept = (lengths[0] >= grammar.shortest) & (lengths[0] <= grammar.longest)
    lengths = [lengths[i][kept[level.root]] for i, level in enumerate(levels)]
    levels = [level.only(kept) for level in levels]
    starts = np.concatenate([[0], np.cumsum(lengths[0])])
    tokens = np.empty(starts[-1], np.uint8)
    arity = np.zeros(starts[-1], np.int64)
    begin = starts[:-1]
    for i, level in enumerate(levels):
        tokens[begin] = level.tokens
        arity[begin] = level.arity
        operators = level.operators
        if not len(operators):
            break
        tokens[begin[operators] + lengths[i][operators] - 1] = END
        before = np.cumsum(lengths[i + 1]) - lengths[i + 1]
        sizes, first = level.families
        begin = np.repeat(begin[operators] + 1 - before[first], sizes) + before
    return Expressions(tokens, starts, _values(levels)), arity


def _grow(grammar: Grammar, rng: np.random.Generator) -> list[Level]:
    def level(root: NDArray[np.int64], operator: NDArray[np.bool_]) -> Level:
        count = len(root)
        tokens = rng.integers(0, 10, count, np.uint8)
        operators = rng.integers(FIRST_OPERATOR, END, count, np.uint8)
        arity = rng.integers(2, grammar.arguments + 1, count)
        return Level(root, np.where(operator, operators, tokens), np.where(operator, arity, 0))

    roots = np.arange(ATTEMPTS)
    levels = [level(roots, np.ones(ATTEMPTS, bool))]
    length = np.zeros(ATTEMPTS, np.int64)
    for depth in range(2, grammar.depth + 1):
        above = levels[-1]
        root = np.repeat(above.root, above.arity)
        if not len(root):
            break
        operator = rng.random(len(root)) < OPERATOR_SHARE
        levels.append(level(root, operator & (depth < grammar.depth)))
        length += np.bincount(root, minlength=len(length))
        if (length > grammar.longest).any():  # too long already: grow it no further
            kept = length <= grammar.longest
            levels, length = [each.only(kept) for each in levels], length[kept]
    return levels


def _lengths(levels: list[Level]) -> list[NDArray[np.int64]]:
    """Tokens of every node: 1 for a digit; for an operator, 2 and the tokens of its arguments."""
    lengths = [np.ones(len(level.root), np.int64) for level in levels]
    for level, here, below in zip(levels[-2::-1], lengths[-2::-1], lengths[:0:-1], strict=True):
        _, first = level.families
        if len(first):
            here[level.operators] = 2 + np.add.reduceat(below, first)
    return lengths


def _values(levels: list[Level]) -> NDArray[np.uint8]:
    """The value of every expression, from the digits upwards."""
    values = levels[-1].tokens.astype(np.int64)
    for level in levels[-2::-1]:
        sizes, first = level.families
        level_values = level.tokens.astype(np.int64)
        if len(first):
            family = np.repeat(np.arange(len(sizes)), sizes)
            ordered = np.sort(10 * family + values) % 10
            middle = ordered[first + (sizes - 1) // 2] + ordered[first + sizes // 2]
            results = (
                ordered[first],
                ordered[first + sizes - 1],
                middle // 2,
                np.add.reduceat(values, first) % 10,
            )
            operators = level.operators
            level_values[operators] = np.choose(level_values[operators] - FIRST_OPERATOR, results)
        values = level_values
    return values.astype(np.uint8)


def lines(grammar: Grammar, expressions: Expressions, arity: NDArray[np.int64]) -> list[bytes]:
    """Lines of the publisher's file. Every argument closes one of the parentheses before `[`."""
    text = [f"{digit} )".encode() for digit in DIGITS] + [b""] * len(OPERATORS) + [b"] ) )"]
    for operator in OPERATORS:
        text += [b"( " * (n + 1) + operator.encode() for n in range(grammar.arguments + 1)]
    row = (expressions.tokens.astype(np.int64) - FIRST_OPERATOR) * (grammar.arguments + 1)
    names = np.where(arity, len(TOKENS) + row + arity, expressions.tokens).tolist()
    result = []
    for (begin, end), value in zip(
        itertools.pairwise(expressions.starts.tolist()), expressions.values.tolist(), strict=True
    ):
        source = b" ".join(map(text.__getitem__, names[begin:end]))[: -len(b" )")]
        label = str(value).encode()
        pair = (label, source) if grammar.labels_first else (source, label)
        result.append(b"\t".join(pair) + b"\n")
    return result


def part(grammar: Grammar, seed: int, index: int) -> bytes:
    """Part `index` of a seed's endless set: `PART` lines that depend on nothing else."""
    rng = np.random.default_rng([seed, index])
    accepted: list[bytes] = []
    while len(accepted) < PART:
        accepted += lines(grammar, *draw(grammar, rng))
    return b"".join(accepted[:PART])


def write(
    folder: Path,
    grammar: Grammar = LRA,
    *,
    seed: int = 0,
    report: Report = silent,
    processes: int | None = None,
) -> list[Path]:
    """Make the files of a grammar, without duplicates; nothing to do if all files exist."""
    if seed < 0:
        raise PersistorError(f"seed is {seed}; it must not be negative")
    paths = [folder / name for name, _ in grammar.files]
    if all(path.exists() for path in paths):
        return paths
    parts = Parts(functools.partial(part, grammar, seed), folder, f"listops {grammar} {seed}")
    # Short expressions are few, so most come early: a random file for each keeps the files alike.
    choice = np.repeat(np.arange(len(paths)), [size for _, size in grammar.files])
    choice = np.random.default_rng(seed).permutation(choice).tolist()
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(contextlib.closing(parts.stream(processes)))
        files = [stack.enter_context(replacing(path, parts.folder)) for path in paths]
        if not grammar.labels_first:
            for file in files:
                file.write(b"Source\tTarget\n")
        for done, (line, chosen) in enumerate(zip(_unique(stream), choice, strict=False), 1):
            files[chosen].write(line)
            if done % PART == 0 or done == len(choice):
                report(done, len(choice))
    parts.remove()
    return paths


def _unique(stream: Iterator[bytes]) -> Iterator[bytes]:
    seen = set()
    for part_lines in stream:
        for line in part_lines.splitlines(keepends=True):
            digest = hashlib.blake2b(line, digest_size=16).digest()
            if digest not in seen:
                seen.add(digest)
                yield line


# One character for each token, so that a line is read without a loop over its tokens.
_STAND_INS = (b"\1", b"\2", b"\3", b"\4")
_CHARACTERS = "".join(DIGITS).encode() + b"".join(_STAND_INS) + b"]"
_IDS = bytes.maketrans(_CHARACTERS, bytes(range(len(TOKENS))))
_DEEPER = bytes.maketrans(_CHARACTERS, bytes([0] * len(DIGITS) + [1] * len(OPERATORS) + [255]))


def read(path: Path) -> Expressions:
    """The expressions in a file of the publisher: columns Source and Target, or label first."""
    tokens: list[bytes] = []
    values = bytearray()
    labels_first = True
    with reading(path) as file:
        for number, line in enumerate(file, 1):
            if number == 1 and line.split() == [b"Source", b"Target"]:
                labels_first = False
                continue
            columns = line.rstrip(b"\r\n").split(b"\t")
            label, source = (*columns, b"")[:2] if labels_first else (*columns[::-1], b"")[:2]
            ids = _tokens(source)
            if len(columns) != 2 or ids is None or label.decode("latin-1") not in DIGITS:
                raise PersistorError(
                    f"{path}, line {number} is not an expression, a tab and its value; get or make "
                    "the file again"
                )
            tokens.append(ids)
            values += label
    if not tokens:
        raise PersistorError(f"{path} holds no expressions; get or make the file again")
    starts = np.concatenate([[0], np.cumsum([len(each) for each in tokens])])
    flat = np.frombuffer(b"".join(tokens), np.uint8)
    return Expressions(flat, starts, np.frombuffer(values, np.uint8) - ord("0"))


def _tokens(source: bytes) -> bytes | None:
    """The ids of an expression's tokens; None if it is not an expression."""
    for operator, stand_in in zip(OPERATORS, _STAND_INS, strict=True):
        if stand_in in source:
            return None
        source = source.replace(operator.encode(), stand_in)
    spaces, source = source[1::2], source[::2]
    if spaces.count(b" ") != len(source) - 1 or len(spaces) != len(source) - 1:
        return None
    source = source.translate(None, b"()")
    if source.translate(None, _CHARACTERS):
        return None
    ids = np.frombuffer(source.translate(_IDS), np.uint8)
    # The number of open brackets after each token: zero only after the last.
    inside = np.cumsum(np.frombuffer(source.translate(_DEEPER), np.int8), dtype=np.int64)
    whole = len(ids) and inside[-1] == 0 and (inside[:-1] > 0).all()
    without_arguments = (ids[1:] == END) & (ids[:-1] >= FIRST_OPERATOR) & (ids[:-1] < END)
    return ids.tobytes() if whole and not without_arguments.any() else None
