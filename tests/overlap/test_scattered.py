"""More than three dimensions: quasi-random points on one subdomain."""

from __future__ import annotations

import numpy as np
import pytest

import tessella as ts

SPACE = "abcd"


def rows(problem: ts.Problem, features: int = 40) -> list:
    basis = ts.Basis(ts.Decomposition(problem.domain, 1), ts.RandomFeatures(features))
    return ts.Grid(oversampling=2).rows(problem, basis)


def cube(exact) -> ts.Problem:
    return ts.Problem(
        ts.Box(**dict.fromkeys(SPACE, (0, 1))),
        ts.Equation(-ts.Laplacian(), 0.0),
        [ts.Dirichlet(exact)],
    )


def test_as_many_points_inside_as_on_the_boundary():
    inside, walls = rows(cube(0.0))
    assert len(inside.points) == 2 * 41  # forty features and a constant
    assert len(walls.points) == 8 * 11
    assert np.all(np.any((walls.points == 0) | (walls.points == 1), axis=1))


def test_points_fill_the_cube_evenly():
    """Sobol's points: every half of every axis holds half of them."""
    inside, _ = rows(cube(0.0), 512)
    assert np.all(np.abs(np.mean(inside.points > 0.5, axis=0) - 0.5) < 0.01)


def test_a_ball_of_four_dimensions_over_time():
    ball = ts.Ball(radius=2, **dict.fromkeys(SPACE, 0.0)).over(t=(0, 1))
    heat = ts.Equation(ts.D(t=1) - sum((ts.D(**{a: 2}) for a in "bcd"), ts.D(a=2)))
    problem = ts.Problem(ball, heat, [ts.Neumann(0.0, on="ball"), ts.Initial(1.0)])
    inside, walls, start = rows(problem)
    assert np.all(np.linalg.norm(inside.points[:, :4], axis=1) <= 2)
    assert np.linalg.norm(walls.points[:, :4], axis=1) == pytest.approx(2)
    assert np.all(start.points[:, 4] == 0)


def test_a_harmonic_function_of_four_variables():
    def exact(p):
        return p[:, 0] * p[:, 1] - p[:, 2] ** 2 + p[:, 3] ** 2

    problem = cube(exact)
    u = ts.solve(problem, subdomains=1, features=200, scale=0.3, coupling="overlap", estimate=False)
    x = problem.domain.scatter(500, np.random.default_rng(1))
    assert np.linalg.norm(u(x) - exact(x)) < 1e-3 * np.linalg.norm(exact(x))
