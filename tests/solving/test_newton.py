"""Newton's method: rates, order, globalisation, starts, and what is said when it fails."""

import dataclasses
import json
import math
from itertools import pairwise

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq

import tessella as ts
from tessella.problem.tangents import NotDifferentiableError
from tessella.solution.report import Correction
from tessella.solving.nonlinear.newton import FOUND, GIVEN_UP

LINE = ts.Box(x=(0, 1))
CELLS = {"subdomains": 4, "features": 24, "coupling": "interfaces", "estimate": False}
X = np.linspace(0, 1, 41)
PI = math.pi


def sine(x):
    return jnp.sin(PI * x[:, 0])


def cubic(**rest):
    """-u'' + u^3 = f with u = sin(pi x)."""
    rhs = lambda x: PI**2 * sine(x) + sine(x) ** 3  # noqa: E731
    equation = ts.Equation(lambda d, x: -d(x=2) + d() ** 3, rhs)
    given = {"conditions": [ts.Dirichlet(0.0)], "exact": sine} | rest
    return ts.Problem(LINE, equation, **given)


def bratu(lam):
    equation = ts.Equation(lambda d, x: -d(x=2) - lam * jnp.exp(d()))
    return ts.Problem(LINE, equation, [ts.Dirichlet(0.0)])


def bratu_middle(lam, near):
    """u(1/2) of -u'' = lam e^u, where u = 2 log(cosh(c) / cosh(c (1 - 2 x))), cosh c = c k."""
    k = math.sqrt(8 / lam)
    c = brentq(lambda c: math.cosh(c) - k * c, *near)
    return 2 * math.log(math.cosh(c))


def orders(report):
    """log t / log s of every correction s with new factors and the one after it, until rounding."""
    return [
        math.log(after.size) / math.log(step.size)
        for step, after in pairwise(report.newton)
        if step.kind == "newton" and step.size < 0.5 and after.size > 1e-13
    ]


# Accuracy


@pytest.mark.parametrize("coupling", ["interfaces", "overlap"])
def test_the_error_falls_with_the_features_like_that_of_a_linear_problem(coupling):
    choices = {"subdomains": 4, "coupling": coupling, "estimate": False}
    errors = [
        ts.solve(cubic(), features=n, **choices).report.error["l2_relative"] for n in (6, 12, 20)
    ]
    assert errors[1] < 1e-2 * errors[0]
    assert errors[2] < 1e-2 * errors[1] or errors[2] < 1e-12


def test_a_linear_problem_as_a_function_has_the_linear_solution():
    rhs, conditions = (lambda x: jnp.exp(x[:, 0])), [ts.Dirichlet(1.0)]
    written = ts.Equation(lambda d, x: -d(x=2) + x[:, 0] * d(), rhs)
    algebra = ts.Equation(-ts.D(x=2) + (lambda x: x[:, 0]) * ts.Identity(), rhs)
    one, other = (ts.solve(ts.Problem(LINE, e, conditions), **CELLS) for e in (written, algebra))
    assert not one.report.newton
    np.testing.assert_allclose(one.coefficients, other.coefficients, rtol=1e-12, atol=1e-13)


def test_mixed_algebra_gives_the_solution_of_the_function():
    mixed = -ts.Laplacian() + ts.operator(lambda d, x: d() ** 3)
    whole = cubic()
    problem = ts.Problem(LINE, ts.Equation(mixed, whole.equations[0].rhs), [ts.Dirichlet(0.0)])
    one, other = (ts.solve(own, **CELLS) for own in (problem, whole))
    np.testing.assert_allclose(one(X), other(X), atol=1e-12)


def test_a_system_of_two_unknowns():
    def u(x):
        return jnp.sin(x[:, 0])

    def v(x):
        return jnp.exp(x[:, 0])

    equations = [
        ts.Equation(
            lambda d, x: -d("u", x=2) + d("v") * d("u", x=1),
            lambda x: u(x) + v(x) * jnp.cos(x[:, 0]),
            name="one",
        ),
        ts.Equation(
            lambda d, x: -d("v", x=2) + d("u") * d("v"), lambda x: -v(x) + u(x) * v(x), name="two"
        ),
    ]
    conditions = [ts.Condition(ts.Field("u"), u), ts.Condition(ts.Field("v"), v)]
    problem = ts.Problem(LINE, equations, conditions, exact={"u": u, "v": v})
    found = ts.solve(problem, start={"v": 1.0}, **CELLS).report
    assert found.stop_reason == FOUND and found.error["max"] < 1e-11
    assert min(orders(found)) > 1.9


RADIATION = {
    "inside": lambda d, x: (1 + d()) * d(n=1) + d() ** 4,
    "in front": ts.Normal("x") @ ts.operator(lambda d, x: (1 + d()) * d(x=1))
    + ts.operator(lambda d, x: d() ** 4),
}


@pytest.mark.parametrize(
    ("coupling", "normal"), [("interfaces", "inside"), ("overlap", "in front")]
)
def test_a_radiating_end(coupling, normal):
    """(k u')' = 0 with k = 1 + u, u(0) = 1, k u_n + u^4 = 0 at 1: u + u^2 / 2 = 3 / 2 - a x, with
    a = u(1)^4."""
    end = brentq(lambda u: u + u**2 / 2 - 1.5 + u**4, 0, 1)
    flux = ts.D(x=1) @ ts.operator(lambda d, x: (1 + d()) * d(x=1))
    radiation = ts.Condition(RADIATION[normal], 0.0, on="xmax")
    problem = ts.Problem(LINE, ts.Equation(flux), [ts.Dirichlet(1.0, on="xmin"), radiation])
    found = ts.solve(problem, start=1.0, **CELLS | {"coupling": coupling})
    np.testing.assert_allclose(found(X), np.sqrt(4 - 2 * end**4 * X) - 1, atol=1e-9)


def test_a_radiating_rim():
    """-div(k grad u) = 4 on the unit disc, k = 1 + u, k u_n + u^4 = g: u + u^2 / 2 = 3 - r^2."""

    def exact(x):
        return jnp.sqrt(1 + 2 * (3 - jnp.sum(x**2, axis=1))) - 1

    flux = {a: ts.operator(lambda d, x, a=a: (1 + d()) * d(**{a: 1})) for a in "xy"}
    rim = ts.Condition(
        lambda d, x: (1 + d()) * d(n=1) + d() ** 4, lambda x: exact(x) ** 4 - 2, on="rim"
    )
    disc = ts.Ball(x=0, y=0, radius=1, name="rim")
    conserved = -ts.D(x=1) @ flux["x"] - ts.D(y=1) @ flux["y"]
    problem = ts.Problem(disc, ts.Equation(conserved, 4.0), [rim], exact=exact)
    found = ts.solve(problem, start=1.0, **CELLS | {"subdomains": 2, "features": 120})
    assert found.report.stop_reason == FOUND and found.report.error["l1_normalised"] < 1e-6


def test_conditions_of_normals_and_integrals_stand_damping():
    """Damped steps from a start outside the basis, with Neumann and mean conditions."""
    rhs = lambda x: PI**2 * (jnp.cos(PI * x[:, 0]) + sine(x) ** 2)  # noqa: E731
    equation = ts.Equation(lambda d, x: -d(x=2) + d(x=1) ** 2, rhs)
    problem = ts.Problem(
        LINE, equation, [ts.Neumann(0.0), ts.MeanZero()], exact=lambda x: jnp.cos(PI * x[:, 0])
    )
    found = ts.solve(problem, start=lambda x: 3 * jnp.sin(3 * x[:, 0]), **CELLS).report
    assert found.newton[0].damping < 1
    assert found.error["max"] < 1e-9


@pytest.mark.parametrize("coupling", ["interfaces", "overlap"])
def test_hard_constraints(coupling):
    ansatz = ts.Ansatz(lambda x: x[:, 0] * (1 - x[:, 0]))
    problem = cubic(conditions=[], ansatz=ansatz)
    found = ts.solve(problem, start=7.0, **CELLS | {"coupling": coupling})
    assert found.report.error["max"] < 1e-11
    assert np.all(found([0.0, 1.0]) == 0)


def test_a_disc_to_a_tolerance():
    def u(x):
        return 1 - x[:, 0] ** 2 - x[:, 1] ** 2

    equation = ts.Equation(lambda d, x: -d(x=2) - d(y=2) + d() ** 2, lambda x: 4 + u(x) ** 2)
    disc = ts.Ball(x=0, y=0, radius=1)
    found = ts.solve(ts.Problem(disc, equation, [ts.Dirichlet(0.0)], exact=u), tol=1e-6).report
    assert found.stop_reason == "tolerance met" and found.error["l1_normalised"] < 1e-6
    assert found.tolerance == 1e-6


def test_a_periodic_line():
    rhs = lambda x: 2 * jnp.sin(x[:, 0]) + jnp.sin(x[:, 0]) ** 3  # noqa: E731
    equation = ts.Equation(lambda d, x: -d(x=2) + d() + d() ** 3, rhs)
    problem = ts.Problem(
        ts.Box(x=(0, 2 * PI)), equation, [ts.Periodic("x")], exact=lambda x: jnp.sin(x[:, 0])
    )
    assert ts.solve(problem, **CELLS).report.error["max"] < 1e-10


# Newton's way


@pytest.mark.parametrize(
    ("equation", "start"),
    [
        (lambda d, x: -d(x=2) + d() ** 3 - 10, 0.0),
        (lambda d, x: -d(x=2) - 2 * jnp.exp(d()), 0.0),
        (lambda d, x: -(1 + d() ** 2) * d(x=2) - 2 * d() * d(x=1) ** 2 - 20, 0.0),
        (lambda d, x: -d(x=2) / jnp.sqrt(1 + d(x=1) ** 2) ** 3 - 1.5, 0.0),
        (lambda d, x: -0.1 * d(x=2) + d() * d(x=1) - 1, 0.0),
    ],
    ids=["cubic", "bratu", "diffusion", "curvature", "burgers"],
)
def test_newton_is_quadratic_until_rounding(equation, start):
    problem = ts.Problem(LINE, ts.Equation(equation), [ts.Dirichlet(0.0)])
    found = ts.solve(problem, start=start, **CELLS).report
    assert found.stop_reason == FOUND
    assert orders(found) and min(orders(found)) > 1.9
    assert found.newton[-1].size < 1e-7


def test_a_full_step_that_diverges_is_damped():
    """arctan is Newton's textbook failure: from far away every full step is larger."""
    steep = ts.Equation(lambda d, x: -0.01 * d(x=2) + jnp.arctan(10 * d()), sine)
    problem = ts.Problem(LINE, steep, [ts.Dirichlet(0.0)])
    found = ts.solve(problem, start=5.0, **CELLS)
    assert found.report.stop_reason == FOUND
    assert min(step.damping for step in found.report.newton) < 0.5
    assert np.max(np.abs(found.residual(X))) < 1e-5


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_what_damping_does_not_reach_comes_to_rest_in_time(sign):
    """A layer; the sign of the equation is the user's choice."""
    layer = ts.Equation(lambda d, x: sign * (-0.1 * d(x=2) + d() * d(x=1) - d()))
    ends = [ts.Dirichlet(1.0, on="xmin"), ts.Dirichlet(1.5, on="xmax")]
    found = ts.solve(ts.Problem(LINE, layer, ends), **CELLS)
    kinds = [step.kind for step in found.report.newton]
    assert found.report.stop_reason == FOUND and "time" in kinds
    assert kinds[-1] != "time" and found.report.newton[-1].size < 1e-7
    assert np.max(np.abs(found.residual(X))) < 1e-5
    assert "[" in dict(found.report.lines())["newton"]


def test_corrections_that_wander_are_given_up_and_so_is_time_in_which_all_grows():
    """Rounding decides how they wander, so several times: some are damped to nothing instead."""
    every = [
        ts.solve(bratu(1.0), start=lambda x, a=a: a * x[:, 0] * (1 - x[:, 0]), **CELLS).report
        for a in (28, 30, 31, 100)
    ]
    assert all(found.stop_reason == GIVEN_UP for found in every)
    wandered = "corrections have not fallen in 12 linearisations, and with time added"
    assert any(wandered in found.advice for found in every)


def test_a_poor_basis_ends_in_small_corrections_not_in_failure():
    """Layers that the basis does not resolve: least squares that miss something."""
    thin = ts.Equation(lambda d, x: -0.01 * d(x=2) + d() * d(x=1) - d())
    ends = [ts.Dirichlet(1.0, on="xmin"), ts.Dirichlet(1.5, on="xmax")]
    found = ts.solve(ts.Problem(LINE, thin, ends), tol=1e-6).report
    assert found.stop_reason == "tolerance met"


def test_an_unknown_that_is_zero_keeps_nothing_from_converging():
    """Of flow along a channel nothing goes across: what is left of v are different roundings."""
    u, v, p, nu = ts.Field("u"), ts.Field("v"), ts.Field("p"), 0.1

    def momentum(of, along):
        def equation(d, x):
            carried = d("u") * d(of, x=1) + d("v") * d(of, y=1)
            return carried + d("p", **{along: 1}) - nu * (d(of, x=2) + d(of, y=2))

        return ts.Equation(equation, name=f"along {along}")

    flow = ts.Problem(
        ts.Box(x=(0, 2), y=(0, 1)),
        [momentum("u", "x"), momentum("v", "y"), ts.Equation(ts.D(x=1) @ u + ts.D(y=1) @ v)],
        [
            ts.Dirichlet(lambda x: 4 * x[:, 1] * (1 - x[:, 1]), on="xmin", of=u),
            ts.Dirichlet(0.0, on=("ymin", "ymax"), of=u),
            ts.Dirichlet(0.0, on=("xmin", "ymin", "ymax"), of=v),
            ts.Condition(nu * ts.D(x=1) @ u - p, on="xmax"),
            ts.Condition(ts.D(x=1) @ v, on="xmax"),
        ],
        fields=("u", "v", "p"),
    )
    cells = {"subdomains": (2, 1), "features": 200, "coupling": "interfaces", "estimate": False}
    found = ts.solve(flow, **cells)
    assert found.report.stop_reason == FOUND and len(found.report.newton) < 6
    np.testing.assert_allclose(found([[1.0, 0.5]])[0], [1.0, 0.0, 0.8], atol=1e-9)


def test_different_starts_lead_to_different_solutions():
    """Bratu's problem has two."""
    low = ts.solve(bratu(1.0), **CELLS)
    high = ts.solve(bratu(1.0), start=lambda x: 16 * x[:, 0] * (1 - x[:, 0]), **CELLS)
    assert low(0.5)[0] == pytest.approx(bratu_middle(1.0, (0.1, 1.5)), abs=1e-10)
    assert high(0.5)[0] == pytest.approx(bratu_middle(1.0, (1.5, 5.0)), abs=1e-9)


# Starts

STARTS = {
    "number": 1.0,
    "function": lambda x: x[:, 0],
    "mapping": {"u": 1.0},
    "numpy number": np.float64(2.0),
}


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS.keys())
def test_forms_of_a_start(start):
    assert ts.solve(cubic(), start=start, **CELLS).report.error["max"] < 1e-11


def test_a_solution_is_a_start_whatever_its_basis():
    linear = ts.Problem(LINE, ts.Equation(-ts.D(x=2), 1.0), [ts.Dirichlet(0.0)])
    other = ts.solve(linear, subdomains=3, features=12)
    assert ts.solve(cubic(), start=other, **CELLS).report.error["max"] < 1e-11
    own = ts.solve(cubic(), **CELLS)
    again = ts.solve(cubic(), start=own, **CELLS)
    assert len(again.report.newton) == 1
    np.testing.assert_allclose(again(X), own(X), atol=1e-11)


@pytest.mark.parametrize(
    ("start", "error", "said"),
    [
        ("a", TypeError, "start of 'u' must be a number, a function of the points or a solution"),
        ([1, 2], TypeError, "start of 'u' must be a number"),
        ({"v": 1.0}, ValueError, "start has the unknown 'v', but there are u"),
        (math.nan, ValueError, "start of 'u' must be finite, got nan"),
        (lambda x: np.sin(x[:, 0]), TypeError, "start fails, .*replace NumPy calls"),
        (lambda x: x, ValueError, r"start fails, .*returned shape \(8, 1\)"),
    ],
)
def test_what_is_no_start(start, error, said):
    with pytest.raises(error, match=said):
        ts.solve(cubic(), start=start, **CELLS)


def test_solutions_of_other_places_and_unknowns_are_no_start():
    half = ts.Problem(ts.Box(x=(0, 0.5)), ts.Equation(-ts.D(x=2), 1.0), [ts.Dirichlet(0.0)])
    with pytest.raises(ValueError, match=r"start is a solution on Box\(x=\(0, 0.5\)\), which does"):
        ts.solve(cubic(), start=ts.solve(half, **CELLS), **CELLS)
    v = ts.Field("v")
    named = ts.Problem(LINE, ts.Equation(-ts.D(x=2) @ v, 1.0), [ts.Condition(v)])
    with pytest.raises(ValueError, match="start is a solution for v, but the unknowns are u"):
        ts.solve(cubic(), start=ts.solve(named, **CELLS), **CELLS)


def test_linear_problems_take_no_start():
    linear = ts.Problem(LINE, ts.Equation(-ts.D(x=2), 1.0), [ts.Dirichlet(0.0)])
    with pytest.raises(ValueError, match="start is for nonlinear problems"):
        ts.solve(linear, start=1.0, **CELLS)


# Failure


@pytest.mark.parametrize("choices", [CELLS, {"tol": 1e-6}], ids=["basis", "tol"])
def test_past_a_fold_the_report_says_what_happened(choices):
    found = ts.solve(bratu(3.6), **choices)
    report = found.report
    assert report.stop_reason == GIVEN_UP
    assert "nearly singular" in report.advice and "past a fold" in report.advice
    assert "start=" in report.advice and "continuation=" in report.advice
    assert len(report.newton) > 3 and report.error_estimate is None
    assert report.residual["equation"] > 1e-3
    missed = math.sqrt(np.mean(found.residual(np.linspace(0.001, 0.999, 400)) ** 2))
    assert missed == pytest.approx(report.residual["equation"], rel=0.2)


def test_a_function_that_is_not_finite_at_the_start_names_the_place():
    problem = ts.Problem(
        LINE, ts.Equation(lambda d, x: -d(x=2) + jnp.log(d())), [ts.Dirichlet(1.0)]
    )
    with pytest.raises(NotDifferentiableError, match=r"is -inf at the point .*where .*d\(\) = 0"):
        ts.solve(problem, **CELLS)
    assert ts.solve(problem, start=1.0, **CELLS).report.stop_reason == FOUND


# What a solution answers


def test_nonlinear_operators_can_be_applied():
    found = ts.solve(cubic(), **CELLS)
    assert np.max(np.abs(found.residual(X))) < 1e-8
    flux = found.apply(ts.operator(lambda d, x: d() * d(x=1)), X)
    np.testing.assert_allclose(flux, PI * np.sin(PI * X) * np.cos(PI * X), atol=1e-10)


def test_reports_and_files(tmp_path):
    found = ts.solve(cubic(), **CELLS)
    told = json.loads(json.dumps(found.report.to_json()))
    assert [step["kind"] for step in told["newton"]] == [s.kind for s in found.report.newton]
    assert "linearisations; corrections" in str(found.report)
    path = found.save(tmp_path / "cubic.tessella")
    alone, stated = ts.load(path), ts.load(path, problem=cubic())
    assert alone.report == found.report
    np.testing.assert_array_equal(alone(X), found(X))
    np.testing.assert_array_equal(stated.residual(X), found.residual(X))


def test_the_estimate_bounds_the_error_of_a_poor_basis():
    found = ts.solve(cubic(), subdomains=2, features=8, coupling="interfaces").report
    assert found.error["l1_normalised"] > 1e-9
    assert found.error["l1_normalised"] < 3 * found.error_estimate < 1e3 * found.error["max"]


def test_what_newton_has_left_is_its_last_correction_or_less_after_a_chord():
    line = ts.Problem(ts.Box(x=(0, 1)), ts.Equation(-ts.D(x=2), 2.0), [ts.Dirichlet(0.0)])
    report = ts.solve(line, subdomains=2, features=8).report
    assert report.unfinished == 0.0
    stalled = (Correction("newton", 1e-2), Correction("newton", 1e-5, 1e-4))
    assert dataclasses.replace(report, newton=stalled).unfinished == 1e-5
    good = (Correction("newton", 1e-2), Correction("chord", 1e-5))
    assert dataclasses.replace(report, newton=good).unfinished == pytest.approx(1e-8)
