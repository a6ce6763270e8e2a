"""More than three dimensions by tolerance: polynomials on one subdomain, as they are needed."""

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts

SPACE = "abcd"
CUBE = ts.Box(**dict.fromkeys(SPACE, (0, 1)))


def poisson(exact, given):
    return ts.Problem(CUBE, ts.Equation(-ts.Laplacian(), given), [ts.Dirichlet(exact)])


def error(solution, exact):
    x = solution.problem.domain.scatter(2_000, np.random.default_rng(5))
    return float(np.mean(np.abs(solution(x) - exact(x))) / np.std(exact(x)))


def waves(p):
    return np.sin(p @ [1.0, 1.5, 0.5, 2.0])


def product(p):
    """Nothing of lower degree shows where it is: its parts are those of (2 x - 1)."""
    return np.prod(2 * p - 1, axis=1) ** 3 + np.exp(p[:, 0])


@pytest.fixture(scope="module")
def ridge():
    return ts.solve(poisson(waves, lambda p: 7.5 * waves(p)), tol=1e-6)


def test_a_wave_in_four_dimensions(ridge):
    assert ridge.report.stop_reason == "tolerance met"
    assert error(ridge, waves) <= ridge.report.error_estimate <= 1e-6


def test_what_no_coefficient_shows_is_not_called_found():
    """The product of cubes is of degree twelve, out of reach for most sets."""

    def given(p):
        z = 2 * p - 1
        each = [
            np.prod(np.delete(z, i, axis=1) ** 3, axis=1) * 24 * z[:, i] for i in range(len(SPACE))
        ]
        return -sum(each) - np.exp(p[:, 0])

    solution = ts.solve(poisson(product, given), tol=1e-4, patience=3)
    told, met = solution.report.error_estimate, solution.report.stop_reason == "tolerance met"
    assert told is None or error(solution, product) <= max(told, 1e-4 * met)


def test_heat_in_a_ball_over_time():
    def exact(p):
        return np.exp(np.sum(p[:, :3], axis=1) / 2 + 0.75 * p[:, 3])

    ball = ts.Ball(radius=1, a=0.0, b=0.0, c=0.0).over(t=(0, 1))
    heat = ts.Equation(ts.D(t=1) - ts.D(a=2) - ts.D(b=2) - ts.D(c=2))
    problem = ts.Problem(ball, heat, [ts.Dirichlet(exact, on="ball"), ts.Initial(exact)])
    solution = ts.solve(problem, tol=1e-5)
    assert solution.report.stop_reason == "tolerance met"
    assert error(solution, exact) <= 1e-5


def test_a_nonlinear_equation():
    def exact(p):
        return jnp.sum(p**2, axis=1) / 8

    cubic = ts.Equation(
        lambda d, x: d(a=2) + d(b=2) + d(c=2) + d(d=2) - d() ** 3,
        lambda p: 1.0 - exact(p) ** 3,
    )
    solution = ts.solve(ts.Problem(CUBE, cubic, [ts.Dirichlet(exact)]), tol=1e-5)
    assert solution.report.stop_reason == "tolerance met"
    assert error(solution, exact) <= 1e-5


def test_a_file_holds_it(ridge, tmp_path):
    loaded = ts.load(ridge.save(tmp_path / "ridge.npz"))
    x = CUBE.scatter(50, np.random.default_rng(0))
    np.testing.assert_array_equal(loaded(x), ridge(x))


def test_periodic_axes_need_numbers():
    box = CUBE.closed("a")
    problem = ts.Problem(box, ts.Equation(-ts.Laplacian(), 1.0), [ts.Dirichlet(0.0)])
    with pytest.raises(ValueError, match=r"periodic axes in 1, 2 and 3 dimensions .*got 4"):
        ts.solve(problem, tol=1e-3)
