"""One metric for all, and what curves of error against time say about each other."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

TARGETS = (1e-6, 1e-8, 1e-11)
"""Errors to which times are compared."""

Point = tuple[float, float]
"""(seconds, error)"""


def normalised_l1(computed: np.ndarray, exact: np.ndarray) -> float:
    """mean |u - exact| / std(exact); infinite where u is not a number anywhere."""
    if computed.shape != exact.shape:
        raise ValueError(f"{computed.shape} values for {exact.shape} test points")
    error = float(np.mean(np.abs(computed - exact)) / np.std(exact))
    return error if math.isfinite(error) else math.inf


def pareto(points: Sequence[Point]) -> list[int]:
    """Indices of the points that no other beats in both time and error, by time."""
    front: list[int] = []
    least = math.inf
    for i in sorted(range(len(points)), key=lambda i: points[i]):
        if points[i][1] < least:
            front.append(i)
            least = points[i][1]
    return front


def time_to(error: float, curve: Sequence[Point]) -> float | None:
    """Seconds to reach an error: the fastest run that did, no interpolation; None if none did."""
    return min((t for t, e in curve if e <= error), default=None)


def error_within(seconds: float, curve: Sequence[Point]) -> float | None:
    """The smallest error of the runs that took no longer; None if all did."""
    return min((e for t, e in curve if t <= seconds), default=None)
