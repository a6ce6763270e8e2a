"""Where and how much: fluxes, extrema, and what is missed of single statements."""

import warnings

import numpy as np
import pytest

import tessella as ts

SQUARE = ts.Box(x=(0, 1), y=(0, 2))
CELLS = {"subdomains": 2, "features": 60, "coupling": "interfaces"}
FLUX = ts.NormalDerivative()


def harmonic(p):
    return np.exp(p[:, 0]) * np.cos(p[:, 1])


@pytest.fixture(scope="module")
def solution():
    """u = e^x cos y, which is largest at a corner and on a wall, smallest at another corner."""
    walls = [ts.Dirichlet(harmonic, on=("xmin", "xmax"), name="sides"),
             ts.Dirichlet(harmonic, on=("ymin", "ymax"), name="ends")]  # fmt: skip
    return ts.solve(ts.Problem(SQUARE, ts.Equation(-ts.Laplacian(), 0.0), walls), **CELLS)


@pytest.fixture(scope="module")
def disc():
    domain = ts.Ball(x=0.2, y=0, radius=1, name="rim") - ts.Ball(x=0, y=0, radius=0.3, name="hole")
    walls = [ts.Dirichlet(0.0, on="rim"), ts.Neumann(0.5, on="hole")]
    problem = ts.Problem(domain, ts.Equation(-ts.Laplacian(), 1.0), walls)
    return ts.solve(problem, **{**CELLS, "subdomains": 3})


def test_fluxes_through_walls_are_those_of_the_function(solution):
    assert solution.integral(FLUX, on="xmax") == pytest.approx(np.e * np.sin(2), rel=1e-5)
    along_x = ts.Normal("x") @ ts.D(x=1)
    assert solution.integral(along_x, on="xmin") == pytest.approx(-np.sin(2), rel=1e-4)
    assert solution.integral(FLUX, on=SQUARE.walls) == pytest.approx(0.0, abs=1e-4)
    squares = solution.integral(lambda d, x: d(x=1) ** 2 + d(y=1) ** 2, on="xmax")
    assert squares == pytest.approx(2 * np.e**2, rel=1e-4)


def test_what_leaves_a_shape_is_what_is_made_in_it(disc):
    """Of the solution as it is, by Gauss's theorem, and through the hole as much as was asked."""
    made = disc.integral(ts.Laplacian())
    assert disc.integral(FLUX, on=("rim", "hole")) == pytest.approx(made, rel=1e-4)
    assert disc.integral(FLUX, on="hole") == pytest.approx(0.3 * np.pi, rel=1e-3)
    assert disc.integral(on="hole") > 0


def test_rules_that_do_not_agree_are_spoken_of(solution):
    with pytest.warns(UserWarning, match="another rule differs by .*may be singular"):
        solution.integral(lambda d, x: d() * abs(x[:, 1] - 0.3) ** -0.9, on="xmin")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solution.integral(FLUX, on="xmin")


def test_extrema_on_walls_and_at_corners(solution):
    largest, smallest = solution.max(), solution.min()
    assert largest.value == pytest.approx(np.e, rel=1e-5)
    np.testing.assert_allclose(largest.at, (1, 0), atol=2e-3)
    assert smallest.value == pytest.approx(np.e * np.cos(2), rel=1e-5)
    np.testing.assert_allclose(smallest.at, (1, 2), atol=1e-8)
    assert solution.min(ts.D(y=1)).value == pytest.approx(-np.e, rel=1e-4)


def test_an_extremum_inside_is_where_the_gradient_vanishes(disc):
    value, at = disc.max()
    slopes = [disc.apply(ts.D(**{axis: 1}), at)[0] for axis in "xy"]
    x = disc.problem.domain.scatter(4000, np.random.default_rng(0))
    assert value >= disc(x).max() and value - disc(x).max() < 1e-2
    assert np.linalg.norm(slopes) < 1e-8 or disc.problem.domain.signed_distance(at[None]) > -1e-6


def test_every_unknown_has_its_own_extrema():
    u, v = ts.Field("u"), ts.Field("v")
    equations = [ts.Equation(ts.D(x=1) @ u - v, 0.0), ts.Equation(ts.D(x=1) @ v + u, 0.0)]
    start = [ts.Condition(u, 0.0, on="xmin"), ts.Condition(v, 1.0, on="xmin")]
    circle = ts.Problem(ts.Box(x=(0, 2)), equations, start)
    found = ts.solve(circle, subdomains=2, features=20, coupling="interfaces")
    assert found["u"].max().value == pytest.approx(1.0, abs=1e-8)
    assert found["u"].max().at[0] == pytest.approx(np.pi / 2, abs=1e-6)
    assert found["v"].min().value == pytest.approx(np.cos(2), abs=1e-8)
    with pytest.raises(ValueError, match=r"unknowns u, v: ask .*solution\['u'\].max"):
        found.max()


def test_the_residual_of_a_single_statement(solution, disc):
    wall = np.array([[1.0, 0.5], [1.0, 1.5]])
    missed = solution(wall) - harmonic(wall)
    np.testing.assert_array_equal(solution.residual(wall, on="sides"), missed)
    assert solution.residual(on="sides").shape == (200,)
    np.testing.assert_array_equal(solution.residual(on="xmax"), solution.residual(on="sides")[100:])
    inside = solution.residual(on="equation")
    assert inside.shape == (98 * 98,) and np.abs(inside).max() < 1
    x, normals = disc.problem.domain.boundary("hole", (20, 20))
    slope = disc.apply(FLUX, x, normals) - 0.5
    np.testing.assert_allclose(disc.residual(x, on="hole"), slope, atol=1e-6)
    with pytest.raises(ValueError, match=r"no statement .* there are equation, sides, ends, xmin"):
        solution.residual(on="top")
    with pytest.raises(TypeError, match="needs points, or on="):
        solution.residual()


def test_estimates_are_told_in_the_units_of_the_unknown():
    """In units a thousand times smaller they are a thousand times larger."""
    found = []
    for size in (1.0, 1e3):
        walls = [ts.Dirichlet(lambda p, size=size: size * harmonic(p))]
        problem = ts.Problem(SQUARE, ts.Equation(-ts.Laplacian(), 0.0), walls)
        found.append(ts.solve(problem, **CELLS).report)
    small, large = (own.absolute_estimates["u"]["mean"] for own in found)
    assert large == pytest.approx(1e3 * small, rel=1e-3)
    assert small == found[0].error_estimate * found[0].spreads["u"]
    assert f"{large:.1e} mean" in str(found[1])
