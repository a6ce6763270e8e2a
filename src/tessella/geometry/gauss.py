"""Gauss points and weights."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.polynomial import legendre

from tessella.machine.arrays import Array


def gauss(counts: tuple[int, ...]) -> tuple[Array, Array]:
    """Tensor Gauss points on [-1, 1]^d, (n, d), last axis fastest, and weights that sum to 1."""
    if not counts:
        return np.zeros((1, 0)), np.ones(1)
    rules = [gauss_rule(n) for n in counts]
    points = np.stack(np.meshgrid(*(x for x, _ in rules), indexing="ij"), axis=-1)
    weights = np.ones(1)
    for _, w in rules:
        weights = np.multiply.outer(weights, w / 2).ravel()
    return points.reshape(-1, len(counts)), weights


gauss_rule = cache(legendre.leggauss)
"""Points and weights on [-1, 1], found once."""
