"""Polynomials through Chebyshev points: differentiation and interpolation."""

from __future__ import annotations

import numpy as np

from tessella.machine.arrays import Array


def chebyshev_points(n: int, low: float, high: float) -> Array:
    """n + 1 points from low to high, dense at both ends."""
    return low + (high - low) * (1 - np.cos(np.pi * np.arange(n + 1) / n)) / 2


def differentiation(x: Array) -> Array:
    """The matrix that differentiates the polynomial through values at Chebyshev points x."""
    n = len(x) - 1
    c = _alternating(n)
    apart = x[:, None] - x + np.eye(n + 1)
    D = (c / c[:, None]) / apart
    np.fill_diagonal(D, 0.0)
    return D - np.diag(D.sum(axis=1))


def interpolation(x: Array, at: Array) -> Array:
    """The matrix from values at Chebyshev points x to those of the polynomial `at` others."""
    apart = at[:, None] - x
    on = apart == 0
    weights = _alternating(len(x) - 1) / np.where(on, 1.0, apart)
    weights = np.where(on.any(axis=1, keepdims=True), on, weights)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _alternating(n: int) -> Array:
    """The barycentric weights."""
    c = np.where(np.arange(n + 1) % 2, -1.0, 1.0)
    c[[0, -1]] /= 2
    return c
