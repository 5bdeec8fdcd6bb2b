"""Committed runs, out of their archive and into folders where tests may spoil them."""

import functools
import json
from pathlib import Path

from persistor.reproduction.archive import Archive

RESULTS = Path(__file__).parents[1] / "results"


@functools.cache
def records():
    """All committed runs, read once: it takes a second."""
    found, problems = Archive(RESULTS).read()
    assert problems == []
    return found


def committed(prefix):
    """The one committed run whose name begins like this."""
    (record,) = [record for record in records() if record.name.startswith(prefix)]
    return record


def unpack(record, folder):
    """A run as the folder that it was."""
    path = folder / record.name
    path.mkdir(parents=True)
    values = {"experiment": record.result["experiment"], "result": record.result, **record.extras}
    for name, value in values.items():
        (path / f"{name}.json").write_text(json.dumps(value))
    (path / "progress.jsonl").write_text(record.curve)
    return path
