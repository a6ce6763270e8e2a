"""Bratu's problem -Laplace(u) = lam exp(u), u = 0 on the boundary, and its two branches.

Two solutions for 0 < lam < fold, one at the fold, none beyond. On the line and the disc they are
formulas, on the square Chebyshev polynomials.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from tessella.gallery.reference.chebyshev import (
    chebyshev_points,
    differentiation,
    interpolation,
)
from tessella.machine.arrays import AnyArray, Array, namespace

FOLD_LINE = 3.513830719125162
FOLD_SQUARE = 6.808124422584
"""Found again by `SquareBratu.fold`; the literature has 6.808124423."""

INNER_RADIUS = 0.5394
"""Of the disc that the unit square is mapped to with its centre fixed and unstretched: Bratu's
problem on it is nearly that on the square."""


@dataclass(frozen=True)
class LineBratu:
    """On [0, 1]: u = 2 log(cosh(c) / cosh(c (1 - 2 x))) with sqrt(lam / 8) cosh(c) = c."""

    lam: float
    upper: bool = False

    @cached_property
    def c(self) -> float:
        def missed(c: float) -> float:
            return math.log(c) - 0.5 * math.log(self.lam / 8) - math.log(math.cosh(c))

        turn = 1.1996786402577337
        ends = (turn, 300.0) if self.upper else (1e-12, turn)
        return float(brentq(missed, *ends, xtol=1e-15, rtol=1e-15))

    def __call__(self, points: Array) -> Array:
        x = points[:, 0]
        return np.asarray(2 * (_log_cosh(self.c) - _log_cosh(self.c * (1 - 2 * x))))


def _log_cosh(z: Array | float) -> Array:
    return np.asarray(np.abs(z) + np.log1p(np.exp(-2 * np.abs(z))) - math.log(2.0))


def disc_bratu(lam: float, upper: bool, radius: float, r2: AnyArray) -> AnyArray:
    """On a disc, at squared distances r^2 from its centre:
    u = 2 log((1 + b) / (1 + b r^2 / radius^2)) with lam radius^2 = 8 b / (1 + b)^2; at
    lam radius^2 = 2 and beyond, that of the fold. With NumPy or JAX."""
    middle = max(4 / (lam * radius**2) - 1, 1.0)
    b = middle + (1 if upper else -1) * math.sqrt(middle**2 - 1)
    return 2 * namespace(r2).log((1 + b) / (1 + b * r2 / radius**2))


@dataclass(frozen=True)
class SquareBratu:
    """On the unit square, by Newton's method for the values at Chebyshev points of a quarter.

    At the corners u = 0 along both sides but Laplace(u) = -lam, so u is like lam r^2 log r there.
    w = u + lam h is smoother, where h is the sum over the corners of Im(z^2 log z) / pi, which is
    harmonic; w is what the polynomials stand for. 40 points leave an error of 2e-12 on both
    branches at lam = 1; on the upper one more are needed as lam falls, since its peak narrows.
    """

    lam: float
    upper: bool = False
    points: int = 40

    @cached_property
    def x(self) -> Array:
        """The points of one axis, from the wall to the middle."""
        return chebyshev_points(self.points, 0.0, 0.5)

    @cached_property
    def _even(self) -> Array:
        """From values at all points but the middle to all: the slope there is zero."""
        last = differentiation(self.x)[-1]
        return np.vstack([np.eye(self.points), -last[:-1] / last[-1]])

    @cached_property
    def _operators(self) -> tuple[Array, Array]:
        """The Laplacian for inner values, and that of h."""
        D = differentiation(self.x)
        second = (D @ D @ self._even)[1:-1]
        inner, one = second[:, 1:], np.eye(self.points - 1)
        h = self._corners[:-1, :-1]
        laplacian = np.kron(inner, one) + np.kron(one, inner)
        of_h = (second @ h)[:, 1:] + (h @ second.T)[1:, :]
        return laplacian, of_h.ravel()

    @cached_property
    def _corners(self) -> Array:
        return corner_part(self.x[:, None], self.x[None, :])

    @cached_property
    def inner(self) -> Array:
        """u at the inner points, flat."""
        laplacian, of_h = self._operators
        u = self._start.copy()
        for _ in range(50):
            source = self.lam * np.exp(u)
            defect = laplacian @ u + self.lam * of_h + source
            change = np.linalg.solve(laplacian + np.diag(source), defect)
            u -= change
            if np.max(np.abs(change)) < 1e-11:
                return u
        raise ValueError(f"Newton's method did not converge at lam={self.lam:g}")

    @property
    def _start(self) -> Array:
        x = self.x[1:-1] - 0.5
        r2 = np.add.outer(x**2, x**2).ravel()
        return np.maximum(disc_bratu(self.lam, self.upper, INNER_RADIUS, r2), 0.0)

    def __call__(self, points: Array) -> Array:
        w = self.lam * self._corners[:-1, :-1]
        w[1:, 1:] += self.inner.reshape(self.points - 1, -1)
        w = self._even @ w @ self._even.T
        x, y = (interpolation(self.x, 0.5 - np.abs(c - 0.5)) for c in points.T)
        return np.asarray(np.sum((x @ w) * y, axis=1) - self.lam * corner_part(*points.T))

    def fold(self) -> float:
        """The largest lam of all solutions, as a function of u at the innermost point."""
        laplacian, of_h = self._operators
        start = SquareBratu(6.5, True, self.points).inner

        def negative(peak: float) -> float:
            u, lam = start, 6.5
            for _ in range(8):
                e = np.exp(u)
                J = np.zeros((len(u) + 1,) * 2)
                J[:-1, :-1] = laplacian + np.diag(lam * e)
                J[:-1, -1] = of_h + e
                J[-1, -2] = 1.0
                missed = np.append(laplacian @ u + lam * (of_h + e), u[-1] - peak)
                change = np.linalg.solve(J, missed)
                u, lam = u - change[:-1], lam - change[-1]
            return -float(lam)

        return float(-minimize_scalar(negative, bounds=(1.2, 1.6), method="bounded").fun)


def corner_part(x: Array, y: Array) -> Array:
    """The sum of Im(z^2 log z) / pi over the four corners, z counted inwards from each."""
    total = np.zeros(np.broadcast_shapes(np.shape(x), np.shape(y)))
    for a in (x, 1 - x):
        for b in (y, 1 - y):
            r = np.hypot(a, b)
            log = np.log(np.where(r > 0, r, 1.0))
            total += (2 * a * b * log + np.arctan2(b, a) * (a**2 - b**2)) / np.pi
    return total
