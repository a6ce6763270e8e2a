"""References of nonlinear problems, each against something that knows nothing of it."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from tessella.gallery.reference import fourier
from tessella.gallery.reference.bratu import FOLD_SQUARE, LineBratu, SquareBratu
from tessella.gallery.reference.cavity import EXTREMA, LidCavity, lid_corners
from tessella.gallery.reference.chebyshev import (
    chebyshev_points,
    differentiation,
    interpolation,
)
from tessella.gallery.reference.cole_hopf import ColeHopf
from tessella.gallery.reference.gray_scott import GrayScott, start


def second_difference(u, points, axis, h=2e-3):
    step = h * np.eye(points.shape[1])[axis]
    f = {k: u(points + k * step) for k in (-2, -1, 0, 1, 2)}
    return (-f[-2] + 16 * f[-1] - 30 * f[0] + 16 * f[1] - f[2]) / (12 * h**2)


def relative(found, wanted):
    return np.linalg.norm(found - wanted) / np.linalg.norm(wanted)


def test_chebyshev_points_are_exact_for_polynomials(rng):
    x, at = chebyshev_points(9, -1.0, 2.0), rng.uniform(-1, 2, 20)
    at[0] = x[3]
    np.testing.assert_allclose(interpolation(x, at) @ x**9, at**9, rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(differentiation(x) @ x**9, 9 * x**8, rtol=1e-11, atol=1e-10)


def test_cole_and_hopf_agree_with_fourier_series():
    known = fourier.burgers(0.02, 640, 2_000)
    t, x = np.meshgrid(np.linspace(0, 1, fourier.TIMES), fourier.places(-1, 1), indexing="ij")
    points = np.stack([x.ravel(), t.ravel()], axis=1)
    np.testing.assert_allclose(ColeHopf(0.02)(points), known.ravel(), atol=1e-11)


@pytest.mark.parametrize("nu", [0.01 / np.pi, 1e-3, 1e-5])
def test_cole_and_hopf_do_not_depend_on_the_quadrature(nu, rng):
    points = rng.uniform([-1, 0], [1, 1], (200, 2))
    points[:20, 0] *= nu
    fine = ColeHopf(nu, fine=5.0, tail=60.0)(points)
    np.testing.assert_allclose(ColeHopf(nu)(points), fine, atol=1e-12)
    np.testing.assert_allclose(ColeHopf(nu)(points * [-1, 1]), -fine, atol=1e-12)


def test_exponential_steps_are_of_fourth_order_and_right():
    """Against Radau's method on the same modes, Allen-Cahn with a smooth start."""
    n, k = 32, np.arange(17)
    L, u = 5 - 0.02 * (np.pi * k) ** 2, np.cos(np.pi * np.arange(n) / 16) / 2 + 0.2

    def slope(t, u):
        return np.fft.irfft(L * np.fft.rfft(u), n) - 5 * u**3

    right = solve_ivp(slope, (0, 0.5), u, "Radau", rtol=1e-11, atol=1e-12).y[:, -1]

    def missed(steps):
        found = fourier.exponential_steps(
            L,
            lambda v: -5 * np.fft.rfft(np.fft.irfft(v, n) ** 3),
            np.fft.rfft(u),
            np.array([0.0, 0.5]),
            0.5 / steps,
        )
        return np.max(np.abs(np.fft.irfft(found[-1], n) - right))

    errors = [missed(steps) for steps in (20, 40, 200)]
    assert 12 < errors[0] / errors[1] < 20 and errors[2] < 1e-9


@pytest.mark.parametrize(
    ("name", "modes", "steps", "early", "all_times"),
    [
        ("allen_cahn", 1280, 100, 1e-6, 1e-6),
        ("korteweg_de_vries", 320, 1_000, 1e-9, 1e-4),
        ("kuramoto_sivashinsky", 320, 1_000, 1e-5, 1e-2),
    ],
)
def test_the_tables_are_what_coarser_runs_come_near_to(name, modes, steps, early, all_times):
    points, values = fourier.table(name)
    assert points.shape == (fourier.KEPT * fourier.TIMES, 2) and len(np.unique(points[:, 1])) == 51
    values = values.reshape(fourier.TIMES, fourier.KEPT)
    found = fourier.RUNS[name].solve(modes, steps)
    assert relative(found[:11], values[:11]) < early
    assert relative(found, values) < all_times


@pytest.mark.parametrize("name", ["korteweg_de_vries", "kuramoto_sivashinsky"])
def test_the_tables_begin_as_another_integrator_does(name):
    n = fourier.KEPT
    low, high = fourier.RUNS[name].ends
    k = 2j * np.pi / (high - low) * np.arange(n // 2 + 1)
    _, values = fourier.table(name)
    kdv = name == "korteweg_de_vries"
    speed, linear = (1.0, -(0.022**2) * k**3) if kdv else (
        100 / 16, -100 / 16**2 * k**2 - 100 / 16**4 * k**4
    )  # fmt: skip

    def slope(t, u):
        v = np.fft.rfft(u)
        return np.fft.irfft(linear * v, n) - speed * u * np.fft.irfft(k * v, n)

    found = solve_ivp(slope, (0, 0.02), values[:n], "DOP853", rtol=1e-11, atol=1e-12).y[:, -1]
    np.testing.assert_allclose(found, values[n : 2 * n], atol=1e-9)


def test_the_gray_scott_reference_satisfies_its_equations(rng):
    known, points = GrayScott(), rng.uniform([-0.5, 0.1], [0.5, 0.9], (40, 2))
    u, v = known.values(points).T
    step = np.array([0.0, 1e-3])
    f = {m: known.values(points + m * step) for m in (-2, -1, 1, 2)}
    u_t, v_t = ((f[-2] - 8 * f[-1] + 8 * f[1] - f[2]) / 12e-3).T
    bent = [second_difference(one, points, 0, 1e-3) for one in (known.u, known.v)]
    np.testing.assert_allclose(u_t, 0.02 * bent[0] + 4 * (1 - u) - 100 * u * v**2, atol=1e-5)
    np.testing.assert_allclose(v_t, 0.01 * bent[1] - 10 * v + 100 * u * v**2, atol=1e-5)
    first = np.stack([points[:, 0], 0 * points[:, 0]], axis=1)
    np.testing.assert_allclose(known.values(first), np.transpose(start(points[:, 0])), atol=1e-12)


@pytest.mark.parametrize("upper", [False, True])
def test_both_branches_of_bratus_problem_satisfy_it(upper, rng):
    line, square = LineBratu(1.0, upper), SquareBratu(1.0, upper, points=32)
    x, p = rng.uniform(0.1, 0.9, (30, 1)), rng.uniform(0.1, 0.9, (30, 2))
    bent = second_difference(line, x, 0)
    np.testing.assert_allclose(-bent, np.exp(line(x)), rtol=1e-6)
    laplacian = second_difference(square, p, 0) + second_difference(square, p, 1)
    np.testing.assert_allclose(-laplacian, np.exp(square(p)), rtol=1e-4)
    walls = np.array([[0.0, 0.3], [1.0, 0.7], [0.2, 0.0], [0.9, 1.0], [0.0, 0.0]])
    np.testing.assert_allclose(square(walls), 0.0, atol=1e-12)
    assert (square(np.array([[0.5, 0.5]]))[0] > 6) == upper


def test_the_fold_of_bratus_problem_is_that_of_the_literature():
    assert SquareBratu(1.0, points=18).fold() == pytest.approx(6.808124423, abs=2e-9)
    assert pytest.approx(6.808124423, abs=1e-9) == FOLD_SQUARE
    with pytest.raises(ValueError, match="did not converge at lam=7"):
        SquareBratu(7.0, points=12).inner  # noqa: B018


def test_the_cavity_has_the_published_extrema():
    found = LidCavity(100.0, 24).extrema()
    for own, published in zip(found, EXTREMA[100.0], strict=True):
        assert own.value == pytest.approx(published.value, abs=3e-5)
        assert own.at == pytest.approx(published.at, abs=1e-4)


def test_stokes_flow_at_the_lids_corners_has_the_slopes_it_says(rng):
    p, h = rng.uniform(0.05, 0.95, (2, 20)), 1e-3
    x, y = p
    S = lid_corners(x, y)
    across = [lid_corners(x + k * h, y).psi - lid_corners(x - k * h, y).psi for k in (1, 2)]
    up = [lid_corners(x, y + k * h).psi - lid_corners(x, y - k * h).psi for k in (1, 2)]
    np.testing.assert_allclose(S.x, (8 * across[0] - across[1]) / (12 * h), atol=1e-7)
    np.testing.assert_allclose(S.y, (8 * up[0] - up[1]) / (12 * h), atol=1e-7)
    along = np.append(x, [0.0, 1.0])
    np.testing.assert_allclose(lid_corners(along, np.ones(22)).y, 2.0, rtol=1e-14)
