"""Nonlinear problems of the gallery: exact solutions that are exact."""

import numpy as np
import pytest

import tessella as ts
from tessella.gallery.branches import FORCED_BRATU
from tessella.gallery.dispersive import SINE_GORDON
from tessella.gallery.flows import CYLINDER, KOVASZNAY, STEADY_BURGERS
from tessella.gallery.large_deformation import MINIMAL_SURFACE, NEO_HOOKEAN, P_LAPLACE
from tessella.gallery.reactions import (
    CUBIC_POISSON,
    NONLINEAR_HELMHOLTZ,
    QUADRATIC_POISSON,
    rounded_kink,
)
from tessella.gallery.reference.cylinder import KNOWN, MEAN, RADIUS, measured
from tessella.geometry.functions import function_values
from tessella.problem.linearised import applied_to
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


@pytest.mark.parametrize(
    ("name", "settings", "promised"),
    [
        ("cubic-poisson", {}, 1e-10),
        ("quadratic-poisson", {}, 1e-10),
        ("nonlinear-helmholtz", {}, 1e-10),
        ("steady-burgers", {}, 1e-10),
        ("bratu", {"features": 100, "branch": 2}, 1e-4),
        ("bratu-1d", {}, 1e-11),
        ("bratu-1d", {"branch": 2}, 1e-11),
        ("p-laplace", {"features": 100}, 1e-8),
        ("kovasznay", {"features": 120}, 1e-5),
    ],
)
def test_the_presets_keep_their_word_from_their_starts(name, settings, promised):
    report = ts.gallery.get(name).solve(settings=settings).report
    assert report.stop_reason == "Newton's method converged"
    assert report.error["l2_relative"] <= promised


def test_a_tolerance_starts_where_the_preset_does():
    report = ts.gallery.get("bratu-1d").solve(tol=1e-8, settings={"branch": 2}).report
    assert report.stop_reason == "tolerance met" and report.error["l1_normalised"] <= 3e-8


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("bratu", {"lam": 7.0}, "lam must lie between 0 and 6.80812, got 7.0: beyond the fold"),
        ("bratu-1d", {"lam": 3.6}, "lam must lie between 0 and 3.51383"),
        ("bratu", {"branch": 3.0}, "branch must be 1, the small solution, or 2"),
        ("cubic-poisson", {"n": 0.5}, "n must be a whole number"),
        ("sine-gordon", {"omega": 1.0}, "omega must lie between 0 and 1"),
        ("minimal-surface", {"reach": 2.0}, "reach must lie between 0 and pi / 2"),
        ("p-laplace", {"p": 2.0}, "p must be larger than 2"),
        ("burgers", {"nu": 0.0}, "nu must be positive"),
        ("cavity", {"Re": -1.0}, "Re must be positive"),
    ],
)
def test_parameters_without_a_solution_are_refused(name, parameters, message):
    with pytest.raises(ValueError, match=message):
        ts.gallery.get(name).problem(**parameters)


def test_forces_on_the_cylinder_are_those_of_its_stress():
    """A pressure -x pushes with the cylinder's area, like buoyancy; a shear only turns it."""
    problem = CYLINDER.problem()
    still = Guess(problem, {"u": lambda x: x[:, 1], "v": 0.0, "p": lambda x: -x[:, 0]})
    found, unit = measured(still), MEAN**2 * RADIUS
    assert found.drag == pytest.approx(np.pi * RADIUS**2 / unit)
    assert found.lift == pytest.approx(0.0, abs=1e-12)
    assert found.pressure == pytest.approx(2 * RADIUS)


def test_the_cylinders_drag_is_known():
    cells = {"subdomains": CYLINDER.preset().method.subdomains, "coupling": "interfaces"}
    flow = ts.solve(CYLINDER.problem(), features=64, estimate=False, **cells)
    found = measured(flow)
    assert found.drag == pytest.approx(KNOWN.drag, rel=1e-3)
    assert found.lift == pytest.approx(KNOWN.lift, rel=0.05)


def test_what_allen_cahns_kink_becomes_satisfies_the_equation_near_it(rng):
    """p_t = 1e-4 p_xx - 10 p, the reaction linearised around -1."""
    h, places, times = 1e-4, rng.uniform(0.99, 0.999, 20), rng.uniform(0.02, 0.05, 20)

    def at(right=0, later=0):
        points = np.stack([places + right * h, times + later * h], axis=1)
        return np.asarray(rounded_kink(points))

    in_time = (at(later=1) - at(later=-1)) / (2 * h)
    bent = (at(right=1) - 2 * at() + at(right=-1)) / h**2
    np.testing.assert_allclose(in_time, 1e-4 * bent - 10 * at(), atol=1e-5)
