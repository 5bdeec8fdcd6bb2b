"""What `inspect` says of a unit is what the unit does."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from persistor import Affine, Experiment, ModelSpec, Saturating
from persistor.analysis.inspection import BlockTrace, first_batch, report_units, trace
from persistor.analysis.theory import gradient_flow
from persistor.recurrence.unroll import unroll
from persistor.tasks import Parity

STEPS = 20
UNITS = {  # decay and drive after a first step that stores one
    "keeps": (1.0, 0.0),
    "counts": (1.0, 0.5),
    "flips": (-1.0, 1.0),
    "forgets": (0.0, 1.0),
    "fades": (0.9, 0.1),
}


def traced(decay, drive):
    decay, drive = (
        jnp.full((3, STEPS, 1), x).at[:, 0].set(y) for x, y in ((decay, 1.0), (drive, 1.0))
    )
    transitions = Affine(decay, drive)
    states, _ = unroll(transitions, jnp.zeros((3, 1)))
    return BlockTrace(transitions, states, gradient_flow(transitions))


@pytest.mark.parametrize("verdict", UNITS)
def test_the_verdict_names_what_the_unit_does(verdict):
    (report,) = report_units([traced(*UNITS[verdict])], None)
    assert report.verdict == verdict


def test_numbers_of_a_counter():
    (report,) = report_units([traced(1.0, 0.5)], None)
    assert report.retains == report.retains_after_first == 0.0
    assert report.count == 0.5 * (STEPS - 1)
    assert (report.lowest, report.highest, report.levels) == (1.0, 1 + 0.5 * (STEPS - 1), STEPS)


def ladder_trace(*pushes):
    """A ladder of two levels that is pushed up, down or not at all, as these say."""
    drive = jnp.array(pushes)[None, :, None] * jnp.ones((3, 1, 1))
    low, high = (jnp.full(drive.shape, x) for x in (0.0, 2.0))
    transitions = Saturating(Affine(jnp.ones_like(drive), drive), low, high)
    states, _ = unroll(transitions, jnp.zeros((3, 1)))
    before = jnp.concatenate([jnp.zeros((3, 1, 1)), states[:, :-1]], axis=1)
    affine = transitions.at(before)
    return BlockTrace(affine, states, gradient_flow(affine), 2)


@pytest.mark.parametrize(
    ("pushes", "verdict", "count", "shares"),
    [
        ((1.0, 0.0, 0.0, 0.0), "keeps", 0, (0.0, 1.0, 0.0)),
        ((0.0, 1.0, 1.0, -1.0), "counts", 1, (0.25, 0.5, 0.25)),
        ((1.0, 1.0, 1.0, 1.0), "forgets", 1, (0.0, 0.25, 0.75)),  # held at the top
    ],
)
def test_the_levels_of_a_ladder(pushes, verdict, count, shares):
    (report,) = report_units([ladder_trace(*pushes)], None)
    assert (report.verdict, report.count, report.at_level) == (verdict, count, shares)


def test_a_ladder_in_a_model_visits_whole_levels():
    spec = ModelSpec(("ladder",), state_size=4, width=16, encoding=16, levels=3)
    model = Experiment(Parity(), spec).build()
    batch = first_batch(Parity(test_lengths=(20, 40)).split("test"), 8)
    with jax.numpy_dtype_promotion("standard"):
        reports = report_units(trace(model, batch), batch.lengths)
    for report in reports:
        assert len(report.at_level) == 4
        assert sum(report.at_level) == pytest.approx(1)
        assert report.levels == sum(share > 0 for share in report.at_level)


def test_padding_changes_nothing():
    """Two of the sequences are short; what follows their end must not be seen."""
    model = Experiment(
        Parity(), ModelSpec(("mingru",), state_size=2, width=16, encoding=16)
    ).build()
    batch = first_batch(Parity(test_lengths=(5, 30)).split("test"), 4)
    assert batch.lengths is not None
    longer = dataclasses.replace(
        batch.inputs, ids=jnp.pad(batch.inputs.ids, ((0, 0), (0, 9)), constant_values=1)
    )
    padded = dataclasses.replace(batch, inputs=longer)
    with jax.numpy_dtype_promotion("standard"):
        one, two = (report_units(trace(model, b), b.lengths) for b in (batch, padded))
    for a, b in zip(one, two, strict=True):
        for field in dataclasses.fields(a):
            np.testing.assert_allclose(
                getattr(a, field.name), getattr(b, field.name), rtol=1e-5, err_msg=field.name
            )
