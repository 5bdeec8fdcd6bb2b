"""A text of your own."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from persistor._tools.errors import PersistorError
from persistor._tools.files import reading
from persistor.data.contents import identity
from persistor.nn.pooling import Pooling
from persistor.tasks.own_data.identity import OLD_DIGITS, OwnData, file_sum
from persistor.tasks.task import NextToken, check_length, computed
from persistor.tasks.text import Windows, windows

MOST_LETTERS = 256


@dataclass(frozen=True)
class OwnText(OwnData):
    """The next character of a text, at every step."""

    alphabet: str
    length: int = 256
    characters: int = field(default=0, kw_only=True)  # in all; 0 in earlier runs

    name = "own-text"
    objective = NextToken()
    pooling = Pooling.NONE

    @staticmethod
    def of(path: Path) -> OwnText:
        """The task on a text."""
        text = _text(path)
        letters = "".join(sorted(set(text)))
        digest = identity({"text": file_sum(path)})
        return OwnText(str(path), digest, letters, characters=len(text))

    def __post_init__(self):
        check_length(self.length)

    @computed
    def examples(self) -> int:
        """How many pieces of the training text follow one another without sharing a character."""
        return -(-self.characters * 9 // (10 * self.length))

    @computed
    def letters(self) -> tuple[str, ...]:
        """The characters that occur in the text."""
        return tuple(self.alphabet)

    @computed
    def inputs(self) -> int:
        """The number of different characters."""
        return len(self.alphabet)

    @computed
    def outputs(self) -> int:
        """The same number."""
        return len(self.alphabet)

    @computed
    def chance(self) -> float:
        """Of a guess among the characters."""
        return math.log(self.inputs)

    def split(self, name: str) -> Windows:
        """90 / 5 / 5% of the text, in one piece each."""
        self._check(self.sums())
        numbers = {letter: i for i, letter in enumerate(self.alphabet)}
        ids = np.array([numbers[letter] for letter in _text(self._place())], np.uint8)
        return windows(name, ids, len(self.alphabet), self.length)

    def sums(self) -> dict[str, str]:
        """The checksum of the text."""
        return {"text": file_sum(self._place())}

    def remarks(self) -> tuple[str, ...]:
        """The size of the text."""
        text = _text(self._place())
        return (f"{len(text):,} characters, {len(self.alphabet)} different ones",)

    def _old_digest(self, path: Path) -> str:
        return file_sum(path)[:OLD_DIGITS]


def _text(path: Path) -> str:
    with reading(path) as file:
        content = file.read()
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise PersistorError(f"{path} is not a text in UTF-8: {error}") from None
    letters = len(set(text))
    if not 2 <= letters <= MOST_LETTERS:
        raise PersistorError(
            f"{path} has {letters} different characters; 2 to {MOST_LETTERS} are expected"
        )
    return text
