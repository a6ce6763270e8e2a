"""Continuation in a parameter: what a start alone does not reach, and where the way ends."""

import json
import math

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from tessella.solving.nonlinear.newton import FOUND, GIVEN_UP

LINE = ts.Box(x=(0, 1))
CELLS = {"subdomains": 8, "features": 24, "coupling": "interfaces", "estimate": False}
X = np.linspace(0, 1, 41)


def burgers(nu):
    """A layer at the right end."""
    equation = ts.Equation(lambda d, x: -nu * d(x=2) + d() * d(x=1) - d())
    ends = [ts.Dirichlet(1.0, on="xmin"), ts.Dirichlet(1.5, on="xmax")]
    return ts.Problem(LINE, equation, ends)


def flux(nu):
    """The same as two equations of first order, to which no time can be added."""
    u = ts.Field("u")
    equations = [
        ts.Equation(lambda d, x: d("u", x=1) - d("v"), name="slope"),
        ts.Equation(lambda d, x: -nu * d("v", x=1) + d("u") * d("v") - d("u"), name="flux"),
    ]
    ends = [ts.Condition(u, 1.0, on="xmin"), ts.Condition(u, 1.5, on="xmax")]
    return ts.Problem(LINE, equations, ends)


def bratu(lam):
    equation = ts.Equation(lambda d, x: -d(x=2) - lam * jnp.exp(d()))
    return ts.Problem(LINE, equation, [ts.Dirichlet(0.0)])


def test_continuation_reaches_what_a_direct_start_does_not():
    assert ts.solve(flux(0.1), **CELLS).report.stop_reason == GIVEN_UP
    found = ts.solve(flux, continuation=("nu", [1, 0.3, 0.1]), **CELLS)
    assert found.report.stop_reason == FOUND
    assert np.max(np.abs(found.residual(X))) < 1e-7
    assert [step.value for step in found.report.continuation] == [1, 0.3, 0.1]
    assert "nu = 1, 0.3, 0.1" in str(found.report)
    told = json.loads(json.dumps(found.report.to_json()))["continuation"]
    assert told[0] == {
        "parameter": "nu", "value": 1.0, "inserted": False, "found": True,
        "linearisations": found.report.continuation[0].linearisations,
    }  # fmt: skip


def test_continuation_to_a_tolerance():
    found = ts.solve(burgers, continuation=("nu", [1, 0.1]), tol=1e-8)
    assert found.report.stop_reason == "tolerance met"
    assert found.report.tolerance == 1e-8
    fine = ts.solve(burgers(0.1), start=found, **CELLS | {"features": 30})
    np.testing.assert_allclose(found(X), fine(X), atol=1e-7)


def test_values_are_inserted_where_a_step_fails_and_the_fold_is_the_end():
    found = ts.solve(bratu, continuation=("lam", [1, 3, 4]), **CELLS | {"subdomains": 4})
    report = found.report
    assert report.stop_reason == GIVEN_UP
    inserted = [step.value for step in report.continuation if step.inserted and step.found]
    assert inserted and all(3 < value < 3.5139 for value in inserted)
    assert f"lam = {inserted[-1]:g} is the last value that was reached" in report.advice
    assert "past a fold" in report.advice
    lam = inserted[-1]
    residual = found.apply(ts.D(x=2), X) + lam * np.exp(found(X))
    assert np.max(np.abs(residual)) < 1e-7
    assert all(step.value > lam for step in report.continuation if not step.found)


def test_a_first_value_may_be_a_linear_problem():
    def family(lam):
        if lam:
            return bratu(lam)
        return ts.Problem(LINE, ts.Equation(-ts.D(x=2)), [ts.Dirichlet(0.0)])

    found = ts.solve(family, continuation=("lam", [0, 2]), **CELLS)
    assert found.report.stop_reason == FOUND
    assert found.report.continuation[0].linearisations == 0
    c = 0.5
    for _ in range(60):
        c = math.cosh(c) / 2
    assert found(0.5)[0] == pytest.approx(2 * math.log(math.cosh(c)), abs=1e-9)


def test_a_first_value_that_fails_says_so():
    found = ts.solve(bratu, continuation=("lam", [5, 6]), **CELLS | {"subdomains": 4})
    assert found.report.stop_reason == GIVEN_UP
    assert "the first value, lam = 5, is not solved" in found.report.advice
    assert len(found.report.continuation) == 1


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ((bratu, "lam"), TypeError, "must be a name and values"),
        ((bratu, ("lam", [])), TypeError, r"values of 'lam' must be a list, got \[\]"),
        ((bratu, ("lam", "123")), TypeError, "must be a list, got '123'"),
        ((bratu, ("lam", [1, math.inf])), ValueError, "the value inf of 'lam': it must be finite"),
        ((bratu, (3, [1])), TypeError, "the parameter must be named"),
        ((bratu(1.0), ("lam", [1])), TypeError, "needs a function of the parameter"),
        ((lambda lam: lam, ("lam", [1])), TypeError, r"problem_of\(lam=1\) must return a Problem"),
    ],
)
def test_what_is_no_continuation(arguments, error, said):
    problem, continuation = arguments
    with pytest.raises(error, match=said):
        ts.solve(problem, continuation=continuation, **CELLS)


def test_a_function_in_place_of_a_problem_needs_values():
    with pytest.raises(TypeError, match=r"needs a Problem.*first"):
        ts.solve(bratu, **CELLS)
