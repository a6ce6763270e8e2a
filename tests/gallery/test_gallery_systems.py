"""Systems of the gallery: their exact solutions are solutions, and more features come closer."""

import numpy as np
import pytest

import tessella as ts
from tessella.geometry.functions import function_values
from tessella.problem.normal_form import apply_to_function

NAMES = ("stokes", "beam", "helmholtz-complex", "schroedinger")
FEW = {
    "stokes": {"subdomains": 2, "features": 60},
    "beam": {"subdomains": (2, 1), "features": 80},
    "helmholtz-complex": {"subdomains": 3, "features": 80},
    "schroedinger": {"subdomains": (6, 1), "features": 200},
}


def applied(problem, operator, points, normals=None):
    """An operator applied to the exact solution, by automatic differentiation."""
    return sum(
        apply_to_function(problem.terms(operator, name), problem.exact[name], points, normals)
        for name in problem.fields
    )


@pytest.mark.parametrize("name", ["stokes", "beam"])
def test_exact_solutions_satisfy_equations_and_conditions(name):
    problem = ts.gallery.get(name).problem()
    inside = problem.domain.scatter(50, np.random.default_rng(0))
    for equation in problem.equations:
        rhs = function_values(equation.rhs, inside)
        found = applied(problem, equation.operator, inside)
        np.testing.assert_allclose(found, rhs, atol=1e-9 * problem.domain.diameter)
    for condition in problem.conditions:
        points, normals = condition.places(
            problem.domain, lambda part: problem.domain.boundary(part, (9, 9))
        )
        found = applied(problem, condition.operator, points, normals)
        np.testing.assert_allclose(found, function_values(condition.value, points), atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_few_features_give_some_digits(name):
    solution = ts.gallery.get(name).solve(settings=FEW[name])
    assert solution.report.error["l2_relative"] < 5e-3


def test_twice_the_features_gain_two_decades_on_the_beam():
    errors = [
        ts.gallery.get("beam").solve(settings={**FEW["beam"], "features": K}).report.error
        for K in (40, 80)
    ]
    errors = [error["l2_relative"] for error in errors]
    assert errors[1] < errors[0] / 100


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("stokes", {"distance": 0.0}, "distance must be positive"),
        ("beam", {"poisson": 0.5}, "poisson must be at least 0 and below 0.5"),
        ("helmholtz-complex", {"k": -1.0}, "k must be positive"),
        ("schroedinger", {"x0": 5.0}, "x0 must lie in"),
        ("inclusion", {"contrast": 0.0}, "contrast must be positive"),
    ],
)
def test_parameters_are_checked(name, settings, message):
    with pytest.raises(ValueError, match=message):
        ts.gallery.get(name).problem(**settings)
