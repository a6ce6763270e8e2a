"""Nonlinear problems in time: slab by slab with Newton's method, by hand and to a tolerance."""

from __future__ import annotations

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from tessella.cells.solvers import Exchange

SPEED = 0.6


def travelling(nu: float):
    """A front of Burgers' equation that moves with a speed."""
    return lambda p: SPEED - jnp.tanh((p[:, 0] + 0.3 - SPEED * p[:, 1]) / (2 * nu))


def burgers(nu: float, duration: float = 1.0) -> ts.Problem:
    front = travelling(nu)
    equation = ts.Equation(lambda d, x: d(t=1) + d() * d(x=1) - nu * d(x=2))
    domain = ts.Box(x=(-1, 1), t=(0, duration))
    return ts.Problem(domain, equation, [ts.Dirichlet(front), ts.Initial(front)], exact=front)


def test_a_march_by_hand_gains_digits_with_features():
    problem = burgers(0.2)
    errors = [
        ts.march(problem, 4, subdomains=(4, 1), features=n, coupling="interfaces", estimate=False)
        .report.error["l1_normalised"]
        for n in (20, 40, 80)
    ]  # fmt: skip
    assert errors[0] > 10 * errors[1] > 100 * errors[2]
    assert errors[2] < 1e-6


def test_every_slab_starts_from_the_last_and_converges_quadratically():
    marched = ts.march(
        burgers(0.2), 3, subdomains=(4, 1), features=80, coupling="interfaces", estimate=False
    )
    for slab in marched.slabs:
        assert not slab.problem.linear
        sizes = [step.size for step in slab.report.newton if step.kind == "newton"]
        assert len(sizes) <= 4
        assert all(later <= 20 * size**2 for size, later in itertools.pairwise(sizes))
    x = np.stack([np.linspace(-0.9, 0.9, 50), np.full(50, 1 / 3)], axis=1)
    before, after = (marched.slabs[k](x) for k in (0, 1))
    np.testing.assert_allclose(before, after, atol=1e-6)
    inside = np.array([[0.1, 0.2], [-0.5, 0.7]])
    residual = marched.apply(marched.problem.equations[0].operator, inside)
    assert np.max(np.abs(residual)) < 1e-4


def test_newton_asks_for_no_more_than_an_iteration_leaves():
    """Corrections end where those of a loose exchange would say nothing."""
    loose = ts.march(
        burgers(0.2), 3, subdomains=(4, 1), features=80, coupling="interfaces", estimate=False,
        solver=Exchange(tolerance=1e-4),
    )  # fmt: skip
    assert min(step.size for slab in loose.slabs for step in slab.report.newton) > 1e-7
    assert loose.report.error["l1_normalised"] < 1e-3


@pytest.mark.parametrize(("nu", "duration", "tol"), [(0.05, 0.2, 1e-4)])
def test_a_tolerance_is_met_truly(nu, duration, tol):
    found = ts.solve(burgers(nu, duration), tol=tol)
    assert isinstance(found, ts.Marched)
    assert found.report.stop_reason == "tolerance met"
    assert found.report.error["l1_normalised"] <= 3 * tol


def test_a_nonlinear_march_prints_and_has_a_residual():
    marched = ts.march(
        burgers(0.2), 2, subdomains=(4, 1), features=60, coupling="interfaces", estimate=False
    )
    assert "slab by slab" in str(marched) and "Marched" in repr(marched)
    inside = np.array([[0.1, 0.2], [-0.5, 0.7]])
    assert np.max(np.abs(marched.residual(inside))) < 1e-2
    squares = marched.apply(lambda d, x: d() ** 2, inside)
    np.testing.assert_allclose(squares, marched(inside) ** 2, rtol=1e-12)
    with pytest.raises(ValueError, match="needs a wave equation"):
        marched.energy()


def test_second_order_in_time():
    omega = 0.6

    def breather(p):
        width = np.sqrt(1 - omega**2)
        return 4 * jnp.arctan(width / omega * jnp.cos(omega * p[:, 1]) / jnp.cosh(width * p[:, 0]))

    problem = ts.Problem(
        ts.Box(x=(-6, 6), t=(0, 1)),
        ts.Equation(ts.D(t=2) - ts.D(x=2) + ts.operator(lambda d, x: jnp.sin(d()))),
        [ts.Dirichlet(breather), ts.Initial(breather), ts.InitialVelocity(0.0)],
        exact=breather,
    )
    found = ts.march(problem, 2, subdomains=(8, 1), features=60, coupling="interfaces")
    assert found.report.error["l1_normalised"] < 1e-5
    assert found.report.error_estimate < 1e-3


def test_a_system_marches_too():
    """u' = v, v' = -u^3 at every point, with u(0) = 1: energy v^2 / 2 + u^4 / 4 is kept."""
    u, v = ts.Field("u"), ts.Field("v")
    problem = ts.Problem(
        ts.Box(x=(0, 1), t=(0, 1)),
        [
            ts.Equation(ts.D(t=1) @ u - v, name="position"),
            ts.Equation(lambda d, x: d("v", t=1) + d("u") ** 3, name="velocity"),
        ],
        [ts.Initial(1.0, of=u), ts.Initial(0.0, of=v)],
    )
    found = ts.march(problem, 2, subdomains=(2, 1), features=60, coupling="interfaces")
    at_end = found(np.array([[0.3, 1.0]]))[0]
    assert at_end[1] ** 2 / 2 + at_end[0] ** 4 / 4 == pytest.approx(0.25, abs=1e-5)


def test_a_solution_that_blows_up_is_not_met_and_says_where():
    """u' = 5 u^2 from 1 has no solution from t = 0.2 on."""
    problem = ts.Problem(
        ts.Box(x=(0, 1), t=(0, 1)),
        ts.Equation(lambda d, x: d(t=1) - 0.1 * d(x=2) - 5 * d() ** 2),
        [ts.Neumann(0.0), ts.Initial(1.0)],
    )
    found = ts.solve(problem, tol=1e-3, patience=3)
    assert found.report.stop_reason == "tolerance not met"
    assert found.report.slabs[-1].end < 0.21


def test_initial_data_written_with_numpy_are_fine():
    problem = ts.Problem(
        ts.Box(x=(0, 1), t=(0, 0.1)),
        ts.Equation(lambda d, x: d(t=1) - (1 + d() ** 2) * d(x=2) - 2 * d() * d(x=1) ** 2),
        [ts.Dirichlet(0.0), ts.Initial(lambda p: np.sin(np.pi * p[:, 0]))],
    )
    found = ts.solve(problem, tol=1e-4)
    assert found.report.stop_reason == "tolerance met"
