"""The training loop: the paper's protocol, resumable at any moment.

A run advances in intervals of `evaluate_every` steps; each is one compiled call. Everything random
is a function of (seed, step), so it is enough to save a checkpoint at the end of an interval. A run
that is killed and resumed ends with the same bits as one that was not interrupted.
"""

from __future__ import annotations

import functools
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from persistor._tools.errors import PersistorError
from persistor.arrays import Array, Float, Int
from persistor.experiment import Experiment
from persistor.model import Backbone
from persistor.model.eight_bits import in_eight_bits
from persistor.model.file import read_arrays, save, write_arrays
from persistor.model.trained import runs_folder
from persistor.nn.draws import copies, first_key, fold_in, native
from persistor.paper.budgets import published
from persistor.tasks import KINDS, Split
from persistor.training.evaluation import (
    check_finite,
    evaluate,
    length_of,
    outputs_on,
    plain_scores_at,
    sampled_indices,
)
from persistor.training.kept import compiled
from persistor.training.provenance import Stopwatch, provenance
from persistor.training.run import Run
from persistor.training.schedule import (
    annealed_epsilon,
    learning_rate,
    optimiser,
    updated,
)

SAVE_EVERY = 20.0  # seconds
FEW = 128  # steps of a run that takes less time than compiling it well
STALE = 4  # a run that stops early has not improved for a quarter of its steps,
FEWEST = 10  # and for so many evaluations


class Checkpoint(eqx.Module):
    """What training changes."""

    params: Backbone
    optimiser: optax.OptState
    step: Int[Array, ""]


@dataclass(frozen=True)
class Standing:
    """How far a run has come, as plain Python numbers."""

    step: int = 0
    seconds: float = 0.0
    perfect_in_a_row: int = 0
    best_metric: float | None = None
    best_step: int | None = None
    improved: int = 0  # the last step that was better than all before, or could not be judged


@dataclass(frozen=True)
class Progress:
    """What a run reports after every interval."""

    step: int
    steps: int
    loss: float
    metric: float
    best: float | None
    seconds: float


class Trainer:
    """The compiled pieces of one experiment."""

    def __init__(self, experiment: Experiment, *, remat: bool = False):
        self.experiment, self.remat = experiment, remat
        self.spec = experiment.training
        self.architecture = experiment.model.architecture
        self.objective = experiment.task.objective
        self.train_split = experiment.task.split("train")
        self.valid_split = experiment.task.split("valid")
        check_finite(self.train_split, "train")
        check_finite(self.valid_split, "valid")
        self.key = native(fold_in(first_key(experiment.seed), 1))
        self.optimiser = optimiser(self.spec)
        self.learning_rate = jax.jit(learning_rate(self.spec))
        model = experiment.build()
        self.trainable = jax.tree.map(eqx.is_inexact_array, model)
        self.blank, self.frozen = eqx.partition(model, self.trainable)
        self.encoding = model.encode_positions(length_of(self.train_split))
        made_for = self._made_for()
        quickly = self.spec.steps <= FEW and jax.default_backend() == "cpu"
        self.interval = compiled(self._interval, made_for, donated=1, quickly=quickly)
        self.scores = compiled(plain_scores_at, made_for, quickly=quickly)

    def _made_for(self) -> str | None:
        """What the programs are made for, in words; None if a task or a cell is not registered."""
        known = self.experiment.task.name in KINDS and all(
            isinstance(cell, str) for cell in self.experiment.model.cells
        )
        described = {**self.experiment.to_json(), "seed": None, "remat": self.remat}
        return json.dumps(described) if known else None

    def start(self) -> Checkpoint:
        """The checkpoint before the first step."""
        params = copies(self.blank)
        like = eqx.filter_eval_shape(self.optimiser.init, params)
        moments = jax.tree.map(lambda m: jax.device_put(np.zeros(m.shape, m.dtype)), like)
        return Checkpoint(params, moments, _count(0))

    @functools.cached_property
    def preparation(self) -> dict[str, Any]:
        """How the inputs of the model are read, as plain values."""
        return self.experiment.task.preparation().to_json()

    def epsilon(self, step: Int[Array, ""]) -> Float[Array, ""] | None:
        """Epsilon at a step; None if it is not annealed."""
        return annealed_epsilon(step, self.spec.steps) if self.spec.anneal else None

    def model(self, params: Backbone, step: Int[Array, ""], frozen: Backbone) -> Backbone:
        """The model with these parameters, at a step."""
        model = eqx.combine(params, frozen)
        model = in_eight_bits(model) if self.spec.eight_bits else model
        epsilon = self.epsilon(step)
        return model if epsilon is None else model.with_epsilon(epsilon)

    def loss(self, params, frozen, key, step, split: Split, encoding) -> Float[Array, ""]:
        """The mean loss of a step's batch."""
        draw, drop = jax.random.split(jax.random.fold_in(key, step))
        batch = split.at(sampled_indices(draw, split, (self.spec.batch,)))
        model = self.model(params, step, frozen)
        outputs = outputs_on(model, split, batch, encoding, remat=self.remat, key=drop)
        return self.objective.loss(outputs, batch.targets).mean()

    def _interval(self, constants: tuple, checkpoint: Checkpoint):
        """Several steps: the new checkpoint's arrays, in memory of the old, and the mean loss."""
        frozen, key, split, encoding, steps = constants

        def advance(_, carry):
            checkpoint, total = carry
            loss, grads = jax.value_and_grad(self.loss)(
                checkpoint.params, frozen, key, checkpoint.step, split, encoding
            )
            params, opt = updated(
                self.spec,
                self.architecture,
                checkpoint.step,
                grads,
                checkpoint.optimiser,
                checkpoint.params,
            )
            return Checkpoint(params, opt, checkpoint.step + 1), total + loss

        checkpoint, total = jax.lax.fori_loop(0, steps, advance, (checkpoint, jnp.zeros(())))
        return tuple(jax.tree.leaves(checkpoint)), total / steps.astype(jnp.float32)

    def advance(self, checkpoint: Checkpoint, steps: int) -> tuple[Checkpoint, float]:
        """Train for some steps: the new checkpoint and the mean loss."""
        constants = (self.frozen, self.key, self.train_split, self.encoding, _count(steps))
        leaves, loss = self.interval(constants, checkpoint)
        return jax.tree.unflatten(jax.tree.structure(checkpoint), leaves), float(loss)

    def validate(self, checkpoint: Checkpoint) -> tuple[Backbone, float]:
        """The current model, and its metric on batches sampled from the validation set."""
        model = self.model(checkpoint.params, checkpoint.step, self.frozen)
        key = fold_in(fold_in(self.key, 2**31 - 1), int(checkpoint.step))
        shape = (self.spec.valid_batches, self.spec.batch)
        indices = sampled_indices(key, self.valid_split, shape)
        scores = self.scores(model, self.valid_split, self.objective, indices, self.encoding)
        return model, float(scores.mean())

    def test(self, best: Backbone) -> float:
        """The metric of a model on the test set."""
        split = self.experiment.task.split("test")
        return evaluate(best, split, self.objective, compute=self.scores)

    def kept(self, model: Backbone, step: int) -> Backbone:
        """A copy of the model that later steps do not change; its epsilon becomes a constant."""
        copied = copies(model)
        epsilon = self.epsilon(jnp.asarray(step))
        return copied if epsilon is None else copied.with_epsilon(float(epsilon))


def _count(number: int) -> Int[Array, ""]:
    """A number of steps, in memory of its own."""
    return jax.device_put(np.asarray(number, np.int32))


def train(
    run: Run | Experiment,
    *,
    runs: str | Path | None = None,
    remat: bool = False,
    watch: Callable[[Progress], None] = lambda progress: None,
    should_stop: Callable[[], bool] = lambda: False,
    save_every: float = SAVE_EVERY,
) -> dict[str, Any] | None:
    """Train a run to its end and return its result, or None if `should_stop` ended it early.

    An experiment is trained in its own folder inside `runs` (default: ./runs). A run continues
    where it stopped; a finished one is not computed again. A checkpoint is saved every
    `save_every` seconds, and whenever training stops. `remat` saves memory but takes time (see
    `Backbone`).
    """
    if isinstance(run, Experiment):
        run = Run.create(run, runs_folder(runs))
    if not isinstance(run, Run):
        raise PersistorError(f"train takes an Experiment or a Run, not {run!r}")
    if run.result is not None:
        return run.result
    with run.locked():
        began = time.monotonic()
        trainer = Trainer(run.experiment, remat=remat)
        checkpoint, standing, stopwatch = _resume(run, trainer)
        stopwatch.add("prepare", time.monotonic() - began)
        compiled = False
        best: Backbone | None = None
        saved = time.monotonic()
        while not _over(standing, run.experiment):
            began = time.monotonic()
            spec = run.experiment.training
            steps = min(spec.evaluate_every, spec.steps - standing.step)
            with stopwatch.phase("train" if compiled else "compile"):
                checkpoint, loss = trainer.advance(checkpoint, steps)
            if not math.isfinite(loss):
                raise PersistorError(_diverged(run, standing.step, steps))
            with stopwatch.phase("evaluate" if compiled else "compile"):
                model, metric = trainer.validate(checkpoint)
            compiled = True
            previous = standing
            standing = _judge(trainer, previous, steps, metric, time.monotonic() - began)
            if standing.best_step == standing.step:
                best = trainer.kept(model, standing.step)
            run.note(_line(trainer, standing, loss, metric))
            watch(
                Progress(
                    standing.step, spec.steps, loss, metric, standing.best_metric, standing.seconds
                )
            )
            stopping = should_stop()
            if stopping or time.monotonic() - saved > save_every or _over(standing, run.experiment):
                _save(run, trainer, checkpoint, standing, stopwatch, best)
                best, saved = None, time.monotonic()
            if stopping:
                return None
        return _conclude(run, trainer, standing, stopwatch)


def _resume(run: Run, trainer: Trainer) -> tuple[Checkpoint, Standing, Stopwatch]:
    """The checkpoint where the run stopped, or the start of a new run."""
    if not run.latest.exists():
        run.rewind(0)
        return trainer.start(), Standing(), Stopwatch()
    like = eqx.filter_eval_shape(trainer.start)
    checkpoint, metadata = read_arrays(run.latest, like, run.experiment.hash)
    standing = Standing(**metadata["standing"])
    run.rewind(standing.step)
    return checkpoint, standing, Stopwatch.resumed(metadata.get("stopwatch"), standing.seconds)


def _judge(
    trainer: Trainer, before: Standing, steps: int, metric: float, seconds: float
) -> Standing:
    """The standing after an interval. An annealed run keeps no weights until epsilon is 0.

    If two weights are equally good, the later ones are kept: they have trained longer.
    """
    objective = trainer.objective
    step = before.step + steps
    epsilon = trainer.epsilon(jnp.asarray(step))
    eligible = epsilon is None or float(epsilon) == 0.0
    perfect = eligible and metric == objective.perfect
    best_metric, best_step = before.best_metric, before.best_step
    as_good = eligible and metric == best_metric
    if eligible and (
        best_metric is None
        or (metric >= best_metric if objective.higher_is_better else metric <= best_metric)
    ):
        best_metric, best_step = metric, step
    better = not eligible or (best_step == step and not as_good)
    return Standing(
        step=step,
        seconds=before.seconds + seconds,
        perfect_in_a_row=before.perfect_in_a_row + 1 if perfect else 0,
        best_metric=best_metric,
        best_step=best_step,
        improved=step if better else before.improved,
    )


def _over(standing: Standing, experiment: Experiment) -> bool:
    spec = experiment.training
    if standing.step >= spec.steps or standing.perfect_in_a_row >= spec.patience:
        return True
    enough = max(spec.steps // STALE, FEWEST * spec.evaluate_every)
    return spec.stop_early and standing.step - standing.improved >= enough


def _line(trainer: Trainer, standing: Standing, loss: float, metric: float) -> dict[str, Any]:
    step = jnp.asarray(standing.step)
    epsilon = trainer.epsilon(step)
    line = {
        "step": standing.step,
        "loss": loss,
        trainer.objective.metric: metric,
        "learning_rate": float(trainer.learning_rate(step)),
        "seconds": round(standing.seconds, 3),
    }
    return line if epsilon is None else {**line, "epsilon": float(epsilon)}


def _save(
    run: Run,
    trainer: Trainer,
    checkpoint: Checkpoint,
    standing: Standing,
    stopwatch: Stopwatch,
    best: Backbone | None,
) -> None:
    """Save the best weights if they are new, then the checkpoint that refers to them.

    A run that is killed in between resumes from the older checkpoint and finds the same best again.
    """
    if best is not None:
        save(
            best,
            run.best,
            preparation=trainer.preparation,
            experiment=run.experiment.hash,
            step=standing.best_step,
            metric=standing.best_metric,
        )
    metadata = {
        "experiment": run.experiment.hash,
        "standing": asdict(standing),
        "stopwatch": asdict(stopwatch),
    }
    write_arrays(run.latest, checkpoint, metadata)


def _conclude(
    run: Run, trainer: Trainer, standing: Standing, stopwatch: Stopwatch
) -> dict[str, Any]:
    """Test the best weights and write the result."""
    task = run.experiment.task
    metric = task.objective.metric
    began = time.monotonic()
    with stopwatch.phase("test"):
        like = eqx.combine(trainer.blank, trainer.frozen)
        best, _ = read_arrays(run.best, like, run.experiment.hash)
        value = trainer.test(best)
    result = {
        "experiment": run.experiment.to_json(),
        "run": run.experiment.name,
        "steps": standing.step,
        **_budget(run.experiment),
        "seconds": round(standing.seconds + time.monotonic() - began, 3),
        "valid": {metric: standing.best_metric, "step": standing.best_step},
        "test": {metric: value},
    }
    result["provenance"] = provenance(run.experiment, stopwatch)
    run.finish(result)
    return result


def _budget(experiment: Experiment) -> dict[str, Any]:
    """How the steps compare with the paper's; if the task is not in the paper, what it varies."""
    paper = published(experiment.task.name)
    if paper is None:
        other = experiment.task.variant_of
        return {} if other is None else {"variant_of": other}
    return {"budget": "reduced" if experiment.reduced else "full", "paper_steps": paper.steps}


def _diverged(run: Run, step: int, steps: int) -> str:
    saved = f"the last good checkpoint is {run.latest}" if run.latest.exists() else "nothing saved"
    return f"the loss is not finite between steps {step} and {step + steps}; {saved}"
