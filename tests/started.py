"""A run that can be asked at once: its best weights are those that it starts with."""

from persistor import Run
from persistor.model.file import save


def started(experiment, folder):
    """What `train` leaves of a run, but for the training."""
    run = Run.create(experiment, folder)
    preparation = experiment.task.preparation().to_json()
    save(experiment.build(), run.best, preparation=preparation, experiment=experiment.hash)
    return run
