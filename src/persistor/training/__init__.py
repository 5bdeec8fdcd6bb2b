"""Training: the protocol, run folders, evaluation."""

from persistor.training.evaluation import evaluate
from persistor.training.loop import Progress, Trainer, train
from persistor.training.run import Run, runs_folder

__all__ = [
    "Progress",
    "Run",
    "Trainer",
    "evaluate",
    "runs_folder",
    "train",
]
