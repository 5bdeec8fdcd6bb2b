"""An experiment as a value: task, model, training and seed. All defaults are set here."""

from persistor.experiment.experiment import Experiment, checked_seed, default_architecture
from persistor.experiment.specs import ModelSpec, TrainingSpec, cell_class, cell_name

__all__ = [
    "Experiment",
    "ModelSpec",
    "TrainingSpec",
    "cell_class",
    "cell_name",
    "checked_seed",
    "default_architecture",
]
