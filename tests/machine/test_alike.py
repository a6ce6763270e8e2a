"""Numbers of several processes are compared but for rounding, each table in units of its own."""

import numpy as np
import pytest

from tessella.machine import processes
from tessella.machine.alike import differing, refuse

LARGE, SMALL = np.array([[3.0, -2.0], [1.0, 0.0]]), np.array([1e-12, 2e-12])


@pytest.fixture
def beside(monkeypatch):
    """Another process with these tables."""

    def say(*tables):
        others = np.concatenate([np.ravel(table) for table in tables])
        monkeypatch.setattr(processes, "gathered", lambda _, own: [own, own, others])

    return say


def test_rounding_makes_no_difference(beside):
    beside(LARGE * (1 + 1e-15), SMALL * (1 - 1e-15))
    assert differing([LARGE, SMALL]) is None
    refuse(None)


@pytest.mark.parametrize(
    "other", [(LARGE, SMALL + 1e-18), (LARGE + 1e-8, SMALL), (LARGE,), (LARGE, SMALL, SMALL)]
)
def test_whoever_has_other_numbers_is_named(beside, other):
    beside(*other)
    with pytest.raises(ValueError, match="processes 0 and 2 differ in the problem"):
        refuse(differing([LARGE, SMALL]))


def test_where_nothing_is_asked_all_agree(beside):
    beside(np.zeros(0))
    assert differing([]) is None
    assert differing([np.zeros((0, 2))]) is None
