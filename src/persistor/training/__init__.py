"""Training: the protocol, run folders, evaluation."""

from persistor.model.trained import find_run, runs_folder
from persistor.training.evaluation import evaluate
from persistor.training.loop import Progress, Trainer, train
from persistor.training.run import Run, load

__all__ = [
    "Progress",
    "Run",
    "Trainer",
    "evaluate",
    "find_run",
    "load",
    "runs_folder",
    "train",
]
