"""Models that come with persistor, each a folder like that of a run.

Beside the experiment, the weights and the result there is a card.json: what the model does, its
number of parameters, the data and their licence, and, if its task has a length to choose, its
accuracy at some lengths, as `persistor evaluate NAME --lengths ...` measured it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from persistor._tools.files import read_json

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Card:
    """What a person should know of a model before using it."""

    name: str
    summary: str
    task: str
    test: dict[str, float]  # the metric on the test set of the task
    lengths: dict[str, float]  # accuracy on test sets of other lengths
    parameters: int
    bytes: int
    data: str
    licence: str
    command: str  # that trained it

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def names() -> list[str]:
    """The names of the models."""
    return sorted(path.parent.name for path in FOLDER.glob("*/card.json"))


def card(name: str) -> Card:
    """The card of a model."""
    folder = FOLDER / name
    result = read_json(folder / "result.json")
    return Card(
        name=name,
        task=result["experiment"]["task"]["name"],
        test=result["test"],
        bytes=sum(path.stat().st_size for path in folder.iterdir()),
        command=result["provenance"]["command"],
        **read_json(folder / "card.json"),
    )


def what_there_is() -> str:
    """The end of an error about a name that is not known."""
    return f"`persistor list` shows your runs, and persistor comes with {', '.join(names())}"
