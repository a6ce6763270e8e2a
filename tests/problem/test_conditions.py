"""Measurements, integrals and absorbing walls, in both couplings."""

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from tessella.accuracy.defects import defects, loss
from tessella.accuracy.held_out import held_out
from tessella.cells.factoring import factor_cells
from tessella.cells.system.system import cell_system
from tessella.linalg.partial_sums import FANOUT, add_dense_rows, partial_sums
from tessella.linalg.solvers import by_name
from tessella.overlap.points import Rows
from tessella.overlap.quadrature import quadrature
from tessella.overlap.system import assemble

COUPLINGS = pytest.mark.parametrize("coupling", ["overlap", "interfaces"])
PI = np.pi
LINE = ts.Box(x=(0, 1))
SQUARE = ts.Box(x=(0, 1), y=(0, 1))


def solved(problem, coupling="interfaces", subdomains=2, features=16, **more):
    return ts.solve(
        problem,
        subdomains=subdomains,
        features=features,
        coupling=coupling,
        estimate=False,
        **more,
    )


# --- measurements


def smooth(x):
    return np.exp(x[:, 0]) * np.sin(2 * x[:, 1])


@COUPLINGS
def test_measurements_replace_a_wall(coupling):
    """Nothing is known at xmax, but a few dozen values inside are."""
    points = np.random.default_rng(0).random((60, 2))
    problem = ts.Problem(
        SQUARE,
        ts.Equation(ts.Laplacian(), lambda x: -3 * smooth(x)),
        [
            ts.Dirichlet(smooth, on=("xmin", "ymin", "ymax")),
            ts.Measured(points, smooth(points)),
        ],
        exact=smooth,
    )
    solution = solved(problem, coupling, features=80)
    assert solution.report.error["l2_relative"] < 1e-6
    assert solution.report.residual["data"] < 1e-7
    alone = ts.Problem(problem.domain, problem.equations, problem.conditions[:1], exact=smooth)
    assert solved(alone, coupling, features=80).report.error["l2_relative"] > 1e-4


@COUPLINGS
def test_contradicting_measurements_are_averaged(coupling):
    """u' = 0 leaves a constant; measurements too light to bend it give their mean."""
    data = ts.Measured([0.3, 0.3, 0.9], [1.0, 2.0, 6.0], weight=1e-8)
    solution = solved(ts.Problem(LINE, ts.Equation(ts.D(x=1)), [data]), coupling)
    assert np.allclose(solution([0.0, 0.5, 1.0]), 3.0, atol=1e-6)
    assert solution.report.residual["data"] == pytest.approx(np.std([1.0, 2.0, 6.0]), rel=1e-6)


@COUPLINGS
def test_an_operator_can_be_measured_and_weighed(coupling):
    """u'' = 0: a slope here and a value there; a heavy measurement beats a light one."""
    problem = ts.Problem(
        LINE,
        ts.Equation(ts.D(x=2)),
        [
            ts.Measured([0.2], [3.0], ts.D(x=1), name="slope"),
            ts.Measured([0.8], [1.0], weight=1e8),
            ts.Measured([0.8], [2.0], weight=1.0),
        ],
    )
    solution = solved(problem, coupling)
    assert np.allclose(solution([0.0, 1.0]), [1 - 2.4, 1 + 0.6], atol=1e-6)
    assert set(solution.report.residual) == {"equation", "slope", "data 1", "data 2"}
    assert solution.report.weights["data 1"] == 1e8


def test_measurements_on_a_seam_belong_to_one_subdomain():
    problem = ts.Problem(
        LINE, ts.Equation(ts.D(x=1)), [ts.Periodic("x"), ts.Measured([0.0, 1.0, 0.5], [1, 3, 2])]
    )
    for coupling in ("overlap", "interfaces"):
        assert np.allclose(solved(problem, coupling)([0.1, 1.0]), 2.0, atol=1e-9)


def test_tol_accepts_measurements_as_the_only_condition():
    points = np.linspace(0, 1, 5)
    problem = ts.Problem(
        LINE,
        ts.Equation(ts.D(x=2) + 4.0),
        [ts.Measured(points, np.sin(2 * points))],
        exact=lambda x: np.sin(2 * x[:, 0]),
    )
    solution = ts.solve(problem, tol=1e-8)
    assert solution.report.stop_reason == "tolerance met"
    assert solution.report.error["l1_normalised"] < 1e-7


def test_only_subdomains_with_measurements_are_special():
    problem = ts.Problem(LINE, ts.Equation(ts.D(x=2)), [ts.Dirichlet(), ts.Measured([0.45], [0.0])])
    basis = ts.CellBasis(ts.Tiling(LINE, 8), ts.RandomFeatures(6))
    plain = ts.Problem(LINE, problem.equations, problem.conditions[:1])
    with_data, without = (
        factor_cells(cell_system(p, basis, ts.Grid(2.0)), ts.RRQR(1e-14), None)
        for p in (problem, plain)
    )
    assert len(with_data.kinds) == len(without.kinds) + 1
    assert with_data.system.rows == without.system.rows + 1


# --- integrals


def cosines(x):
    return np.cos(PI * x[:, 0]) * np.cos(2 * PI * x[:, 1])


def neumann_problem(*conditions):
    return ts.Problem(
        SQUARE,
        ts.Equation(-ts.Laplacian(), lambda x: 5 * PI**2 * cosines(x)),
        [ts.Neumann(), *conditions],
        exact=cosines,
    )


@COUPLINGS
def test_pure_neumann_with_mean_zero(coupling):
    problem = neumann_problem(ts.MeanZero())
    solution = solved(problem, coupling, subdomains=3, features=100)
    assert solution.report.error["l2_relative"] < 1e-8
    assert abs(solution.integral()) < 1e-11
    assert solution.report.residual["mean zero"] < 1e-11
    assert len(solution.coefficients) == solution.basis.columns == solution.report.columns
    assert solution.report.columns_kept <= solution.report.columns


def test_tol_solves_pure_neumann_only_with_an_integral():
    with pytest.raises(ValueError, match=r"up to a constant.*MeanZero\(\)"):
        ts.solve(neumann_problem(), tol=1e-6)
    with pytest.raises(ValueError, match="up to a constant"):
        ts.solve(neumann_problem(ts.Integral(0.0, of=ts.D(x=1))), tol=1e-6)
    solution = ts.solve(neumann_problem(ts.MeanZero()), tol=1e-6)
    assert solution.report.stop_reason == "tolerance met"
    assert solution.report.error["l1_normalised"] < 1e-5


@COUPLINGS
def test_several_integrals_determine_what_the_equation_leaves_open(coupling):
    """u'' = 0 with u = 1 + 2x from its mean and its first moment: two integrals, no walls."""
    problem = ts.Problem(
        LINE,
        ts.Equation(ts.D(x=2)),
        [ts.Integral(2.0), ts.Integral(0.5 + 2 / 3, of=(lambda x: x[:, 0]) * ts.Identity())],
        exact=lambda x: 1 + 2 * x[:, 0],
    )
    solution = solved(problem, coupling, subdomains=7)
    assert solution.report.error["max"] < 1e-9
    assert solution.integral(ts.D(x=1)) == pytest.approx(2.0, abs=1e-9)
    assert {"integral 1", "integral 2"} < set(solution.report.residual)


@COUPLINGS
def test_an_integral_counts_the_ansatz(coupling):
    """u = 3 + v with u' = 0 and integral 5."""
    problem = ts.Problem(
        LINE, ts.Equation(ts.D(x=1)), [ts.Integral(5.0)], ansatz=ts.Ansatz(offset=3.0)
    )
    assert np.allclose(solved(problem, coupling)([0.0, 1.0]), 5.0, atol=1e-10)


def test_direct_and_iterative_solvers_agree_on_an_integral():
    problem = ts.Problem(
        LINE,
        ts.Equation(ts.D(x=2), lambda x: -(PI**2) * np.cos(PI * x[:, 0])),
        [ts.Neumann(), ts.MeanZero()],
    )
    x, found = np.linspace(0, 1, 40), []
    for name in ("nested-qr", "rrqr-lsqr", "rrqr-lsmr"):
        rule, solver = by_name(name, 1e-5)
        solution = solved(problem, "overlap", 6, 10, filter=rule, solver=solver)
        found.append(solution(x))
    assert np.allclose(found[0], np.cos(PI * x), atol=1e-3)
    assert np.allclose(found[1], found[0], atol=1e-6)
    assert np.allclose(found[2], found[0], atol=1e-6)


@COUPLINGS
def test_unknowns_of_a_system_have_integrals_and_measurements(coupling):
    """u' = p, p' = f: the mean of p and one value of u, p = cos(pi x)."""
    u, p = ts.Field("u"), ts.Field("p")
    problem = ts.Problem(
        LINE,
        [
            ts.Equation(ts.D(x=1) @ u - p),
            ts.Equation(ts.D(x=1) @ p, lambda x: -PI * np.sin(PI * x[:, 0])),
        ],
        [ts.Measured([0.25], [np.sin(PI / 4) / PI], operator=u), ts.MeanZero(of=p)],
        exact={"u": lambda x: np.sin(PI * x[:, 0]) / PI, "p": lambda x: np.cos(PI * x[:, 0])},
    )
    solution = solved(problem, coupling, subdomains=3)
    assert solution.report.error["max"] < 1e-6
    assert abs(solution.integral(p)) < 1e-11
    assert "mean zero of p" in solution.report.residual


@COUPLINGS
def test_condition_numbers_count_the_partial_sums(coupling):
    problem = ts.Problem(LINE, ts.Equation(ts.D(x=1)), [ts.Integral(1.0)])
    solution = solved(problem, coupling, features=4, condition=True)
    assert all(1 <= value < 1e20 for value in solution.report.condition.values())


def test_an_incompatible_integral_shows_in_its_residual():
    """u = 0 by the equation, integral 1: a small weight gives way, and says so; side by side the
    equation decides alone, because it leaves nothing open."""
    problem = ts.Problem(LINE, ts.Equation(ts.Identity()), [ts.Integral(1.0, weight=1e-6)])
    # Least squares of mean u^2 + 1e-6 (integral - 1)^2; a grid's mean is not the integral.
    for coupling, expected in (("overlap", 1e-6 / (1 + 1e-6)), ("interfaces", 0.0)):
        solution = solved(problem, coupling)
        assert solution.integral() == pytest.approx(expected, rel=0.05, abs=1e-15)
        assert solution.report.residual["integral"] == pytest.approx(1.0, rel=1e-5)


def test_what_integrals_determine_cannot_be_iterated_side_by_side():
    with pytest.raises(ValueError, match="merging"):
        solved(neumann_problem(ts.MeanZero()), features=40, solver="exchange")


def test_partial_sums_are_the_dense_row_they_stand_for(column_blocks, rng):
    """Least squares with the tree equals least squares with the row itself, at weight s^2 / n."""
    dense, q, b = rng.standard_normal((40, 12)), rng.standard_normal(12), rng.standard_normal(40)
    M = column_blocks(dense, 6)
    n, value, scale = partial_sums(np.arange(6.0)[:, None]).rows, 3.0, 2.0
    bordered = add_dense_rows(M, [q, -q], [scale, scale])
    h = np.zeros(bordered.shape[0])
    h[:40], h[40 + n - 1], h[-1] = b, scale * value, -scale * value
    with_tree = np.linalg.lstsq(bordered.to_dense(), h)[0][:12]
    weight = scale / np.sqrt(n)
    rows = np.vstack([dense, weight * q, weight * q])
    with_row = np.linalg.lstsq(rows, np.concatenate([b, [weight * value] * 2]))[0]
    assert np.allclose(with_tree, with_row, atol=1e-12)


@pytest.mark.parametrize("count", [1, 3, 4, 5, 64, 100])
def test_partial_sums_add_every_number_once_with_few_terms(count, rng):
    tree = partial_sums(rng.random((count, 2)))
    assert tree.parent[-1] == -1
    assert np.all(tree.parent[:-1] > np.arange(tree.rows - 1))
    assert np.bincount(tree.parent[:-1]).max() <= FANOUT
    reached = np.arange(count)
    for _ in range(2 * int(np.log2(count)) + 2):
        reached = np.where(reached == tree.rows - 1, reached, tree.parent[reached])
    assert np.all(reached == tree.rows - 1)


def test_an_integral_leaves_the_direct_solver_its_separators():
    """The largest front grows by a few sums, where a dense row would fill it with all columns."""
    basis = ts.Basis(ts.Decomposition(SQUARE, 10), ts.RandomFeatures(8))
    sizes = []
    for conditions in ([ts.Neumann()], [ts.Neumann(), ts.MeanZero()]):
        problem = ts.Problem(SQUARE, ts.Equation(ts.Laplacian()), conditions)
        system = assemble(problem, basis, ts.Grid(2.0).rows(problem, basis))
        sizes.append(ts.NestedQR().analyse(system.M).largest)
    assert sizes[1] < 1.3 * sizes[0] < 0.6 * basis.columns


@pytest.mark.parametrize("overlap", [1.5, 2.0, 2.9])
def test_quadrature_is_exact_for_the_windows(overlap):
    """The windows add up to one and integrate to it, wherever they begin and end."""
    for domain in (ts.Box(x=(-1, 2)), ts.Box(x=(-1, 2)).closed("x")):
        basis = ts.Basis(ts.Decomposition(domain, 4, overlap), ts.RandomFeatures(3))
        points, weights = quadrature(basis)
        assert weights.sum() == pytest.approx(3.0, rel=1e-14)
        assert weights @ points[:, 0] ** 2 == pytest.approx(3.0, rel=1e-13)
        finer = ts.Basis(basis.decomposition, ts.RandomFeatures(60))
        problem = ts.Problem(domain, ts.Equation(ts.Identity()), [ts.Integral(1.0)])
        rows = [
            Rows(problem.conditions[0], *quadrature(b)[:1], measure=quadrature(b)[1])
            for b in (basis, finer)
        ]
        equation = ts.Grid(4.0).rows(problem, basis)[0]
        ours, exact = (assemble(problem, basis, [equation, r]).totals[0].row for r in rows)
        assert np.allclose(ours, exact, rtol=0, atol=1e-11)


# --- absorbing walls


def test_an_outgoing_pulse_leaves():
    def pulse(x):
        return np.exp(-(((x[:, 0] - 0.5) / 0.1) ** 2))

    problem = ts.Problem(
        ts.Box(x=(0, 1), t=(0, 1.2)),
        ts.Equation(ts.D(t=2) - ts.D(x=2)),
        [ts.Initial(pulse), ts.InitialVelocity(), ts.Absorbing(1.0)],
    )
    solution = solved(problem, subdomains=(5, 6), features=150)
    x = np.linspace(0, 1, 101)
    left = solution(np.stack([x, np.full_like(x, 1.2)], axis=1))
    assert np.max(np.abs(left)) < 1e-6
    assert solution.report.residual["absorbing"] < 1e-4


def test_a_wall_absorbs_at_the_speed_it_is_told():
    """u = f(x - 2t) satisfies the condition at speed 2 exactly, for a number and a function."""

    def exact(x):
        return np.sin(x[:, 0] - 2 * x[:, 1])

    for speed in (2.0, lambda x: 2.0 + 0 * x[:, 0]):
        condition = ts.Absorbing(speed, on="xmax", name="open end")
        problem = ts.Problem(
            ts.Box(x=(0, 1), t=(0, 0.5)),
            ts.Equation(ts.D(t=2) - 4 * ts.D(x=2)),
            [
                ts.Initial(exact),
                ts.InitialVelocity(lambda x: -2 * np.cos(x[:, 0])),
                ts.Dirichlet(exact, on="xmin"),
                condition,
            ],
            exact=exact,
        )
        solution = solved(problem, subdomains=2, features=40)
        assert solution.report.error["l2_relative"] < 1e-4
        assert "open end" in solution.report.residual


# --- all of them


def test_held_out_rows_know_every_condition():
    points = np.array([[0.25, 0.5]])
    problem = neumann_problem(ts.MeanZero(), ts.Measured(points, cosines(points)))
    rows = {part.source.name: part for part in held_out(problem)}
    assert np.array_equal(rows["data"].points, points)
    assert rows["mean zero"].measure.sum() == pytest.approx(1.0)
    solution = solved(problem, features=40)
    weights = dict.fromkeys(rows, 0.0) | {"mean zero": 1.0}
    assert loss(defects(solution, list(rows.values())), weights) == pytest.approx(
        abs(solution.integral()), abs=1e-15
    )
    weights |= {"mean zero": 0.0, "data": 4.0}
    defect = abs(float(solution(points)[0] - cosines(points)[0]))
    assert loss(defects(solution, list(rows.values())), weights) == pytest.approx(2 * defect)


def test_networks_take_measurements_and_refuse_integrals():
    problem = ts.Problem(LINE, ts.Equation(ts.D(x=1)), [ts.Measured([0.5], [1.0])])
    solution = ts.fbpinn(problem, subdomains=2, hidden=4, training=ts.Training(steps=1))
    missed = abs(float(solution(0.5)[0]) - 1.0)
    assert solution.report.residual["data"] == pytest.approx(missed)
    problem = ts.Problem(LINE, ts.Equation(ts.D(x=1)), [ts.MeanZero()])
    with pytest.raises(ValueError, match=r"pinn trains on points .* 'mean zero'.*use solve"):
        ts.pinn(problem)
    with pytest.raises(ValueError, match="fbpinn trains on points"):
        ts.fbpinn(problem, subdomains=2, hidden=4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ts.Measured([], []), "data needs a list of measured values.*shape \\(0,\\)"),
        (lambda: ts.Measured([0.1], 3.0), "data needs a list of measured values"),
        (lambda: ts.Measured([0.1, 0.2], [1.0]), r"data has 1 values for points of shape \(2,\)"),
        (lambda: ts.Measured([[0.1]], [np.nan]), "data values contain NaN.*leave those"),
        (lambda: ts.Measured([np.inf], [1.0], name="gauge"), "gauge points contain NaN"),
        (lambda: ts.Measured([0.1], [1.0], weight=-1), "data weight must be a positive number"),
        (lambda: ts.Measured([0.1], [1.0], operator="u"), "data operator must be built from D"),
        (lambda: ts.Integral(np.sin), "integral value must be a number"),
        (lambda: ts.Integral(1.0, of="u"), "integral operator must be built from D"),
        (lambda: ts.MeanZero(weight=0), "mean zero weight must be a positive number"),
        (lambda: ts.Absorbing(0.0), "absorbing speed must be positive, got 0.0"),
        (lambda: ts.Absorbing("fast"), "multiplied by a number or a function"),
    ],
)
def test_refusals_of_conditions(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (ts.Measured([[0.1]], [1.0]), r"data has points of shape \(1, 1\).*the axes x, y"),
        (ts.Measured([[0.1, 2.0]], [1.0]), r"1 of 1 points outside .* at \(0.1, 2\): leave them"),
        (ts.Absorbing(), r"absorbing lets waves out .* no axis 't': add one, e.g. t=\(0, 1\)"),
        (ts.Measured([[0.1, 0.2]], [1.0], ts.D(z=1)), "uses the axis 'z'"),
        (
            ts.Measured([[0.1, 0.2]], [1.0], 2 * ts.NormalDerivative()),
            r"data measures a normal derivative, .*no normal: .*D\(x=1\)",
        ),
    ],
)
def test_refusals_of_problems(condition, message):
    with pytest.raises(ValueError, match=message):
        ts.Problem(SQUARE, ts.Equation(ts.Laplacian()), [condition])


def test_shapes_take_measurements_and_integrals():
    disc = ts.Ball(x=0, y=0, radius=1)
    equation = ts.Equation(ts.Laplacian())
    problem = ts.Problem(disc, equation, [ts.Dirichlet(), ts.Measured([[0.5, 0.5]], [0.0])])
    with pytest.raises(ValueError, match="1 of 1 points outside Ball"):
        ts.Problem(disc, equation, [ts.Measured([[0.9, 0.9]], [0.0])])
    solution = ts.solve(problem, subdomains=2, features=8, estimate=False)
    assert "data" in solution.report.residual
    with pytest.raises(ValueError, match=r"integrate over a Box, .*Ball.*coupling='interfaces'"):
        solution.integral()

    def saddle(x):
        return x[:, 0] ** 2 - x[:, 1] ** 2

    conditions = [ts.Neumann(lambda x: 2 * saddle(x)), ts.Integral(PI)]
    problem = ts.Problem(disc, equation, conditions, exact=lambda x: 1 + saddle(x))
    solution = solved(problem, subdomains=3, features=60)
    assert solution.report.error["l2_relative"] < 1e-5
    assert solution.integral() == pytest.approx(PI, abs=1e-6)


def test_time_has_no_absorbing_ends():
    with pytest.raises(ValueError, match="absorbing lies on 'tmax', where time begins or ends"):
        ts.Problem(
            ts.Box(x=(0, 1), t=(0, 1)), ts.Equation(ts.D(t=1)), [ts.Absorbing(on=("xmin", "tmax"))]
        )


@COUPLINGS
def test_an_integral_that_is_always_zero_is_refused(coupling):
    zero = (lambda x: 0.0 * x[:, 0]) * ts.Identity()
    problem = ts.Problem(LINE, ts.Equation(ts.D(x=1)), [ts.Integral(1.0, of=zero)])
    with pytest.raises(ValueError, match="'integral' is zero whatever the solution is: drop it"):
        solved(problem, coupling)


def test_readings_know_their_own_points_only():
    value = ts.Measured([0.5], [1.0]).value
    with pytest.raises(ValueError, match="known at their own points only"):
        value(jnp.array([[0.4]]))
