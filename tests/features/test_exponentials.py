"""Exponentials satisfy their equation, and cells in time need fewer of them than of sines."""

import numpy as np
import pytest

import tessella as ts
from tessella.features.exponentials import exponentials
from tessella.features.plane_waves import PlaneWaves
from tessella.features.random_features import shallow_derivatives
from tessella.solving.plan import Plan, planned
from tessella.solving.waves import waves_of

HEAT = {(0, 0, 1): 1.0, (2, 0, 0): -0.3, (0, 2, 0): -0.1}
WIND = {**HEAT, (1, 0, 0): 0.7, (1, 1, 0): -0.1, (0, 0, 0): 0.5}
DAMPED = {(0, 0, 2): 1.0, (0, 0, 1): 0.6, (2, 0, 0): -1.0, (0, 2, 0): -1.0}
HALF = np.array([0.2, 0.3, 0.1])


def derivatives(features, alphas, points, half_widths=HALF):
    (layer,) = features.draw(1, 3, 5)
    rates = [np.array([1 / h]) for h in half_widths]
    one = type(layer)(layer.weights[0], layer.biases[0])
    return shallow_derivatives(features.function, one, list(points.T), rates, tuple(alphas))


@pytest.mark.parametrize("coefficients", [HEAT, WIND, DAMPED], ids=["heat", "wind", "damped"])
def test_they_satisfy_their_equation(coefficients):
    features = exponentials(coefficients, HALF, 2, 60)
    assert features.constant == ((0, 0, 0) not in coefficients)
    points = np.random.default_rng(0).uniform(-1, 1, (40, 3))
    found = derivatives(features, coefficients, points)
    total = sum(c * found[alpha] for alpha, c in coefficients.items())
    size = sum(np.abs(c * found[alpha]) for alpha, c in coefficients.items())
    assert np.abs(total).max() <= 1e-10 * size.max()
    assert np.abs(derivatives(features, [(0, 0, 0)], points)[0, 0, 0]).max() <= 1.0


@pytest.mark.parametrize("alpha", [(1, 0, 0), (0, 1, 1), (2, 0, 1)])
def test_derivatives_are_those_of_the_values(alpha):
    features, h = exponentials(WIND, HALF, 2, 30), 1e-4
    axis = next(i for i, n in enumerate(alpha) if n)
    below = tuple(n - (i == axis) for i, n in enumerate(alpha))
    points = np.random.default_rng(1).uniform(-0.9, 0.9, (20, 3))
    step = h * np.eye(3)[axis] / HALF
    low, high = (derivatives(features, [below], points + s * step)[below] for s in (-1, 1))
    right = derivatives(features, [alpha], points)[alpha]
    np.testing.assert_allclose((high - low) / (2 * h), right, atol=1e-5 * np.abs(right).max())


@pytest.mark.parametrize(
    "coefficients",
    [
        {(0, 0, 1): 1.0, (2, 0, 0): 1.0, (0, 2, 0): 1.0},
        {(0, 0, 1): 1.0, (4, 0, 0): 1.0, (0, 4, 0): 1.0},
        {(2, 0, 0): 1.0, (0, 2, 0): 1.0},
        {(0, 0, 1): 1.0, (2, 0, 0): -1.0},
    ],
    ids=["backwards", "fourth order", "no time", "one axis"],
)
def test_other_equations_have_none(coefficients):
    assert exponentials(coefficients, HALF, 2, 30) is None
    assert exponentials({(0, 1): 1.0, (2, 0): -1.0}, HALF[:2], 1, 30) is None


def spreading(p):
    s = 0.05 + 0.2 * p[:, 2]
    return np.exp(-((p[:, 0] - 0.4) ** 2 + (p[:, 1] - 0.6) ** 2) / s) / s


SQUARE = ts.Problem(
    ts.Box(x=(0, 1), y=(0, 1), t=(0, 0.25)),
    ts.Equation(ts.D(t=1) - 0.05 * ts.Laplacian()),
    [ts.Dirichlet(spreading), ts.Initial(spreading)],
    exact=spreading,
    name="spreading",
)


def test_heat_in_the_plane_needs_fewer_of_them(tmp_path):
    sizes = {"subdomains": (2, 2, 1), "coupling": "interfaces", "estimate": False}
    sines = ts.march(SQUARE, 2, features=200, activation="sin", **sizes)
    fading = ts.march(SQUARE, 2, features=100, **sizes)
    assert fading.report.first.features == "100 exponentials"
    one, other = (own.report.error["l2_relative"] for own in (fading, sines))
    assert one < 0.5 * other
    again = ts.load(fading.save(tmp_path / "heat"), SQUARE)
    x = SQUARE.domain.scatter(100, np.random.default_rng(0))
    np.testing.assert_array_equal(again(x), fading(x))


def test_sources_and_coefficients_that_vary_have_sines():
    tiling = ts.Tiling(SQUARE.domain, (2, 2, 1))
    assert waves_of(SQUARE, tiling, 50) is not None
    plain, bent = ts.Laplacian(), (lambda p: 1 + p[:, 0]) * ts.Laplacian()
    for equation in (ts.Equation(ts.D(t=1) - plain, 1.0), ts.Equation(ts.D(t=1) - bent)):
        problem = ts.Problem(SQUARE.domain, equation, SQUARE.conditions)
        assert waves_of(problem, tiling, 50) is None


@pytest.mark.parametrize(("any_data", "waves"), [(None, True), (False, True), (True, False)])
def test_features_for_any_data_are_sines(any_data, waves):
    sizes = {"subdomains": (2, 2, 1), "features": 50, "coupling": "interfaces"}
    parts = ts.Method(**sizes, any_data=any_data).parts(SQUARE)
    assert isinstance(parts.basis.features, PlaneWaves) == waves
    method = ts.Method(tol=1e-3, any_data=any_data)
    features = planned(SQUARE, Plan((2, 2, 1)), method).basis.features
    assert isinstance(features, PlaneWaves) == waves


@pytest.mark.parametrize("order", [1, 2], ids=["heat", "wave"])
def test_what_is_factored_for_other_sources_has_sines(order):
    def still(p):
        return np.sin(np.pi * p[:, 0]) * np.sin(np.pi * p[:, 1])

    start = [ts.Initial(still), *([ts.InitialVelocity()] if order == 2 else [])]
    problem = ts.Problem(
        SQUARE.domain, ts.Equation(ts.D(t=order) - ts.Laplacian()), [ts.Dirichlet(), *start]
    )
    factored = ts.factor(problem, subdomains=(2, 2, 1), features=100, coupling="interfaces")
    found = factored.solve(rhs=lambda p: 2 * np.pi**2 * still(p))
    x = SQUARE.domain.scatter(200, np.random.default_rng(0))
    assert np.max(np.abs(found(x) - still(x))) < 2e-2
