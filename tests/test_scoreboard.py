"""PINNacle's rows: all there, and the quick ones far ahead of what is published."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.pinnacle.board import ABSENT, CASES, INVERSE, ORDER
from benchmarks.pinnacle.case import lines
from benchmarks.pinnacle.wave import shaken_series


def test_every_row_is_run_or_explained():
    assert len(ORDER) == 22
    assert sorted(ORDER) == sorted([*CASES, *ABSENT, *INVERSE])


@pytest.mark.parametrize("name", ["Wave 1d-C", "Poisson 2d-MS"])
def test_quick_rows_are_a_hundred_times_better_than_published(name):
    assert CASES[name].run()["factor"] > 100


def test_right_values_of_the_shaken_drum_are_those_of_its_start():
    """The series sums to the initial values, which its parts do not resemble."""
    points, values = shaken_series(at=0.0)
    x, y, _ = np.pi * points.T
    start = np.sin(x) * np.sinh(y) + np.sinh(3 * x) * np.sin(2 * y)
    assert np.linalg.norm(values - start) < 1e-6 * np.linalg.norm(start)


def test_lines_leave_out_what_is_no_code():
    def stated():
        """Not
        counted."""
        x = 1

        return x

    assert lines(stated) == 3
