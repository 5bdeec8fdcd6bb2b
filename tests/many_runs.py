"""Made-up runs for the tests of the report page, which show how it copes with many. No results."""

import dataclasses
import itertools
import json
import math

from persistor.paper.tables import tables
from persistor.reproduction.archive import Archive
from persistor.reproduction.plan import experiment_of
from persistor.reproduction.record import Record
from persistor.tasks import TASKS

EVALUATIONS = 300


def invented(experiment, value):
    """A record of a run that nobody trained: its curve falls or rises towards `value`."""
    metric, steps = experiment.task.objective.metric, experiment.training.steps
    at = [steps * (i + 1) // EVALUATIONS for i in range(EVALUATIONS)]
    curve = [
        {"step": step, "loss": 1 / (1 + i), metric: value * (1 - math.exp(-(i + 1) / 40))}
        for i, step in enumerate(at)
    ]
    result = {
        "experiment": experiment.to_json(),
        "run": experiment.name,
        "steps": steps,
        "budget": "full",
        "paper_steps": steps,
        "seconds": 1.0,
        "valid": {metric: curve[-1][metric], "step": steps},
        "test": {metric: value},
    }
    text = "".join(json.dumps(line) + "\n" for line in curve)
    return Record(experiment.name, experiment, result, lambda: text)


def archive_of(folder, count):
    """An archive of so many made-up runs, spread over the tables, several seeds of each entry."""
    rows = [row for t in tables().values() for row in t.rows if row.published and row.task in TASKS]
    records = {}
    for seed, row in itertools.product(range(5), rows):
        experiment = dataclasses.replace(experiment_of(row), seed=seed)
        value = row.published.mean * (0.9 + 0.02 * seed)
        records.setdefault(experiment.name, invented(experiment, value))
        if len(records) == count:
            break
    Archive(folder).add(list(records.values()))
