"""Steps of a sequence of runs."""

import numpy as np
import pytest

from trine.profile import steps


@pytest.mark.parametrize(
    ("sequence", "found"),
    [
        ([1] * 12, (0, 1, 12)),
        ([9, 8, 7] + [1, 2, 2, 3] * 5, (3, 4, 5)),
        ([1, 2, 3, 4, 5, 6, 7, 8], (0, 0, 0)),
        ([5, 1, 2, 2, 3, 6, 6] + [1, 2, 2, 3] * 3, (7, 4, 3)),  # the first step is another
        ([], (0, 0, 0)),
        ([1], (0, 0, 0)),
        (list(range(100, 130)) + [1, 1], (0, 0, 0)),  # two alike at the end are no steps
    ],
)
def test_known(sequence, found):
    assert steps.find(sequence) == found


def test_one_run_that_differs():
    """A step may have a run of its own now and then: a checkpoint, a printed loss."""
    sequence = list(np.tile(np.arange(40), 10))
    sequence[173] = 99
    assert steps.find(sequence) == (0, 40, 10)
