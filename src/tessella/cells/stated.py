"""What all processes must have stated alike."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tessella.cells.basis import AnyCellBasis
from tessella.cells.draw import digest
from tessella.cells.place import Place, Points
from tessella.cells.tiled import Cells
from tessella.machine.arrays import Array
from tessella.problem.conditions import Condition, IntegralCondition, PointCondition
from tessella.problem.problem import Problem

SAMPLED = 16
"""Points at which statements are compared."""


def fingerprint(problem: Problem, basis: AnyCellBasis, cells: Cells) -> bytes:
    """The cells and their features, and the statements at a few points."""
    drawn = [x for level in basis.levels for layer in level.layers for x in layer]
    tables = (cells.centres, cells.half_widths, *drawn, *_numbers(problem, cells))
    return digest(*(np.ascontiguousarray(x).tobytes() for x in tables))


def _numbers(problem: Problem, cells: Cells) -> Iterator[Array]:
    """Data and coefficients."""
    points = Points(cells.centres, cells.half_widths, None)
    for statement in problem.statements:
        if isinstance(statement, IntegralCondition):
            yield np.array(statement.number)
            places = cells.inner()
        elif isinstance(statement, PointCondition):
            yield statement.points
            yield statement.values(statement.points)
            places = cells.inner()
        elif isinstance(statement, Condition):
            names = statement.faces(problem.domain)
            places = [place for name in names for place in cells.on(problem, name)]
        else:
            places = cells.inner()
        x, normals = points.some(places, _spread(places))
        if not isinstance(statement, PointCondition | IntegralCondition):
            yield statement.values(x, normals)
        for field in problem.fields:
            yield from problem.symbol(statement.operator, x, normals, field).values()


def _spread(places: list[Place]) -> np.ndarray:
    """Numbers of some points from first to last."""
    count = sum(place.height for place in places)
    return np.linspace(0, count - 1, SAMPLED).astype(np.int64)
