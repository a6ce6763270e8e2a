"""The Gray-Scott reaction on a circle, by Fourier series."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.fft import irfft, rfft

from tessella.gallery.reference.chebyshev import chebyshev_points, interpolation
from tessella.gallery.reference.fourier import Coefficients, exponential_steps
from tessella.machine.arrays import Array

DIFFUSION = (0.02, 0.01)
FEED, REMOVAL, RATE = 4.0, 10.0, 100.0


def start(x: Array) -> tuple[Array, Array]:
    """u and v at t = 0: food everywhere, less of it in the middle, where there is some v."""
    bump = np.exp(10 * (np.cos(np.pi * x) - 1))
    return 1 - bump / 2, bump / 4


@dataclass(frozen=True)
class GrayScott:
    """u_t = 0.02 u_xx + 4 (1 - u) - 100 u v^2, v_t = 0.01 v_xx - 10 v + 100 u v^2 on [-1, 1],
    periodic, 0 <= t <= 1: a bump of v splits in two that move apart.

    `n` values in space; `steps` of exponential time differencing are interpolated between `times`
    Chebyshev times. Twice of all three changes u and v by 1e-12.
    """

    n: int = 256
    steps: int = 4_000
    times: int = 64

    @cached_property
    def coefficients(self) -> Coefficients:
        """Fourier coefficients, (times + 1, 2, n / 2 + 1)."""
        n, k = self.n, np.pi * np.arange(self.n // 2 + 1)
        L = -np.outer(DIFFUSION, k**2) - np.array([[FEED], [REMOVAL]])

        def reaction(w: Coefficients) -> Coefficients:
            u, v = irfft(w, n)
            made = RATE * u * v**2
            return rfft(np.stack([FEED - made, made]))

        initial = rfft(np.stack(start(-1 + 2 * np.arange(n) / n)))
        t = chebyshev_points(self.times, 0.0, 1.0)
        return exponential_steps(L, reaction, initial, t, 1 / self.steps)

    def values(self, points: Array) -> Array:
        """(n, 2) values of u and v at points (x, t)."""
        x, t = np.asarray(points, float).T
        chosen, place = np.unique(t, return_inverse=True)
        k = np.arange(self.n // 2 + 1)
        weights = np.where((k == 0) | (k == self.n // 2), 1, 2) / self.n
        nodes = chebyshev_points(self.times, 0.0, 1.0)
        in_time = np.einsum("ti,ifk->tfk", interpolation(nodes, chosen), self.coefficients)
        found = np.empty((len(x), 2))
        for part in np.array_split(np.arange(len(x)), len(x) // 2_000 + 1):
            waves = weights * np.exp(1j * np.pi * np.outer(x[part] + 1, k))
            found[part] = np.einsum("pfk,pk->pf", in_time[place[part]], waves).real
        return found

    def u(self, points: Array) -> Array:
        return self.values(points)[:, 0]

    def v(self, points: Array) -> Array:
        return self.values(points)[:, 1]
