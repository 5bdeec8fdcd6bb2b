"""Yield: how many chips work despite mismatch, in SPICE and in the behavioural model."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from persistor.hardware.behaviour import levels_at_ends, make_chips, run_cells, run_ladders
from persistor.hardware.circuit import Bistable, LadderCircuit
from persistor.hardware.deployment import Deployment
from persistor.hardware.measure import Bench, climb, run_ladder, targets
from persistor.hardware.spice import Report
from persistor.hardware.variation import fit, monte_carlo
from persistor.tasks import Batch, Objective

KEY = 0  # of the chips drawn: the same command draws the same chips
AT_ONCE = 16  # chips whose outputs are in memory together
LOSS = 0.02  # a chip passes if its metric is at most this much worse than the model's


def of_cell(bench: Bench, seeds: int, chips: int, report: Report | None = None) -> dict[str, Any]:
    """The share of cells that hold at the retain input, and the spread, in SPICE and behaviour."""
    cell = Bistable()
    simulated = monte_carlo(cell, bench, seeds, report)
    drawn = make_chips(jax.random.key(KEY), cell, chips, 1)
    holds = [r.lower < cell.retain < r.upper for r in simulated]
    return {
        "spice": {"chips": seeds, "yield": float(np.mean(holds)), **fit(simulated)},
        "behaviour": {
            "chips": chips,
            "yield": float(((drawn.lower < cell.retain) & (cell.retain < drawn.upper)).mean()),
            "upper": float(drawn.upper.std()),
            "lower": float(drawn.lower.std()),
            "output": float(drawn.output.std()),
        },
    }


def of_ladder(
    levels: int, bench: Bench, seeds: int, chips: int, report: Report | None = None
) -> dict[str, Any]:
    """The share of ladders that stop at every level of a drive, and that reach both ends."""
    ladder = LadderCircuit(levels)
    pieces, target = climb(ladder), np.array(targets(ladder))
    held = slice(0, None, 2)
    simulated = []
    for seed in range(seeds):
        simulated.append(run_ladder(ladder, pieces, bench.at(seed=seed))[0].levels[held])
        if report is not None:
            report(seed + 1, seeds)
    drawn = make_chips(jax.random.key(KEY), ladder.cell, chips, levels)
    times, paths = run_ladders(ladder, drawn, pieces)
    reached = {
        "spice": np.array(simulated),
        "behaviour": levels_at_ends(times, paths, pieces)[:, held],
    }
    return {
        how: {
            "chips": len(levels_reached),
            "exact": float((levels_reached == target).all(-1).mean()),
            "ends": float((levels_reached[:, -2:] == target[-2:]).all(-1).mean()),
        }
        for how, levels_reached in reached.items()
    }


def of_run(
    deployment: Deployment,
    batch: Batch,
    objective: Objective,
    chips: int,
    noise: float,
    report: Report | None = None,
) -> dict[str, Any]:
    """The metric of every chip on a batch, and the share of chips close to the model's."""
    key, draw = jax.random.split(jax.random.key(KEY))
    currents = jnp.asarray(deployment.currents(batch), jnp.float32)
    drawn = make_chips(draw, deployment.layer.cell, chips, currents.shape[-1])
    scores = []
    for start in range(0, chips, AT_ONCE):
        group = jax.tree.map(lambda a, start=start: a[start : start + AT_ONCE], drawn)
        at = jax.random.fold_in(key, start)
        outputs = run_cells(group, currents, lengths=batch.lengths, noise=noise, key=at)
        answers = (deployment.answers(batch, of_chip) for of_chip in outputs)
        scores += [float(objective.score(a, batch.targets).mean()) for a in answers]
        if report is not None:
            report(len(scores), chips)
    scores = np.array(scores)
    model_outputs, _ = deployment.model(batch.inputs, lengths=batch.lengths)
    nominal = float(objective.score(model_outputs, batch.targets).mean())
    worse = nominal - scores if objective.higher_is_better else scores - nominal
    counts, edges = np.histogram(scores, bins=10)
    return {
        "behaviour": {
            "chips": chips,
            "yield": float((worse <= LOSS).mean()),
            "model": nominal,
            f"mean {objective.metric}": float(scores.mean()),
            "worst": float(scores.min() if objective.higher_is_better else scores.max()),
        },
        "noise_nA": noise,
        "histogram": {"counts": counts.tolist(), "edges": edges.tolist()},
    }


def sweep_text(outcomes: list[dict[str, Any]]) -> str:
    """The outcomes of a run at several noises as text, one line each."""
    titles = ["noise (nA)", *(t for t in outcomes[0]["behaviour"] if t != "chips")]
    rows = [
        [o["noise_nA"], *(v for t, v in o["behaviour"].items() if t != "chips")] for o in outcomes
    ]
    lines = ["  ".join(f"{title:>13}" for title in titles)]
    lines += ["  ".join(f"{value:13.4g}" for value in row) for row in rows]
    return "\n".join(lines)


def text(outcome: dict[str, Any]) -> str:
    """The outcome as text."""
    lines = []
    for how, facts in outcome.items():
        if how == "histogram":
            edges = zip(facts["edges"], facts["counts"], strict=False)
            most = max(facts["counts"])
            lines += [f"  from {e:.4f} {c:6} {'#' * round(40 * c / most)}" for e, c in edges]
        elif isinstance(facts, dict):
            lines.append(f"{how:10} " + ", ".join(f"{k} {v:.4g}" for k, v in facts.items()))
        else:
            lines.append(f"{how} {facts:.4g}")
    return "\n".join(lines)
