"""Statements of every kind on cells, against what is known: each was wrong once."""

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts

LINE = ts.Box(x=(0, 1))
SQUARE = ts.Box(x=(0, 1), y=(0, 1))


def on_cells(problem, **sizes):
    chosen = {"subdomains": 4, "features": 80, **sizes}
    return ts.solve(problem, coupling="interfaces", estimate=False, **chosen)


def test_every_region_has_its_own_right_hand_side():
    def exact(p):
        return np.where(p[:, 0] < 0.5, 0.75 * p[:, 0] - p[:, 0] ** 2, 0.25 * (1 - p[:, 0]))

    left = ts.Box(x=(-1, 0.5))
    problem = ts.Problem(
        ts.Divided(LINE, left=left),
        [ts.Equation(-ts.D(x=2), 2.0, where="left"), ts.Equation(-ts.D(x=2), 0.0, where="rest")],
        [ts.Dirichlet(0.0), *ts.Transmission("left", "rest")],
        exact=exact,
    )
    assert on_cells(problem, subdomains=3, features=20).report.error["max"] < 1e-7


def smooth(p):
    return jnp.exp(p[:, 0]) * jnp.cos(p[:, 1]) + 3


@pytest.mark.parametrize("subdomains", [4, (4, 3), (3, 4), 5])
def test_walls_that_run_along_faces_or_parts_of_them(subdomains):
    """An L whose inner sides lie on faces of some of these cells."""
    ell = ts.Box(x=(-1, 1), y=(-1, 1)) - ts.Box(x=(0, 1), y=(-1, 0))
    problem = ts.Problem(ell, ts.Equation(ts.Laplacian()), [ts.Dirichlet(smooth)], exact=smooth)
    solution = on_cells(problem, subdomains=subdomains)
    assert solution.report.error["max"] < 1e-4
    on_wall = np.array([[0.0, -0.5], [0.5, 0.0], [0.0, -0.25]])
    np.testing.assert_allclose(solution(on_wall), smooth(on_wall), atol=1e-4)


def test_two_parts_of_the_boundary_may_share_a_face():
    domain = ts.Box(x=(0, 0.3), y=(0, 1)).named("a") | ts.Box(x=(0.3, 1), y=(0, 1)).named("b")
    conditions = [ts.Dirichlet(smooth, on="a"), ts.Dirichlet(lambda p: smooth(p), on="b")]
    problem = ts.Problem(domain, ts.Equation(ts.Laplacian()), conditions, exact=smooth)
    assert on_cells(problem, subdomains=2).report.error["max"] < 1e-4


def test_masks_count_where_they_hold():
    """u'' + u = 0 with both conditions at x = 0, stated by masks."""

    def at_start(p):
        return p[:, 0] < 0.5

    conditions = [
        ts.Dirichlet(0.0, on=at_start),
        ts.Condition(ts.D(x=1), 1.0, on=at_start),
    ]
    equation = ts.Equation(ts.D(x=2) + ts.Identity())
    problem = ts.Problem(LINE, equation, conditions, exact=lambda p: np.sin(p[:, 0]))
    assert on_cells(problem, features=16).report.error["max"] < 1e-8


def test_readings_that_are_off_do_not_tear_the_solution():
    points = np.random.default_rng(0).random((8, 2)) * 0.6 + 0.2
    problem = ts.Problem(
        SQUARE,
        ts.Equation(ts.Laplacian()),
        [ts.Dirichlet(smooth), ts.Measured(points, np.asarray(smooth(points)) + 0.05)],
        exact=smooth,
    )
    report = on_cells(problem, subdomains=3).report
    assert report.error["max"] < 0.1 and report.jumps["value"]["max"] < 0.1


def test_a_reading_on_an_outer_wall_fixes_a_constant():
    ell = ts.Box(x=(-1, 1), y=(-1, 1)) - ts.Box(x=(0, 1), y=(-1, 0))
    problem = ts.Problem(
        ell,
        ts.Equation(ts.Laplacian()),
        [ts.Neumann(0.0), ts.Measured([[0.0, -0.5]], [2.0])],
        exact=lambda p: 2 + 0 * p[:, 0],
    )
    assert on_cells(problem).report.error["max"] < 1e-5


def test_a_march_with_functions_of_absolute_time_factors_every_slab():
    def layer(p):
        return jnp.exp(-20 * p[:, 1]) * jnp.sin(np.pi * p[:, 0])

    rate = ts.D(t=1) - ts.D(x=2)
    problem = ts.Problem(
        ts.Box(x=(0, 1), t=(0, 0.5)),
        ts.Equation(rate, lambda p: (np.pi**2 - 20) * layer(p)),
        [ts.Dirichlet(0.0), ts.Initial(layer)],
        exact=layer,
    )
    marched = ts.march(
        problem, 2, coupling="interfaces", subdomains=2, features=40, enrichment=[layer]
    )
    assert marched.report.factorisations == 2
    assert marched.report.error["max"] < 1e-8
