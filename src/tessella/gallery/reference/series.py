"""The wave equation on a square by its double sine series.

u_tt = c^2 (u_xx + u_yy) on [-1, 1]^2 with u = 0 on the walls, u_t = 0 and a Gaussian at t = 0:

    u = sum_mn a_m b_n sin(m pi (x+1)/2) sin(n pi (y+1)/2) cos(c pi/2 sqrt(m^2 + n^2) t).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tessella.machine.arrays import Array


@dataclass(frozen=True)
class GaussianWave:
    """Exact solution for u(0) = exp(-|x - centre|^2 / (2 width^2)) on [-1, 1]^2.

    Modes whose amplitude a_m b_n is below `cutoff` are left out, and so are all beyond 16 / width +
    20 each way. Two figures say what that costs at points anywhere and at any time: `truncation`
    bounds the error from the computed modes left out at every single point; `rms_bound` bounds the
    root mean square error over the square from everything left out. The difference is the wall,
    where the Gaussian is not quite zero: the coefficients beyond decay like its value there over m,
    which sums in the mean square but not point by point.
    """

    width: float
    speed: float = 1.0
    centre: tuple[float, float] = (0.0, 0.0)
    cutoff: float = 1e-12

    @cached_property
    def _amplitudes(self) -> tuple[Array, Array]:
        most = int(np.ceil(16 / self.width)) + 20
        return tuple(sine_coefficients(self.width, mu, most) for mu in self.centre)  # type: ignore[return-value]

    @cached_property
    def _modes(self) -> tuple[Array, Array, Array]:
        """Mode numbers (m, n) and amplitudes of every mode above the cutoff."""
        a, b = self._amplitudes
        product = np.abs(np.outer(a, b))
        m, n = np.nonzero(product > self.cutoff)
        return np.asarray(m + 1, float), np.asarray(n + 1, float), a[m] * b[n]

    @cached_property
    def truncation(self) -> float:
        """Sum of |a_m b_n| over the computed modes left out: a bound on the error they cause."""
        a, b = self._amplitudes
        total = np.abs(a).sum() * np.abs(b).sum()
        return float(total - np.abs(self._modes[2]).sum())

    @cached_property
    def rms_bound(self) -> float:
        """Bound on the root mean square error over [-1, 1]^2 at any time, all modes counted.

        The modes are orthonormal and only turn in time, so the squares of what is left out add up
        (Parseval). Beyond the computed modes, with k = m pi / 2 and s the sum of the Gaussian's
        values at both walls,

            |a_m| <= width sqrt(2 pi) exp(-(k width)^2 / 2) + 2 s / k:

        the transform of the whole Gaussian, and the second mean value theorem for its tails.
        """
        a, b = self._amplitudes
        small = np.outer(a, b)
        omitted = np.sum(np.where(np.abs(small) > self.cutoff, 0.0, small) ** 2)
        beyond = [self._tail_squared(mu, len(a)) for mu in self.centre]
        total = omitted + beyond[0] * (b @ b + beyond[1]) + beyond[1] * (a @ a)
        return float(np.sqrt(total) / 2)

    def _tail_squared(self, centre: float, count: int) -> float:
        """Bound on the sum of a_m^2 over m > count, by (p + q)^2 <= 2 p^2 + 2 q^2."""
        k = np.pi / 2 * np.arange(count + 1, 4 * count + 1)
        smooth = 2 * np.pi * self.width**2 * np.sum(np.exp(-((k * self.width) ** 2)))
        walls = sum(np.exp(-((1 - sign * centre) ** 2) / (2 * self.width**2)) for sign in (1, -1))
        # sum over m > count of (2 walls / k)^2 <= (4 walls / pi)^2 / count
        return float(2 * smooth + 2 * (4 * walls / np.pi) ** 2 / count)

    def __call__(self, points: Array) -> Array:
        """Values at scattered (n, 3) points (x, y, t)."""
        points = np.asarray(points)
        x, y, t = points[:, 0], points[:, 1], points[:, 2]
        m, n, amplitude = self._modes
        rate = self.speed * np.pi / 2 * np.hypot(m, n)
        values = np.empty(len(points))
        for start in range(0, len(points), 2048):
            s = slice(start, start + 2048)
            waves = np.sin(np.outer(x[s] + 1, m * np.pi / 2))
            waves *= np.sin(np.outer(y[s] + 1, n * np.pi / 2))
            waves *= np.cos(np.outer(t[s], rate))
            values[s] = waves @ amplitude
        return values


def sine_coefficients(width: float, centre: float, count: int) -> Array:
    """a_m = int_-1^1 exp(-(x - centre)^2 / (2 width^2)) sin(m pi (x+1)/2) dx, m = 1..count.

    Gauss-Legendre quadrature with enough points for the Gaussian and the highest mode.
    """
    nodes, weights = np.polynomial.legendre.leggauss(max(200, 4 * count, int(40 / width)))
    gaussian = np.exp(-((nodes - centre) ** 2) / (2 * width**2))
    m = np.arange(1, count + 1)
    return np.sin(np.outer(m, np.pi * (nodes + 1) / 2)) @ (weights * gaussian)
