"""An experiment as a value: task, model, training and seed."""

from persistor.experiment.experiment import (
    Experiment,
    ModelSpec,
    TrainingSpec,
    build_cell,
    checked_seed,
    task_name,
)

__all__ = ["Experiment", "ModelSpec", "TrainingSpec", "build_cell", "checked_seed", "task_name"]
