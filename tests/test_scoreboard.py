"""PINNacle's rows: all there, and the quick ones far ahead of what is published."""

from __future__ import annotations

import json

import numpy as np
import pytest
from benchmarks.harness import RESULTS
from benchmarks.pinnacle.board import ABSENT, CASES, INVERSE, ORDER
from benchmarks.pinnacle.case import graded, lines
from benchmarks.pinnacle.wave import shaken_series


def test_every_row_is_run_or_explained():
    assert len(ORDER) == 22
    assert sorted(ORDER) == sorted([*CASES, *ABSENT, *INVERSE])


@pytest.mark.parametrize("name", ["Wave 1d-C", "Poisson 2d-MS", "PNd"])
def test_quick_rows_are_a_hundred_times_better_than_published(name):
    assert CASES[name].run()["factor"] > 100


def test_factors_of_the_record_are_those_of_its_errors():
    rows = json.loads((RESULTS / "pinnacle.json").read_text())["rows"]
    assert [row["case"] for row in rows] == list(ORDER)
    for row in rows:
        if row["error"] is not None:
            assert row["factor"] == pytest.approx(row["published"] / row["error"])


def test_a_run_by_hand_that_ends_early_says_why():
    ended, whole = (CASES["KS"].row(error, 1.0, "lost in slab 3 of 60") for error in (None, 1e-3))
    assert ended["end"] == f"{whole['end']}: lost in slab 3 of 60"


def test_graded_slabs_go_on_where_others_ended():
    np.testing.assert_allclose(graded((0.1, 2), (1.0, 3)), [0.05, 0.1, 0.4, 0.7, 1.0])


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
