"""What `inspect` says of a unit is what the unit does."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from persistor import Affine, Experiment, ModelSpec
from persistor.inspection import BlockTrace, first_batch, report_units, trace
from persistor.tasks import Parity
from persistor.theory import gradient_flow
from persistor.unroll import unroll

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


def test_padding_changes_nothing():
    """Two of the sequences are short; what follows their end must not be seen."""
    model = Experiment(Parity(), ModelSpec(("mingru",), state=2, width=16, encoding=16)).build()
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
