"""Burgers' equation by the transformation of Cole and Hopf.

u_t + u u_x = nu u_xx with u = -sin(pi x) at t = 0, which is zero at x = -1 and 1 by symmetry. With
u = -2 nu (log theta)_x the function theta solves the heat equation, so u is a mean of its initial
values,

    u(x, t) = integral u_0(x - s) exp(-G(s)) ds / integral exp(-G(s)) ds,
    G(s) = s^2 / (4 nu t) + cos(pi (x - s)) / (2 pi nu).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tessella.machine.arrays import Array

AT_ONCE = 2_000
"""Points in one table of integrands."""


@dataclass(frozen=True)
class ColeHopf:
    """The solution at (n, 2) points (x, t), to 1e-13.

    The trapezoidal rule is exact to rounding once its step resolves the narrowest bump that
    exp(-G) may have: G'' is at most (1 + pi t) / (2 nu t). `fine` is the number of steps in the
    width of that bump, and what is left out is smaller than exp(-tail). The smallest G is taken out
    of the exponent first, so nothing overflows however small nu is.
    """

    nu: float
    fine: float = 3.0
    tail: float = 40.0

    def __call__(self, points: Array) -> Array:
        x, t = np.asarray(points, float).T
        values = -np.sin(np.pi * x)
        later = np.flatnonzero(t > 0)
        for part in np.array_split(later, max(1, len(later) // AT_ONCE)):
            values[part] = self._mean(x[part, None], t[part, None])
        return values

    def _mean(self, x: Array, t: Array) -> Array:
        steepest = 1 + np.pi * t
        far = np.sqrt(np.max(steepest, initial=1.0) * (2 * self.tail + 2 / (np.pi * self.nu)))
        z = np.arange(-np.ceil(self.fine * far), np.ceil(self.fine * far) + 1) / self.fine
        s = np.sqrt(2 * self.nu * t / steepest) * z
        angle = np.pi * (x - s)
        G = z**2 / (2 * steepest) + np.cos(angle) / (2 * np.pi * self.nu)
        weights = np.exp(G.min(axis=1, keepdims=True) - G)
        return np.asarray(-np.sum(weights * np.sin(angle), axis=1) / np.sum(weights, axis=1))
