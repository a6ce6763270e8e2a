"""The largest error: estimated beside the mean one, in the same unit, and asked for in its norm."""

import math

import numpy as np
import pytest

import tessella as ts
from tessella.accuracy.estimate import Errors, Judgement
from tessella.accuracy.held_out import on_edges

SQUARE = ts.Box(x=(0, 1), y=(0, 1))


def wiggle(p):
    return np.sin(3 * p[:, 0]) * np.exp(p[:, 1])


POISSON = ts.Problem(
    SQUARE, ts.Equation(ts.Laplacian(), lambda p: -8 * wiggle(p)), [ts.Dirichlet(wiggle)],
    exact=wiggle,
)  # fmt: skip


def largest(solution):
    """The true one at many points, in parts of the spread."""
    x = solution.problem.domain.scatter(20_000, np.random.default_rng(3))
    u = solution.problem.exact_values(x)
    return float(np.max(np.abs(solution(x) - u)) / np.std(u))


@pytest.mark.parametrize("coupling", ["overlap", "interfaces"])
def test_a_direct_solve_knows_its_largest_error_roughly(coupling):
    solution = ts.solve(
        POISSON, subdomains=3, features=40, coupling=coupling,
        solver="nested-qr" if coupling == "overlap" else "merging",
    )  # fmt: skip
    report = solution.report
    assert report.largest_error_estimate > report.error_estimate
    assert 0.1 <= report.largest_error_estimate / largest(solution) <= 10


@pytest.mark.parametrize("norm", ["mean", "largest"])
def test_a_tolerance_is_met_in_the_norm_it_is_asked_in(norm):
    u = lambda p: np.exp(-(((p[:, 0] - 0.4) / 0.05) ** 2))  # noqa: E731
    slope = lambda p: (400 * ((p[:, 0] - 0.4) / 0.05) ** 2 * 4 - 800) * u(p)  # noqa: E731
    line = ts.Problem(
        ts.Box(x=(0, 1)), ts.Equation(ts.D(x=2), slope), [ts.Dirichlet(u)], exact=u
    )  # fmt: skip
    solution = ts.solve(line, tol=1e-5, norm=norm)
    report = solution.report
    estimates = {"mean": report.error_estimate, "largest": report.largest_error_estimate}
    true = {"mean": report.error["l1_normalised"], "largest": largest(solution)}
    assert report.stop_reason == "tolerance met"
    assert estimates[norm] <= 1e-5 and true[norm] <= 3e-5
    assert ("largest" in report.advice) == (norm == "largest")


def test_values_that_disagree_at_a_corner_show_in_the_largest_error_only():
    heat = ts.Problem(
        ts.Box(x=(0, 1), t=(0, 0.2)),
        ts.Equation(ts.D(t=1) - ts.D(x=2)),
        [ts.Dirichlet(0.0), ts.Initial(1.0)],
    )
    report = ts.solve(heat, tol=2e-2).report
    assert report.stop_reason == "tolerance met" and "contradict each other" in report.advice
    spread = 0.35  # of u, which is between 0 and 1
    assert report.largest_error_estimate >= 0.5 / spread
    assert f"{report.largest_error_estimate:.1e} at the worst point" in str(report)
    assert report.to_json()["largest_error_estimate"] == report.largest_error_estimate


def test_a_march_knows_its_largest_error_and_keeps_it_in_files(tmp_path):
    u = lambda p: np.sin(7 * p[:, 0]) * np.cos(7 * p[:, 1])  # noqa: E731
    wave = ts.Problem(
        ts.Box(x=(0, 1), t=(0, 2)),
        ts.Equation(ts.D(t=2) - ts.D(x=2)),
        [ts.Dirichlet(u), ts.Initial(u), ts.InitialVelocity(0.0)],
        exact=u,
    )
    solution = ts.march(wave, 4, subdomains=(2, 1), features=40, coupling="interfaces")
    report = solution.report
    assert report.largest_error_estimate > report.error_estimate
    assert 0.1 <= report.largest_error_estimate / largest(solution) <= 10
    assert "at the worst point of all slabs" in str(report)
    assert report.to_json()["largest_error_estimate"] == report.largest_error_estimate
    loaded = ts.load(solution.save(tmp_path / "wave.npz"), problem=wave)
    assert loaded.report.largest_error_estimate == report.largest_error_estimate
    met = ts.solve(wave, tol=1e-4, norm="largest")
    assert met.report.stop_reason == "tolerance met"
    assert met.report.largest_error_estimate <= 1e-4 and largest(met) <= 3e-4


def test_edges_are_where_a_face_meets_others():
    walls, start = ts.Dirichlet(0.0), ts.Initial(0.0)
    found = on_edges(start, ts.Box(x=(0, 1), t=(0, 2)))
    assert sorted(map(tuple, found)) == [(0, 0), (1, 0)]
    cube = ts.Box(x=(0, 1), y=(0, 1), t=(0, 1))
    assert np.all(on_edges(start, cube)[:, 2] == 0) and len(on_edges(start, cube)) == 8
    ring = ts.Problem(cube, ts.Equation(ts.D(t=1)), [ts.Periodic("x"), start]).domain
    assert set(on_edges(start, ring)[:, 1]) == {0.0, 1.0}
    assert not len(on_edges(walls, ts.Ball(x=0, y=0, radius=1)))
    assert not len(on_edges(walls, ts.Box(x=(0, 1))))


def test_the_largest_error_is_judged_by_what_is_largest():
    found = Judgement(1e-3, 1e-1, 1e-2, farthest=0.5, peaks=(1.0, 10.0))
    assert found.errors == Errors(found.error, 0.5 / 10)
    assert found.error == pytest.approx(1e-4)
    wrong = Judgement(1e-3, 1e-1, 1e-2, farthest=0.5, peaks=(1.0, 10.0), wrong=0.3)
    assert wrong.errors.largest == 0.3 and not math.isclose(wrong.error, 0.3)


def test_a_norm_has_a_name_and_needs_a_tolerance():
    with pytest.raises(ValueError, match=r"unknown norm 'max': choose one of mean, largest"):
        ts.solve(POISSON, tol=1e-3, norm="max")
    with pytest.raises(ValueError, match=r"norm='largest' is what a tolerance is asked in: add"):
        ts.solve(POISSON, subdomains=2, features=20, norm="largest")
