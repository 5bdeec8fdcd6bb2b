"""Training: the protocol, run folders, evaluation."""

from persistor.training.evaluation import evaluate
from persistor.training.loop import Progress, Trainer, train
from persistor.training.run import Run, all_runs, load_best, runs_folder

__all__ = [
    "Progress",
    "Run",
    "Trainer",
    "all_runs",
    "evaluate",
    "load_best",
    "runs_folder",
    "train",
]
