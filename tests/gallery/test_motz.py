"""Motz's problem: its series as a reference, its entry and the boundary layer's in the gallery."""

import numpy as np
import pytest

import tessella as ts
from tessella.gallery.reference.motz import Motz

SERIES = Motz()
T = np.linspace(0, 1, 201)[1:-1]


def test_the_series_meets_every_condition():
    one = np.ones_like(T)
    at = {
        "right": np.stack([one, T], 1),
        "top": np.stack([2 * T - 1, one], 1),
        "left": np.stack([-one, T], 1),
        "held": np.stack([-T, 0 * T], 1),
        "free": np.stack([T, 0 * T], 1),
    }
    np.testing.assert_allclose(SERIES(at["right"]), 500.0, atol=1e-10)
    np.testing.assert_allclose(SERIES(at["held"]), 0.0, atol=1e-10)
    np.testing.assert_allclose(SERIES.gradient(at["top"])[1], 0.0, atol=1e-10)
    np.testing.assert_allclose(SERIES.gradient(at["left"])[0], 0.0, atol=1e-10)
    np.testing.assert_allclose(SERIES.gradient(at["free"])[1], 0.0, atol=1e-10)
    assert SERIES.residual < 1e-12


def test_the_leading_coefficients_do_not_depend_on_where_the_series_ends():
    fewer = Motz(50).coefficients[:8]
    np.testing.assert_allclose(SERIES.coefficients[:8], fewer, rtol=1e-12)


def test_the_coefficients_are_those_of_the_literature():
    """Li, Mathon and Sermer (1987) and later, the first four to sixteen digits."""
    known = [401.162453745234416, 87.6559201950879299, 17.2379150794467897, -8.0712152596981790]
    np.testing.assert_allclose(SERIES.coefficients[:4], known, rtol=1e-13)


def test_the_series_is_harmonic(rng):
    """The mean over a circle is the value at its centre."""
    centre, radius = np.array([0.3, 0.5]), 0.3
    angle = 2 * np.pi * np.arange(64) / 64
    circle = centre + radius * np.stack([np.cos(angle), np.sin(angle)], 1)
    assert SERIES(circle).mean() == pytest.approx(SERIES(centre[None])[0], rel=1e-13)


def test_the_gradient_is_the_slope(rng):
    points, h = rng.uniform(0.1, 0.9, (20, 2)), 1e-6
    for axis, slope in enumerate(SERIES.gradient(points)):
        step = h * np.eye(2)[axis]
        difference = (SERIES(points + step) - SERIES(points - step)) / (2 * h)
        np.testing.assert_allclose(slope, difference, rtol=1e-7)


def test_the_gallery_entry_reaches_ten_digits_and_is_found_again(tmp_path):
    solution = ts.gallery.get("motz").solve("best")
    assert solution.report.error["l2_relative"] < 1e-9
    assert solution.report.settings["enriched"] == 4
    loaded = ts.load(solution.save(tmp_path / "motz"))
    points = solution.problem.domain.grid((9, 5))
    np.testing.assert_array_equal(loaded(points), solution(points))


def test_the_boundary_layer_entry_needs_its_layer():
    entry = ts.gallery.get("boundary-layer")
    with_it = entry.solve("best").report.error["l2_relative"]
    without = entry.solve("best", settings={"enriched": 0, "features": 21}).report
    assert with_it < 1e-13
    assert without.error["l2_relative"] > 0.1


def test_more_enrichment_than_a_problem_has_is_refused():
    with pytest.raises(ValueError, match="has 8 enrichment functions, so enriched must be a"):
        ts.gallery.get("motz").solve("best", settings={"enriched": 9})
    with pytest.raises(ValueError, match="laplace has 0 enrichment functions"):
        ts.gallery.get("laplace").solve(settings={"enriched": 1})
    with pytest.raises(ValueError, match="eps must be positive, got -1"):
        ts.gallery.get("boundary-layer").problem("best", eps=-1)
