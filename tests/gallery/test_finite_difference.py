"""The finite-difference wave: exact where theory says so, of second order elsewhere."""

import numpy as np
import pytest

import tessella as ts
from tessella.gallery.reference.finite_difference import FiniteDifferenceWave
from tessella.gallery.reference.series import GaussianWave

LINE = ts.Box(x=(-1, 1), t=(0, 1))
SQUARE = ts.Box(x=(-1, 1), y=(-1, 1), t=(0, 0.5))


def gaussian(width):
    return lambda x: np.exp(-0.5 * (x**2).sum(axis=1) / width**2)


def mode(x):
    return np.prod(np.sin(np.pi * (x + 1)), axis=1)


def test_a_standing_wave_swings_with_the_scheme_s_own_frequency():
    """Leapfrog turns an eigenvector by cos(w dt) = 1 - (dt c)^2 eigenvalue / 2 exactly."""
    wave = FiniteDifferenceWave(SQUARE, mode, speed=1.5, points_per_axis=(13, 9))
    h, dt = wave.spacing, wave.step
    eigenvalue = np.sum((2 / h * np.sin(np.pi * h / 2)) ** 2)
    frequency = np.arccos(1 - (1.5 * dt) ** 2 * eigenvalue / 2) / dt
    nodes = ts.Box(x=(-1, 1), y=(-1, 1)).grid((13, 9))
    for step in (0, 1, 2, 17):
        points = np.column_stack([nodes, np.full(len(nodes), step * dt)])
        expected = mode(nodes) * np.cos(frequency * step * dt)
        np.testing.assert_allclose(wave(points), expected, atol=1e-12)


def test_at_the_stability_limit_one_dimension_is_exact():
    """With dt = h the scheme is d'Alembert's formula, reflections included."""
    wave = FiniteDifferenceWave(LINE, gaussian(0.1), points_per_axis=41, time_step=0.05)
    assert wave.stability_limit == pytest.approx(0.05)
    x = np.linspace(-1, 1, 41)

    def with_images(s):
        return sum(
            sign * gaussian(0.1)((s - at)[:, None]) for at, sign in ((0, 1), (2, -1), (-2, -1))
        )

    for t in (0.5, 1.0, 1.5):
        found = wave(np.column_stack([x, np.full(41, t)]))
        expected = (with_images(x + t) + with_images(x - t)) / 2
        np.testing.assert_allclose(found, expected, atol=1e-12)


def observed_order(make, points, exact, nodes):
    errors = [np.abs(make(n)(points) - exact).mean() for n in nodes]
    return np.log2(errors[0] / errors[1]), np.log2(errors[1] / errors[2])


def test_it_converges_to_the_series_with_order_two(rng):
    points = rng.uniform(SQUARE.lower, SQUARE.upper, (200, 3))
    orders = observed_order(
        lambda n: FiniteDifferenceWave(SQUARE, gaussian(0.2), points_per_axis=n),
        points,
        GaussianWave(0.2)(points),
        (41, 81, 161),
    )
    assert orders == pytest.approx((2.0, 2.0), abs=0.1)


def test_a_start_with_velocity_is_of_order_two(rng):
    points = rng.uniform(LINE.lower, LINE.upper, (200, 2))
    exact = mode(points[:, :1]) * np.sin(np.pi * points[:, 1]) / np.pi
    orders = observed_order(
        lambda n: FiniteDifferenceWave(LINE, lambda x: 0 * x[:, 0], 1.0, mode, n),
        points,
        exact,
        (41, 81, 161),
    )
    assert orders == pytest.approx((2.0, 2.0), abs=0.1)


def test_a_variable_speed_is_of_order_two():
    """Three grids against each other (Richardson), as no exact solution is known."""
    points = LINE.grid((21, 7))
    coarse, middle, fine = (
        FiniteDifferenceWave(LINE, gaussian(0.2), lambda x: 1 + 0.5 * x[:, 0], points_per_axis=n)(
            points
        )
        for n in (81, 161, 321)
    )
    ratio = np.abs(coarse - middle).mean() / np.abs(middle - fine).mean()
    assert np.log2(ratio) == pytest.approx(2.0, abs=0.1)
    assert np.abs(fine - fine.reshape(21, 7)[::-1].ravel()).max() > 0.05


def test_the_walls_stay_at_rest_and_symmetry_is_kept():
    wave = FiniteDifferenceWave(SQUARE, gaussian(0.4), points_per_axis=21)
    u = wave(SQUARE.grid((21, 21, 6))).reshape(21, 21, 6)
    assert np.abs(u[[0, -1]]).max() == 0
    assert np.abs(u[:, [0, -1]]).max() == 0
    np.testing.assert_allclose(u, u.swapaxes(0, 1), atol=1e-13)
    np.testing.assert_allclose(u, u[::-1], atol=1e-13)


def test_scattered_points_are_interpolated_as_well_as_nodes(rng):
    wave = FiniteDifferenceWave(SQUARE, gaussian(0.2), points_per_axis=101)
    points = rng.uniform(SQUARE.lower, SQUARE.upper, (150, 3))
    nodes = points.copy()
    nodes[:, :2] = np.round(nodes[:, :2] / 0.02) * 0.02
    nodes[:, 2] = np.round(nodes[:, 2] / wave.step) * wave.step
    exact = GaussianWave(0.2)
    between, at = (np.abs(wave(p) - exact(p)).mean() for p in (points, nodes))
    assert between < 1.2 * at


def test_progress_reaches_the_last_step():
    seen = []
    wave = FiniteDifferenceWave(LINE, gaussian(0.2), points_per_axis=21)
    wave.at([[0.0, 0.5]], progress=lambda *figures: seen.append(figures))
    assert seen[-1][0] == seen[-1][1] == round(0.5 / wave.step)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"time_step": 0.2}, r"time_step=0.2 is unstable: with spacing 0.1 .* use at most 0.1"),
        ({"time_step": 0.08, "speed": lambda x: 2 + x[:, 0]}, "wave speed up to 3 a wave would"),
        ({"time_step": -1}, "time_step must be a positive number, got -1"),
        ({"points_per_axis": 3}, "points_per_axis must be one whole number of at least 4, or one"),
        ({"points_per_axis": (10, 10)}, "or one per spatial axis, got"),
        ({"speed": lambda x: x[:, 0]}, "speed must be positive everywhere, got -1 somewhere"),
        ({"speed": 0.0}, "speed must be positive everywhere, got 0"),
        ({"domain": ts.Box(x=(0, 1), y=(0, 1))}, "domain needs spatial axes and then t, got Box"),
        ({"domain": ts.Box(x=(0, 1), t=(1, 2))}, "the time axis must begin at 0"),
    ],
)
def test_bad_input_is_refused(change, words):
    given = {"domain": LINE, "initial": gaussian(0.2), "points_per_axis": 21, **change}
    with pytest.raises(ValueError, match=words):
        FiniteDifferenceWave(**given)([[0.0, 0.1]])


def test_times_before_the_start_are_refused():
    wave = FiniteDifferenceWave(LINE, gaussian(0.2), points_per_axis=21)
    with pytest.raises(ValueError, match=r"times must be finite and at least 0, got -0.1"):
        wave([[0.0, -0.1]])
