"""Plane waves satisfy their equation, wherever one has them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessella as ts
from tessella.features.plane_waves import plane_waves, real_roots
from tessella.solving.waves import waves_of

WAVE = {(0, 2): 1.0, (2, 0): -4.0}
POSITIVE = st.floats(0.1, 10.0)


def applied(coefficients, features, half_widths, points):
    """sum_alpha c_alpha D^alpha of every wave at points of a cell, and the size of the terms."""
    (layer,) = features.draw(1, len(half_widths), 3)
    w, b = layer.weights[0] / half_widths, layer.biases[0]
    total, size = 0.0, 0.0
    for alpha, c in coefficients.items():
        phase = (points * half_widths) @ w.T + b + sum(alpha) * np.pi / 2
        term = c * np.prod(w ** np.array(alpha), axis=1) * np.sin(phase)
        total, size = total + term, size + np.abs(term).max()
    return total, size


@given(speed=POSITIVE, mass=st.floats(0, 10), h=POSITIVE, thickness=st.floats(0.1, 1.0))
def test_waves_with_and_without_mass_satisfy_their_equation(speed, mass, h, thickness):
    coefficients = {(0, 2): 1.0, (2, 0): -(speed**2), (0, 0): mass**2}
    half_widths = np.array([h, thickness * h / (speed + mass * h)])
    features = plane_waves(coefficients, half_widths, 1, 40)
    assert features.constant == (mass**2 == 0)
    points = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    left, size = applied(coefficients, features, half_widths, points)
    assert np.abs(left).max() <= 1e-9 * size


@pytest.mark.parametrize(
    "coefficients",
    [
        {(0, 0, 2): 1.0, (2, 0, 0): -1.0, (0, 2, 0): -2.0},
        {(0, 0, 1): 1.0, (1, 0, 0): 3.0, (0, 1, 0): -0.5},
        {(0, 0, 2): 1.0, (4, 0, 0): 1.0, (2, 2, 0): 2.0, (0, 4, 0): 1.0},
    ],
    ids=["anisotropic", "advection", "plate"],
)
def test_in_the_plane_too(coefficients):
    half_widths = np.array([0.2, 0.3, 0.01])
    features = plane_waves(coefficients, half_widths, 2, 60)
    points = np.random.default_rng(0).uniform(-1, 1, (20, 3))
    left, size = applied(coefficients, features, half_widths, points)
    assert np.abs(left).max() <= 1e-9 * size


@pytest.mark.parametrize(
    "coefficients",
    [
        {(0, 1): 1.0, (2, 0): -1.0},
        {(0, 2): 1.0, (2, 0): 1.0},
        {(0, 2): 1.0, (0, 1): 0.3, (2, 0): -1.0},
        {(2, 0): 1.0},
    ],
    ids=["heat", "elliptic", "damped", "no time"],
)
def test_equations_without_real_waves_have_none(coefficients):
    assert plane_waves(coefficients, np.array([1.0, 1.0]), 1, 20) is None


def test_in_too_thick_slabs_there_are_none():
    assert plane_waves(WAVE, np.array([1.0, 0.5]), 1, 20) is not None
    assert plane_waves(WAVE, np.array([1.0, 5.0]), 1, 20) is None


def test_roots_are_those_of_the_symbol():
    roots = np.sort(real_roots(WAVE, 1, np.array([[3.0, 0.0], [-1.0, 0.0]])), axis=1)
    np.testing.assert_allclose(roots, [[-6, 6], [-2, 2]], atol=1e-12)


def stated(equation, **keywords):
    domain = ts.Box(x=(0, 1), t=(0, 1))
    return ts.Problem(
        domain, equation, [ts.Dirichlet(), ts.Initial(), ts.InitialVelocity()], **keywords
    )


@pytest.mark.parametrize(
    ("problem", "cells", "has"),
    [
        (stated(ts.Equation(ts.D(t=2) - ts.D(x=2))), (4, 2), True),
        (stated(ts.Equation(ts.D(t=2) - ts.D(x=2), 1.0)), (4, 2), False),
        (stated(ts.Equation(ts.D(t=2) - (lambda p: 1 + p[:, 0]) * ts.D(x=2))), (4, 2), False),
        (stated(ts.Equation(ts.D(t=2) - ts.D(x=2))), ([0, 0.1, 1], 2), False),
        (stated(ts.Equation(ts.D(t=2) - ts.D(x=2)), ansatz=ts.Ansatz(lambda p: p[:, 1])), 2, False),
    ],
    ids=["waves", "a source", "a varying speed", "unequal cells", "an ansatz"],
)
def test_they_are_taken_where_they_solve_the_equation(problem, cells, has):
    found = waves_of(problem, ts.Tiling(problem.domain, cells), 30)
    assert (found is not None) == has
    if has:
        assert found.in_words == "30 plane waves"
        assert found.poorer(2).count == 15 and found.poorer(2).scale < found.scale


def test_a_plane_wave_is_found_to_rounding():
    def wave(p):
        return np.cos(2 * (p[:, 0] - p[:, 1]))

    problem = ts.Problem(
        ts.Box(x=(0, 1), t=(0, 1)),
        ts.Equation(ts.D(t=1) + ts.D(x=1)),
        [ts.Dirichlet(wave, on="xmin"), ts.Initial(wave)],
        exact=wave,
    )
    tiling = ts.Tiling(problem.domain, (2, 2))
    basis = ts.CellBasis(tiling, waves_of(problem, tiling, 30))
    assert ts.solve(problem, basis=basis).report.error["max"] < 1e-9
