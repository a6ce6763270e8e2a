"""Where points of a boundary go when a domain changes a little: along the normals.

Along the boundary nothing need move: conditions hold there everywhere.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tessella.geometry.box import Box
from tessella.geometry.divided import Divided
from tessella.geometry.domain import Domain
from tessella.machine.arrays import Array

GRADIENT = 3e-3
"""Step of the differences that make normals, in parts of the diameter; they are of fourth order."""


def moved(before: Domain, after: Domain, part: str, x: Array, normals: Array) -> Array:
    """How far points of the boundary go, (n, d); `part` is one between regions, or nothing."""
    if isinstance(before, Box) and isinstance(after, Box):
        axis = np.argmax(np.abs(normals), axis=1)
        each = np.arange(len(x))
        low, high = after.lower - before.lower, after.upper - before.upper
        found = np.zeros_like(x)
        found[each, axis] = np.where(normals[each, axis] > 0, high[axis], low[axis])
        return found
    return -_level(after, part)(x)[:, None] * normals


def turned(before: Domain, after: Domain, part: str, x: Array, there: Array, n: Array) -> Array:
    """The normals at moved points."""
    if isinstance(before, Box):
        return n
    made = _gradient(_level(after, part), there, before.diameter)
    made -= _gradient(_level(before, part), x, before.diameter)
    made += n
    return np.asarray(made / np.linalg.norm(made, axis=1)[:, None])


def _level(domain: Domain, part: str) -> Callable[[Array], Array]:
    """A function that is the distance from a part of the boundary, near it."""
    if isinstance(domain, Divided) and part:
        region = part.split("/")[0]
        return lambda x: domain.depth(region, x)
    return domain.signed_distance


def _gradient(level: Callable[[Array], Array], x: Array, unit: float) -> Array:
    found, h = np.empty_like(x), GRADIENT * unit
    for i in range(x.shape[1]):
        step = np.eye(x.shape[1])[i] * h
        near = level(x + step) - level(x - step)
        far = level(x + 2 * step) - level(x - 2 * step)
        found[:, i] = (8 * near - far) / (12 * h)
    return found
