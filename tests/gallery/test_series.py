"""The double sine series solves the wave equation, and so serves as the reference."""

import numpy as np
import pytest

from tessella.gallery.reference.series import GaussianWave, sine_coefficients

WAVES = {
    "middle": GaussianWave(0.15),
    "fast": GaussianWave(0.15, speed=2.0),
    "aside": GaussianWave(0.12, centre=(0.2, -0.1)),
}
waves = pytest.mark.parametrize("wave", WAVES.values(), ids=WAVES)


def second_difference(u, points, axis, h=5e-3):
    """Sixth-order central difference."""
    step = np.zeros(3)
    step[axis] = h
    weights = {0: -49 / 18, 1: 3 / 2, 2: -3 / 20, 3: 1 / 90}
    total = weights[0] * u(points)
    for k in (1, 2, 3):
        total = total + weights[k] * (u(points + k * step) + u(points - k * step))
    return total / h**2


@waves
def test_it_satisfies_the_wave_equation(wave, rng):
    points = rng.uniform([-0.9, -0.9, 0.1], [0.9, 0.9, 1.0], (40, 3))
    u_xx, u_yy, u_tt = (second_difference(wave, points, axis) for axis in range(3))
    size = np.abs(u_tt).max()
    assert size > 1
    np.testing.assert_allclose(u_tt, wave.speed**2 * (u_xx + u_yy), atol=1e-5 * size)


@waves
def test_it_vanishes_on_the_walls(wave, rng):
    points = rng.uniform([-1, -1, 0], [1, 1, 2], (40, 3))
    for axis in (0, 1):
        for end in (-1.0, 1.0):
            on_wall = points.copy()
            on_wall[:, axis] = end
            np.testing.assert_allclose(wave(on_wall), 0.0, atol=1e-12)


@waves
def test_it_starts_from_the_gaussian_at_rest(wave, rng):
    points = rng.uniform([-0.9, -0.9, 0], [0.9, 0.9, 0], (40, 3))
    distance = np.sum((points[:, :2] - wave.centre) ** 2, axis=1)
    gaussian = np.exp(-distance / (2 * wave.width**2))
    np.testing.assert_allclose(wave(points), gaussian, atol=1e-8)
    moment = np.array([0, 0, 1e-3])
    np.testing.assert_array_equal(wave(points + moment), wave(points - moment))


def test_the_solution_before_the_walls_are_felt_is_radial():
    wave, r = GaussianWave(0.1), 0.3
    angles = np.linspace(0, 2 * np.pi, 9)
    circle = np.stack([r * np.cos(angles), r * np.sin(angles), 0 * angles + 0.25], axis=1)
    values = wave(circle)
    np.testing.assert_allclose(values, values[0], atol=1e-9)


def test_the_coefficients_are_those_of_the_gaussian():
    """For a narrow Gaussian in the middle: sqrt(2 pi) w exp(-(k w)^2 / 2), k = m pi / 2, m odd."""
    width, m = 0.12, np.arange(1, 31)
    k = m * np.pi / 2
    expected = np.sqrt(2 * np.pi) * width * np.exp(-((k * width) ** 2) / 2) * np.sin(k)
    np.testing.assert_allclose(sine_coefficients(width, 0.0, 30), expected, atol=1e-12)


def test_wide_gaussians_are_cut_off_at_the_wall():
    """What is left out is bounded by `truncation`, of the size of the Gaussian on the wall."""
    wave = GaussianWave(0.2)
    assert wave.truncation < 1e-4
    finer = GaussianWave(0.2, cutoff=0.0)
    points = np.random.default_rng(3).uniform([-1, -1, 0], [1, 1, 1], (50, 3))
    assert np.abs(wave(points) - finer(points)).max() <= wave.truncation + 1e-14


def test_many_points_are_evaluated_like_few(rng):
    points = rng.uniform([-1, -1, 0], [1, 1, 1], (5000, 3))
    wave = WAVES["middle"]
    np.testing.assert_allclose(wave(points)[-3:], wave(points[-3:]), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("wave", [GaussianWave(0.3, cutoff=1e-4), GaussianWave(0.15, cutoff=1e-6)])
def test_the_rms_bound_holds_on_a_grid_and_is_not_idle(wave):
    """Against the series with every mode and a finer cutoff, over the square at some time."""
    ticks = np.linspace(-1, 1, 26)[:-1]
    x, y = np.meshgrid(ticks, ticks)
    points = np.column_stack([x.ravel(), y.ravel(), np.full(x.size, 0.37)])
    error = np.sqrt(np.mean((wave(points) - GaussianWave(wave.width, cutoff=0.0)(points)) ** 2))
    assert error <= wave.rms_bound
    if wave.width < 0.2:
        assert error > 0.3 * wave.rms_bound
    assert GaussianWave(0.2).rms_bound < 1e-6
