"""Nonlinear problems of the gallery: exact solutions that are exact."""

import numpy as np
import pytest

from tessella.gallery.branches import FORCED_BRATU
from tessella.gallery.dispersive import SINE_GORDON
from tessella.gallery.flows import KOVASZNAY, STEADY_BURGERS
from tessella.gallery.large_deformation import MINIMAL_SURFACE, NEO_HOOKEAN, P_LAPLACE
from tessella.gallery.reactions import CUBIC_POISSON, NONLINEAR_HELMHOLTZ, QUADRATIC_POISSON
from tessella.geometry.functions import function_values
from tessella.problem.nonlinear import applied_to
from tessella.problem.states import Guess

EXACT = [
    CUBIC_POISSON,
    QUADRATIC_POISSON,
    NONLINEAR_HELMHOLTZ,
    STEADY_BURGERS,
    KOVASZNAY,
    SINE_GORDON,
    FORCED_BRATU,
    MINIMAL_SURFACE,
    P_LAPLACE,
    NEO_HOOKEAN,
]


@pytest.mark.parametrize("entry", EXACT, ids=lambda entry: entry.name)
def test_exact_solutions_satisfy_equations_and_conditions(entry):
    problem = entry.problem()
    domain = problem.domain
    exact = problem.exact if isinstance(problem.exact, dict) else {"u": problem.exact}
    state = Guess(problem, exact)
    inside = domain.scatter(50, np.random.default_rng(0))
    for equation in problem.equations:
        found = applied_to(equation.operator, state, inside, None)
        wanted = function_values(equation.rhs, inside)
        slack = 1e-11 * (1 + np.abs(wanted).max())
        np.testing.assert_allclose(found, wanted, rtol=0, atol=slack, err_msg=equation.name)
    for condition in problem.conditions:
        if not condition.faces(domain):
            continue
        points, normals = condition.places(
            domain, lambda part: domain.boundary(part, (9,) * domain.dimension)
        )
        found = applied_to(condition.operator, state, points, normals)
        wanted = function_values(condition.value, points)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-11, err_msg=condition.name)


def test_the_rubber_blocks_balance_is_the_divergence_of_its_stress(rng):
    """Load and balance come from one formula; the stress at the walls comes from another."""
    problem = NEO_HOOKEAN.problem()
    pull = {c.name: c.value for c in problem.conditions}
    points, h = rng.uniform([0.2, 0.2], [1.8, 0.8], (20, 2)), 1e-3
    for i, axis in enumerate("xy"):
        flux = pull[f"xmax {axis}"], pull[f"ymax {axis}"]
        slopes = 0.0
        for j, one in enumerate(flux):
            step = h * np.eye(2)[j]
            near, far = (one(points + k * step) - one(points - k * step) for k in (1, 2))
            slopes = slopes + (8 * near - far) / (12 * h)
        np.testing.assert_allclose(problem.equations[i].rhs(points), -slopes, atol=1e-10)
