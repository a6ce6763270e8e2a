"""Problems that hardly determine some function magnify what is missed of it; estimates say so."""

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from tessella.accuracy.estimate import Judgement, own_error

SQUARE = ts.Box(x=(0, 1), y=(0, 1))
AT = np.random.default_rng(5).random((2_000, 2))


def u(x):
    return jnp.exp(x[:, 0]) * jnp.cos(2 * x[:, 1])


def u_y(x):
    return -2 * jnp.exp(x[:, 0]) * jnp.sin(2 * x[:, 1])


def resonant(delta):
    """Three modes of the square have the eigenvalue 50 pi^2."""
    k2 = 50 * np.pi**2 + delta
    equation = ts.Equation(ts.Laplacian() + k2 * ts.Identity(), lambda x: (k2 - 3) * u(x))
    return ts.Problem(SQUARE, equation, [ts.Dirichlet(u)])


def floating(delta):
    """Walls say nothing of a constant, and the equation little."""
    equation = ts.Equation(-ts.Laplacian() + delta * ts.Identity(), lambda x: (3 + delta) * u(x))
    walls = {"xmin": lambda x: -u(x), "xmax": u, "ymin": lambda x: -u_y(x), "ymax": u_y}
    return ts.Problem(SQUARE, equation, [ts.Neumann(f, on=wall) for wall, f in walls.items()])


@pytest.mark.parametrize(
    ("problem", "tol"),
    [
        (resonant(1e-2), 1e-8),
        (resonant(1e-4), 1e-6),
        (resonant(1e-6), 1e-4),
        (floating(1e-3), 1e-8),
        (floating(1e-5), 1e-6),
        (floating(1e-7), 1e-4),
    ],
)
def test_a_tolerance_near_an_eigenvalue_is_met_or_not_claimed(problem, tol):
    solution = ts.solve(problem, tol=tol, patience=20)
    exact = np.asarray(u(AT))
    true = np.mean(np.abs(solution(AT) - exact)) / np.std(exact)
    assert solution.report.stop_reason.startswith("tolerance met")
    assert true <= tol
    assert true <= 3 * solution.report.error_estimate


@pytest.mark.parametrize("problem", [resonant(1e-6), floating(1e-9)])
def test_digits_that_rounding_takes_are_not_claimed(problem):
    solution = ts.solve(problem, tol=1e-9, patience=4)
    assert solution.report.stop_reason.startswith("tolerance not met")


def test_far_from_eigenvalues_residuals_say_how_much_better_the_better_one_is():
    plain = Judgement(1e-4, 1e-1, 1e-2)
    assert plain.error == pytest.approx(1e-5)
    doubted = Judgement(1e-4, 1e-1, 1e-2, magnified=True)
    assert doubted.error == own_error(doubted) == pytest.approx(1e-2)
    assert doubted.share == plain.share
