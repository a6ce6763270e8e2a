"""Where a refinement goes: towards layers, along fronts, to needles that few points would see."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

import tessella as ts
from problems import PLANE, on, stated
from tessella.accuracy.defects import in_cells
from tessella.accuracy.estimate import judge
from tessella.accuracy.held_out import held_out
from tessella.accuracy.marking import split
from tessella.accuracy.scales import degrees, layers
from tessella.solving.plan import first_plan

LINE = ts.Box(x=(0, 1))


def front(steepness):
    def u(p):
        r = jnp.sqrt((p[:, 0] + 0.05) ** 2 + (p[:, 1] + 0.05) ** 2)
        return jnp.arctan(steepness * (r - 0.7))

    square = ts.Box(x=(0, 1), y=(0, 1))
    return stated(square, -ts.Laplacian(), u, ts.Dirichlet(u))


def test_subdomains_see_where_they_are_wrong():
    problem = front(40.0)
    tiling = ts.Tiling(problem.domain, 6)
    solution = on(tiling, problem, features=60, estimate=False)
    found = in_cells(solution)
    x = problem.domain.scatter(20_000, np.random.default_rng(0))
    box, point = tiling.seen(x)
    squares = (solution(x[point]) - np.asarray(problem.exact(x[point]))) ** 2
    true = np.sqrt(np.bincount(box, squares, minlength=36) / len(x))
    worst = set(np.argsort(-true)[:8])
    assert len(worst & set(np.argsort(-found)[:8])) >= 6
    assert 0.1 < np.linalg.norm(found) / np.linalg.norm(true) < 10


def test_slabs_where_a_layer_is_straight_and_boxes_where_it_is_not():
    tiling = ts.Tiling(PLANE, (8, 8))
    column, row = tiling.multi_index.T
    straight = split(tiling, 1.0 * (column == 3), (0,))
    assert straight.subdomains == (9, 8) and not straight.cut
    corner = split(tiling, 1.0 * ((column == 3) & (row == 5)), (0, 1))
    assert corner.subdomains == (8, 8) and corner.count == 64 + 3
    diagonal = split(tiling, 1.0 * (column == row), (0, 1))
    assert diagonal.count == 64 + 3 * 8
    assert split(tiling, np.ones(64), (0, 1)) is None, "everywhere: all boxes stay equal"
    everywhere = split(corner, np.ones(67), (0, 1))
    assert everywhere.count == 4 * 67
    assert split(straight, np.ones(72), (0,)).subdomains == (18, 8)


def test_layers_are_found_at_the_end_where_they_are():
    eps = 1e-4
    outflow = ts.Problem(LINE, ts.Equation(ts.D(x=1) - eps * ts.D(x=2), 1.0), [ts.Dirichlet()])
    ((low, high),) = layers(outflow)
    assert low == 0 and high == pytest.approx(1 / eps)
    assert degrees(outflow) == (20,)
    inflow = ts.Problem(LINE, ts.Equation(-ts.D(x=1) - eps * ts.D(x=2), 1.0), [ts.Dirichlet()])
    assert layers(inflow)[0] == (pytest.approx(1 / eps), 0)
    both = ts.Problem(LINE, ts.Equation(1 - eps**2 * ts.D(x=2), 1.0), [ts.Dirichlet()])
    assert layers(both)[0] == (pytest.approx(1 / eps), pytest.approx(1 / eps))
    waves = ts.Problem(LINE, ts.Equation(ts.D(x=2) + 1e4, 1.0), [ts.Dirichlet()])
    assert layers(waves)[0] == (0, 0) and degrees(waves) == (50,)


@pytest.mark.parametrize("eps", [1e-3, 1e-6])
def test_thin_layers_meet_a_tolerance_with_few_subdomains(eps):
    problem = ts.gallery.get("reaction-diffusion").problem(eps=eps)
    report = ts.solve(problem, tol=1e-6).report
    assert report.stop_reason == "tolerance met" and report.error["l1_normalised"] <= 3e-6
    assert report.columns < 1_000
    widths = first_plan(problem).slabs[0]
    assert min(widths) < 20 * eps < max(widths)


def test_a_tolerance_is_met_by_refining_where_the_solution_is_poor():
    problem = front(100.0)
    solution = ts.solve(problem, tol=1e-4)
    report, tiling = solution.report, solution.basis.decomposition
    assert report.stop_reason == "tolerance met" and report.error["l1_normalised"] <= 3e-4
    assert tiling.cut
    small = tiling.half_widths[:, 0] < tiling.half_widths[:, 0].max()
    r = np.linalg.norm(tiling.centres + 0.05, axis=1)
    assert np.abs(r[small] - 0.7).max() < 0.2, "boxes are cut along the front only"
    local = [step for step in report.refinement if step.count > np.prod(step.subdomains)]
    assert any(0 < step.reused < step.distinct for step in local)
    assert f"{tiling.count} subdomains" in str(report) and "factors reused" in str(report)


def test_a_turning_point_needs_no_layer_at_the_ends():
    eps = 1e-6

    def u(p):
        return special.erf(np.asarray(p)[:, 0] / np.sqrt(2 * eps))

    line = ts.Box(x=(-1, 1))
    operator = eps * ts.D(x=2) + (lambda p: p[:, 0]) * ts.D(x=1)
    problem = ts.Problem(line, ts.Equation(operator), [ts.Dirichlet(u)], exact=u)
    report = ts.solve(problem, tol=1e-5).report
    assert report.stop_reason == "tolerance met" and report.error["l1_normalised"] <= 3e-5
    assert report.columns < 2_000


def test_coefficients_may_be_singular_or_vanish_at_an_end():
    def radial(p):
        return 1 / p[:, 0]

    def bessel(p):
        return special.j0(5 * np.asarray(p)[:, 0])

    line = ts.Box(r=(0, 1))
    operator = ts.D(r=2) + radial * ts.D(r=1) + 25.0
    ends = [ts.Dirichlet(bessel, on="rmax"), ts.Neumann(0.0, on="rmin")]
    report = ts.solve(ts.Problem(line, ts.Equation(operator), ends, exact=bessel), tol=1e-6).report
    assert report.stop_reason == "tolerance met" and report.error["l1_normalised"] <= 3e-6
    degenerate = ts.D(x=2) + (lambda p: np.sin(np.pi * p[:, 0])) * ts.D(x=3)
    problem = ts.Problem(LINE, ts.Equation(degenerate, 1.0), [ts.Dirichlet()])
    assert max(first_plan(problem).subdomains) < 20


def test_both_ends_of_a_symmetric_problem_are_graded_alike():
    square = ts.Box(x=(0, 1), y=(0, 1))
    equation = ts.Equation(1 - 0.004**2 * ts.Laplacian(), 1.0)
    plan = first_plan(ts.Problem(square, equation, [ts.Dirichlet()]))
    for widths in plan.slabs:
        assert list(widths) == list(widths)[::-1] and min(widths) < max(widths)


def test_what_cannot_be_graded_starts_fine():
    square = ts.Box(x=(0, 1), y=(0, 1))
    equation = ts.Equation(1 - 0.003**2 * ts.Laplacian(), 1.0)
    hole = square - ts.Ball(x=0.5, y=0.5, radius=0.2)
    assert min(degrees(ts.Problem(hole, equation, [ts.Dirichlet()]))) > 100
    around = ts.Problem(square, equation, [ts.Periodic("x"), ts.Dirichlet()])
    assert degrees(around)[0] > 100 > degrees(around)[1]


# Data that few points would see


@pytest.mark.parametrize(("width", "place", "tol"), [(1e-4, 0.137, 1e-6), (1e-4, 0.37, 1e-2)])
def test_a_needle_is_not_overlooked(width, place, tol):
    def needle(p):
        return np.exp(-((p[:, 0] - place) ** 2) / (2 * width**2)) / (width * np.sqrt(2 * np.pi))

    problem = ts.Problem(LINE, ts.Equation(-ts.D(x=2), needle), [ts.Dirichlet()])
    solution = ts.solve(problem, tol=tol)
    assert solution.report.stop_reason == "tolerance met"
    x = np.array([[0.05], [0.7], [0.9]])
    green = np.minimum(x[:, 0], place) * (1 - np.maximum(x[:, 0], place))
    np.testing.assert_allclose(solution(x), green, atol=3 * tol * 0.1)


def test_a_sharp_coefficient_is_not_overlooked():
    def a(p):
        return 1 + 99 * (1 + jnp.tanh((p[:, 0] - 0.4123) / 1e-3)) / 2

    equation = ts.Equation(-ts.D(x=1) @ (a * ts.D(x=1)), 1.0)
    solution = ts.solve(ts.Problem(LINE, equation, [ts.Dirichlet()]), tol=1e-4)
    assert solution.report.stop_reason == "tolerance met"
    x = np.linspace(0, 1, 2_000_001)[:-1] + 2.5e-7
    one, own = (np.cumsum(f / np.asarray(a(x[:, None]))) * 5e-7 for f in (1.0, x))
    u = (own[-1] / one[-1]) * one - own
    np.testing.assert_allclose(solution(x[::50_000, None]), u[::50_000], atol=1e-5)


def test_peaked_data_bring_points_of_their_own():
    def spike(p):
        return np.exp(-((p[:, 0] - 0.3) ** 2 + (p[:, 1] - 0.6) ** 2) / 0.01**2)

    square = ts.Box(x=(0, 1), y=(0, 1))
    problem = ts.Problem(square, ts.Equation(ts.Laplacian(), spike), [ts.Dirichlet()])
    inside, boundary = held_out(problem)
    assert inside.shares.sum() == pytest.approx(1) and boundary.shares is None
    assert np.pi * 0.01**2 / 2 == pytest.approx(inside.mean(spike(inside.points) ** 2), rel=0.3)
    smooth = ts.Problem(square, ts.Equation(ts.Laplacian(), lambda p: p[:, 0]), [ts.Dirichlet()])
    assert held_out(smooth)[0].shares is None


def test_a_solution_that_misses_the_data_has_no_small_estimate():
    problem = front(60.0)
    poor = [on(ts.Tiling(problem.domain, 2), problem, features=n, estimate=False) for n in (5, 6)]
    assert judge(*poor).error > 0.3
