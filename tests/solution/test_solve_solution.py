"""Whole solves: each kind of condition, functions in the span, and the solution as a function."""

import dataclasses
import json

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from tessella.overlap.system import assemble

LINE = ts.Box(x=(0, 1))
PLANE = ts.Box(x=(0, 1), y=(0, 1))
X = np.linspace(0, 1, 101)
SMALL = {"subdomains": 4, "features": 8}
CONVERGED = ts.LSQR(atol=1e-15, btol=1e-15)
SOLVERS = {"nested-qr": ts.NestedQR(), "lsqr": CONVERGED}


def g(p):
    return 2 + p[:, 0]


@pytest.mark.parametrize(
    "conditions",
    [
        [ts.Dirichlet(0.0)],
        [ts.Dirichlet(0.0, weight=1e4)],
        [ts.Dirichlet(0.0, on="xmin"), ts.Dirichlet(lambda p: np.sin(np.pi * p[:, 0]), on="xmax")],
        [ts.Dirichlet(0.0, on="xmin"), ts.Neumann(-np.pi, on="xmax")],
        [ts.Neumann(-np.pi)],
        [ts.Robin(3.0, 2.0, -2 * np.pi)],
        [ts.Robin(g, g, lambda p: -np.pi * g(p), on="xmin"), ts.Dirichlet(0.0, on="xmax")],
        [ts.Condition(ts.D(x=1) + 1, np.pi, "xmin"), ts.Dirichlet(0.0, on="xmax")],
    ],
    ids=["dirichlet", "weighted", "two values", "mixed", "neumann", "robin", "variable", "own"],
)
def test_boundary_value_problems_on_a_line(line_problem, conditions):
    """u'' + u' + u = f with u = sin(pi x), which four times eight features know to 1e-6."""
    solution = ts.solve(line_problem(*conditions), **SMALL)
    np.testing.assert_allclose(solution(X), np.sin(np.pi * X), atol=1e-6)


def test_an_initial_value_problem_on_a_line(line_problem):
    line = line_problem()
    problem = ts.Problem(
        ts.Box(t=(0, 1)),
        ts.Equation(ts.D(t=2) + ts.D(t=1) + 1, line.equations[0].rhs),
        [ts.Initial(0.0), ts.InitialVelocity(np.pi)],
    )
    solution = ts.solve(problem, **SMALL)
    np.testing.assert_allclose(solution(X), np.sin(np.pi * X), atol=1e-6)
    assert set(solution.report.residual) == {"equation", "initial value", "initial velocity"}


def test_a_vibrating_string():
    """u_tt = u_xx with u = sin(pi x) cos(pi t) + sin(2 pi x) sin(2 pi t) / (2 pi)."""

    def exact(p):
        x, t = np.pi * p.T
        return np.sin(x) * np.cos(t) + np.sin(2 * x) * np.sin(2 * t) / (2 * np.pi)

    problem = ts.Problem(
        ts.Box(x=(0, 1), t=(0, 1)),
        ts.Equation(ts.D(t=2) - ts.Laplacian()),
        [
            ts.Dirichlet(0.0),
            ts.Initial(lambda p: np.sin(np.pi * p[:, 0])),
            ts.InitialVelocity(lambda p: np.sin(2 * np.pi * p[:, 0])),
        ],
    )
    solution = ts.solve(problem, subdomains=3, features=40)
    points = problem.domain.grid((21, 21))
    np.testing.assert_allclose(solution(points), exact(points), atol=1e-3)


def test_a_variable_coefficient_in_divergence_form():
    """div(a grad u) with a = 1 + x y and u = e^x cos y, so the right side is (y - x tan y) u."""

    def a(p):
        return 1 + p[:, 0] * p[:, 1]

    def exact(p):
        return np.exp(p[:, 0]) * np.cos(p[:, 1])

    problem = ts.Problem(
        PLANE,
        ts.Equation(
            ts.D(x=1) @ (a * ts.D(x=1)) + ts.D(y=1) @ (a * ts.D(y=1)),
            lambda p: (p[:, 1] - p[:, 0] * np.tan(p[:, 1])) * exact(p),
        ),
        [ts.Dirichlet(exact)],
    )
    solution = ts.solve(problem, subdomains=2, features=24)
    points = PLANE.grid((21, 21))
    np.testing.assert_allclose(solution(points), exact(points), atol=1e-5)


def test_more_features_give_more_accuracy(line_problem):
    problem = line_problem(ts.Dirichlet(0.0))
    errors = [
        np.abs(ts.solve(problem, subdomains=4, features=K)(X) - np.sin(np.pi * X)).max()
        for K in (2, 4, 8)
    ]
    assert errors[1] < 0.1 * errors[0]
    assert errors[2] < 0.01 * errors[1]


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_function_in_the_span_is_recovered(combination, solver, seed):
    operator = ts.D(x=2) + ts.D(x=1) + 1
    basis = ts.Basis(ts.Decomposition(LINE, 4), ts.RandomFeatures(5), seed)
    a = np.random.default_rng(seed).standard_normal(basis.columns)
    target = combination(ts.Problem(LINE, ts.Equation(operator)), basis, a)
    problem = ts.Problem(
        LINE, ts.Equation(operator, lambda p: target.apply(operator, p)), [ts.Dirichlet(target)]
    )
    found = ts.solve(problem, basis=basis, sigma=0.0, solver=solver)
    scale = np.abs(target(X)).max()
    np.testing.assert_allclose(found(X), target(X), rtol=0, atol=1e-9 * scale)
    slope = target.apply(ts.D(x=1), X)
    atol = 1e-8 * np.abs(slope).max()
    np.testing.assert_allclose(found.apply(ts.D(x=1), X), slope, rtol=0, atol=atol)


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
@pytest.mark.parametrize("sigma", [1e-6, 1e-3])
def test_the_filtered_solution_is_dense_least_squares_on_the_kept_columns(
    line_problem, solver, sigma
):
    problem = line_problem(ts.Dirichlet(0.0))
    basis = ts.Basis(ts.Decomposition(LINE, 4), ts.RandomFeatures(8), seed=0)
    system = assemble(problem, basis, ts.Grid(2.0).rows(problem, basis))
    kept = ts.RRQR(sigma).apply(system.M).kept
    dense = system.M.to_dense()[:, kept]
    expected = np.zeros(basis.columns)
    expected[kept] = np.linalg.lstsq(dense, system.h, rcond=None)[0]

    found = ts.solve(problem, basis=basis, sigma=sigma, solver=solver)
    assert found.report.columns_kept == len(kept) < basis.columns
    dropped = np.setdiff1d(np.arange(basis.columns), kept)
    assert np.all(found.coefficients[dropped] == 0)
    best = np.linalg.norm(system.M.matvec(expected) - system.h)
    assert np.linalg.norm(system.M.matvec(found.coefficients) - system.h) <= best * (1 + 1e-9)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found.coefficients, expected, rtol=0, atol=1e-6 * scale)


def test_small_problems_are_solved_directly(line_problem):
    report = ts.solve(line_problem(ts.Dirichlet(0.0)), **SMALL).report
    assert (report.solver, report.stop_reason) == ("nested-qr", "solved directly")


def test_without_a_filter_every_feature_is_kept(line_problem):
    problem = line_problem(ts.Dirichlet(0.0))
    basis = ts.Basis(ts.Decomposition(LINE, 4), ts.RandomFeatures(5), seed=0)
    found = ts.solve(problem, basis=basis, filter=ts.Unfiltered(), solver=CONVERGED)
    filtered = ts.solve(problem, basis=basis, sigma=0.0, solver=CONVERGED)
    assert found.report.columns_kept == basis.columns
    assert (found.report.solver, filtered.report.solver) == ("lsqr", "rrqr-lsqr")
    np.testing.assert_allclose(found(X), filtered(X), atol=1e-7)


def test_the_ansatz_survives_the_solve(hard_solution):
    np.testing.assert_array_equal(hard_solution([0.0, 1.0]), 1 + np.sin([0.0, 1.0]))
    assert np.abs(hard_solution.residual(X)).max() < 1e-5


def test_soft_and_hard_conditions_agree(hard_solution):
    soft = ts.Problem(
        LINE,
        ts.Equation(ts.D(x=2) + ts.D(x=1) + 1, 1.0),
        [ts.Dirichlet(lambda p: 1 + np.sin(p[:, 0]))],
    )
    np.testing.assert_allclose(ts.solve(soft, **SMALL)(X), hard_solution(X), atol=1e-7)


def test_the_same_seed_gives_the_same_numbers(line_problem, line_solution):
    problem = line_problem(ts.Dirichlet(0.0))
    same, other = (ts.solve(problem, **SMALL, seed=s, solver=ts.LSQR()) for s in (0, 1))
    np.testing.assert_array_equal(same.coefficients, line_solution.coefficients)
    assert not np.any(other.coefficients == line_solution.coefficients)
    np.testing.assert_allclose(other(X), line_solution(X), atol=1e-7)


@pytest.mark.parametrize("solver", ["auto", "rrqr-lsqr"])
def test_nothing_is_compiled_again_when_only_numbers_change(compilations, solver):
    def solve(seed, number):
        problem = ts.Problem(
            LINE,
            ts.Equation(number * ts.D(x=2) + ts.D(x=1) + 1, lambda p: np.cos(number * p[:, 0])),
            [ts.Dirichlet(number, on="xmin"), ts.Neumann(0.0, on="xmax", weight=number)],
            exact=lambda p: number * p[:, 0],
        )
        solution = ts.solve(problem, **SMALL, sigma=1e-14, seed=seed, solver=solver)
        solution.apply(ts.D(x=1), X)
        return solution

    assert solve(0, 1.0).report.columns_kept == 36
    before = compilations()
    second = solve(1, 1.5)
    assert second.report.columns_kept == 36
    assert compilations() == before
    assert second.report.seconds["compile"] == 0


def test_interrupting_a_solve_keeps_the_solution_so_far(line_problem):
    def interrupt(done, limit, residual):
        raise KeyboardInterrupt

    problem = line_problem(ts.Dirichlet(0.0))
    solution = ts.solve(problem, **SMALL, solver=ts.LSQR(), progress=interrupt)
    assert solution.report.stop_reason == "interrupted"
    assert np.all(np.isfinite(solution(X)))


def test_values_are_the_identity_applied(line_solution):
    np.testing.assert_array_equal(line_solution(X), line_solution.apply(ts.Identity(), X))


def test_operators_apply_to_the_solution(line_solution, hard_solution):
    for solution in (line_solution, hard_solution):
        inside, h = X[5:-5], 1e-4
        near = [solution(inside + k * h) for k in (-2, -1, 1, 2)]
        slope = (near[0] - 8 * near[1] + 8 * near[2] - near[3]) / (12 * h)
        np.testing.assert_allclose(solution.apply(ts.D(x=1), inside), slope, atol=1e-8)
        combined = solution.apply(3 * ts.D(x=1) + 2, inside)
        np.testing.assert_allclose(combined, 3 * slope + 2 * solution(inside), atol=1e-7)

        def coefficient(p):
            return jnp.sin(p[:, 0])

        product = solution.apply(ts.D(x=1) @ coefficient, inside)
        expected = np.sin(inside) * slope + np.cos(inside) * solution(inside)
        np.testing.assert_allclose(product, expected, atol=1e-7)


def test_many_points_are_evaluated_like_few(line_solution, rng):
    x = rng.uniform(0, 1, 30_000)
    values = line_solution(x)
    np.testing.assert_allclose(line_solution(x[:50]), values[:50], rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(line_solution(x[-50:]), values[-50:], rtol=1e-13, atol=1e-14)


def test_any_shape_of_points_that_makes_sense(line_solution):
    assert line_solution(0.5).shape == (1,)
    assert line_solution([[0.5], [0.6]]).shape == (2,)
    assert line_solution(np.zeros((0, 1))).shape == (0,)


def test_points_outside_the_domain_are_refused(line_solution):
    with pytest.raises(ValueError, match=r"2 of 3 points lie outside Box\(.*first at \(1\.5\)"):
        line_solution([0.5, 1.5, -1.0])
    with pytest.raises(ValueError, match="NaN"):
        line_solution([np.nan])


def test_a_normal_derivative_needs_a_boundary(line_solution):
    with pytest.raises(ValueError, match="needs a boundary normal"):
        line_solution.apply(ts.NormalDerivative(), X)


def test_the_residual_of_a_system_has_a_column_for_every_equation():
    u, v = ts.Field("u"), ts.Field("v")
    problem = ts.Problem(
        ts.Box(x=(0, 1)),
        [ts.Equation(ts.D(x=1) @ u - v), ts.Equation(ts.D(x=1) @ v + u, 1.0)],
        [ts.Dirichlet(1.0, on="xmin", of=u), ts.Dirichlet(0.0, on="xmin", of=v)],
    )
    solution = ts.solve(problem, subdomains=2, features=8, solver=ts.LSQR())
    x = np.linspace(0, 1, 5)
    slopes = [solution.apply(ts.D(x=1) @ field, x) for field in (u, v)]
    values = solution(x)
    expected = np.stack([slopes[0] - values[:, 1], slopes[1] + values[:, 0] - 1], axis=1)
    np.testing.assert_allclose(solution.residual(x), expected, atol=1e-12)


def test_the_residual_of_regions_is_that_of_the_equation_that_holds():
    problem = ts.Problem(
        ts.Divided(ts.Box(x=(0, 1)), left=ts.Box(x=(0, 0.5))),
        [ts.Equation(2 * ts.D(x=2), 1.0, where="left"), ts.Equation(ts.D(x=2), where="rest")],
        [ts.Dirichlet(), *ts.Transmission("left", "rest", flux=(2.0, 1.0))],
    )
    solution = ts.solve(problem, subdomains=2, features=8, solver=ts.LSQR())
    x = np.array([0.2, 0.4, 0.7])
    bend = solution.apply(ts.D(x=2), x)
    np.testing.assert_allclose(solution.residual(x), bend * [2, 2, 1] - [1, 1, 0], atol=1e-12)


def test_the_residual_is_that_of_the_equation(line_solution):
    operator = ts.D(x=2) + ts.D(x=1) + 1
    rhs = line_solution.problem.equations[0].rhs(X[:, None])
    expected = line_solution.apply(operator, X) - rhs
    np.testing.assert_allclose(line_solution.residual(X), expected, atol=1e-12)


def test_errors_are_those_of_the_paper(square_solution):
    points = PLANE.grid((13, 13))
    exact = square_solution.problem.exact(points)
    difference = square_solution(points) - exact
    errors = square_solution.errors(points)
    assert errors["l1_normalised"] == pytest.approx(np.abs(difference).mean() / exact.std())
    norms = np.linalg.norm(difference) / np.linalg.norm(exact)
    assert errors["l2_relative"] == pytest.approx(norms)
    assert errors["max"] == pytest.approx(np.abs(difference).max())
    assert square_solution.report.error == square_solution.errors()


def test_without_an_exact_solution_errors_are_null(line_solution):
    report = line_solution.report
    assert report.error is None
    assert report.error_oracle_minimum is None
    assert report.error_at_stopping_rule is None
    assert "no exact solution" in str(line_solution)
    with pytest.raises(ValueError, match="'line' has no exact solution"):
        line_solution.errors()


def test_the_test_grid_is_where_the_error_is_measured(line_problem):
    problem = line_problem(ts.Dirichlet(0.0), exact=lambda p: np.sin(np.pi * p[:, 0]))
    coarse, default = (
        ts.solve(problem, **SMALL, test_grid=grid) for grid in (ts.Grid(points_per_axis=3), None)
    )
    assert coarse.report.error == coarse.errors([0.0, 0.5, 1.0])
    assert default.report.error == default.errors(np.linspace(0, 1, 1000))
    np.testing.assert_array_equal(coarse.coefficients, default.coefficients)


def test_the_report_has_the_sizes_and_the_history(square_solution):
    report, history = square_solution.report, square_solution.history
    assert report.columns == 4 * 25
    assert report.rows == len(square_solution.problem.domain.grid((15, 15))) + 4 * 15
    assert report.dropped_percent == pytest.approx(100 * (1 - report.columns_kept / 100))
    assert report.iterations == len(history.residual) == len(history.error)
    assert report.error_oracle_minimum == np.nanmin(history.error)
    assert report.solver == "rrqr-lsqr"
    assert set(report.residual) == set(report.weights) == {"equation", "dirichlet"}
    assert report.peak_memory_mib > 0
    assert report.seconds["total"] >= max(report.seconds["assemble"], report.seconds["solve"])


def test_residuals_are_in_the_units_of_their_equation(square_solution):
    points = PLANE.grid((15, 15))
    rms = np.sqrt(np.mean(square_solution.residual(points) ** 2))
    assert square_solution.report.residual["equation"] == pytest.approx(rms, rel=1e-6)


def test_condition_numbers_on_request(line_problem, line_solution):
    assert set(line_solution.report.condition.values()) == {None}
    problem = line_problem(ts.Dirichlet(0.0))
    condition = ts.solve(problem, **SMALL, condition=True).report.condition
    assert condition["M"] >= condition["M_hat"] > condition["preconditioned"] > 1
    basis = ts.Basis(ts.Decomposition(LINE, 4), ts.RandomFeatures(8), seed=0)
    system = assemble(problem, basis, ts.Grid(2.0).rows(problem, basis))
    filtered = ts.RRQR(1e-10).apply(system.M)
    expected = np.linalg.cond(filtered.Q.to_dense()[:, filtered.kept])
    assert condition["preconditioned"] == pytest.approx(expected, rel=1e-6)


def test_printing_tells_what_happened(square_solution):
    text = str(square_solution)
    assert text.startswith("square\n")
    for words in (
        f"{square_solution.report.rows:,} rows x 100 columns",
        "features kept",
        "rrqr-lsqr, ",
        square_solution.report.stop_reason,
        "residual, equation",
        "residual, dirichlet",
        "normalised L1",
        "oracle minimum",
        "peak memory",
    ):
        assert words in text
    assert repr(square_solution) == "<Solution of 'square': 100 coefficients>"


def test_the_report_is_plain_json(square_solution):
    figures = square_solution.report.to_json()
    assert json.loads(json.dumps(figures, allow_nan=False)) == figures


def test_a_bad_exact_solution_is_refused_before_the_solve(line_problem, monkeypatch):
    problem = dataclasses.replace(line_problem(ts.Dirichlet(0.0)), exact=lambda p: p)
    monkeypatch.setattr(ts.NestedQR, "init", None)
    with pytest.raises(ValueError, match=r"the exact solution.* returned shape"):
        ts.solve(problem, **SMALL, solver="nested-qr")
