"""Where the rows of subdomains side by side are: the same places in each of them.

The equations are asked at Gauss points inside, and on each of the 2d faces there are some slots of
rows at the face's Gauss points. On an outer face a slot holds a condition; on an interior one it
holds a normal derivative, turned into orthonormal modes, of which the first are matched with the
traces and the others with zero. After these come measurements, in the subdomain that contains their
point, integrals, which glueing sums up, and parts of faces where neighbours are smaller.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tessella.collocation import Grid
from tessella.conditions import IntegralCondition, PointCondition
from tessella.decomposition import Decomposition
from tessella.domain import Array
from tessella.interfaces import (
    GluedBasis,
    Side,
    common_degree,
    face_modes,
    gauss,
    glue_orders,
    tiling_of,
)
from tessella.problem import Problem
from tessella.tree import WHOLE, middle, parts


class Slot(NamedTuple):
    """Consecutive rows of the layout at some local points, with quadrature weights."""

    rows: slice
    points: Array
    weights: Array


@dataclass(frozen=True)
class Layout:
    """The rows that every subdomain has, used or not.

    inside  one slot per equation
    faces   [axis, side, part] -> slots of that face, or of a part of it where neighbours are
            smaller (see `tree`); the others belong to the faces of an axis: of its `modes`, the
            first `polynomials` and as many of the enrichment make up the `traces`
    data    per `Measured`, as many rows as the subdomain with most of its points needs
    sums    one slot per `Integral`
    common  rows without those of parts of faces, which come last
    """

    inside: tuple[Slot, ...]
    faces: dict[Side, tuple[Slot, ...]]
    data: tuple[slice, ...]
    sums: tuple[Slot, ...]
    modes: tuple[Array, ...]
    polynomials: tuple[int, ...]
    traces: tuple[int, ...]
    common: int
    height: int


def layout(problem: Problem, basis: GluedBasis, counts: tuple[int, ...]) -> Layout:
    d = len(counts)
    domain, tiling = problem.domain, tiling_of(basis)
    orders, degree = glue_orders(problem), common_degree(basis)
    start = 0

    def slots(number: int, points: Array, weights: Array) -> tuple[Slot, ...]:
        nonlocal start
        first, n = start, len(points)
        start += number * n
        return tuple(
            Slot(slice(first + k * n, first + (k + 1) * n), points, weights) for k in range(number)
        )

    inside = slots(len(problem.equations), *gauss(counts))
    faces, modes, polynomials = {}, [], []
    extra = max(len(own.enrichment) for own in basis.levels)
    on_faces = tuple(max(n, degree + 1 + extra) for n in counts)
    for axis in range(d):
        across = on_faces[:axis] + on_faces[axis + 1 :]
        points, weights = gauss(across)
        matrix, number = face_modes(across, degree)
        modes.append(matrix)
        polynomials.append(number)
        for side in (0, 1):
            name = f"{domain.axes[axis]}{('min', 'max')[side]}"
            held = sum(name in c.faces(domain) for c in problem.conditions)
            divided = tiling.subdomains[axis] > 1 or tiling.cut
            glued = sum(own[axis] for own in orders) if divided else 0
            z = np.insert(points, axis, 2.0 * side - 1.0, axis=1)
            faces[axis, side, WHOLE] = slots(max(held, glued), z, weights)
    data = []
    for condition in problem.conditions:
        if isinstance(condition, PointCondition):
            most = int(np.bincount(owners(tiling, condition)).max())
            data.append(slice(start, start + most))
            start += most
    integrals = sum(isinstance(c, IntegralCondition) for c in problem.conditions)
    sums = slots(integrals, *gauss(tuple(max(n, SUM_POINTS) for n in counts)))
    common = start
    for axis, side, part in itertools.product(range(d), (0, 1), parts(d) if tiling.cut else ()):
        points, weights = gauss(on_faces[:axis] + on_faces[axis + 1 :])
        z = np.insert(middle(part, d) + points / 2, axis, 2.0 * side - 1.0, axis=1)
        faces[axis, side, part] = slots(sum(own[axis] for own in orders), z, weights)
    traces = tuple(
        min(number + extra, len(matrix)) for number, matrix in zip(polynomials, modes, strict=True)
    )
    per_axis = tuple(modes), tuple(polynomials), traces
    return Layout(inside, faces, tuple(data), sums, *per_axis, common, start)


SUM_POINTS = 10
"""Fewest Gauss points per axis and subdomain for an integral."""


def owners(tiling: Decomposition, condition: PointCondition) -> np.ndarray:
    """The subdomain of every measurement."""
    subdomain, point = tiling.seen(tiling.domain.wrapped(condition.points))
    return subdomain[np.argsort(point)]


def points_per_subdomain(basis: GluedBasis, grid: Grid) -> tuple[int, ...]:
    """Gauss points along every axis of a subdomain, from the grid's rule for the whole domain."""
    tiling, degree = basis.decomposition, common_degree(basis)
    counts = tuple(
        math.ceil(n / S) for n, S in zip(grid.counts(basis), tiling.subdomains, strict=True)
    )
    if grid.points_per_axis is not None and max(tiling.subdomains) > 1:
        for axis, n in zip(tiling.domain.axes, counts, strict=True):
            if degree >= n and tiling.domain.dimension > 1:
                raise ValueError(
                    f"trace_degree={degree} needs {degree + 1} points along {axis} in "
                    f"every subdomain, but points_per_axis={grid.points_per_axis!r} leaves {n}: "
                    f"lower trace_degree, or raise points_per_axis"
                )
    return counts
