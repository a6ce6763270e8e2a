"""What a solution misses of its statements: per statement, and per cell.

At a point it is `Statement.defect`, left side minus right side. Here these are gathered: for every
statement a root mean square over points that no system has seen, for every cell what its own points
say of all statements, in units of what the operator makes of a function as fine as the cell
resolves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tessella.accuracy import tuning
from tessella.cells.boxes.tiling import Tiling
from tessella.cells.cell.sizes import operator_sizes
from tessella.geometry.box import Box
from tessella.machine.arrays import Array
from tessella.overlap.points import Rows
from tessella.problem.conditions import Condition, IntegralCondition, PointCondition
from tessella.problem.operators import D, Identity
from tessella.problem.statement import Statement
from tessella.solution.solution import Solution

SEED = 20_031
"""Of the cells' own points."""


class Defect(NamedTuple):
    """Of one statement: root mean squares of what is missed and of what is given, and the most that
    is missed at a point."""

    rows: Rows
    missed: float
    given: float
    most: float


def defects(solution: Solution, rows: Sequence[Rows]) -> list[Defect]:
    """What is missed of every statement at these points; integrals are those of the solution."""
    found = []
    for part in rows:
        source = part.source
        if isinstance(source, IntegralCondition):
            missed = abs(solution.integral(source.operator) - source.number)
            found.append(Defect(part, missed, abs(source.number), missed))
            continue
        values = source.values(part.points, part.normals)
        made = solution.apply(source.operator, part.points, part.normals)
        squares, given = (made - values) ** 2, part.mean(values**2)
        most = float(np.max(squares, initial=0.0))
        found.append(Defect(part, *map(math.sqrt, (part.mean(squares), given, most))))
    return found


def balanced(solution: Solution, part: Rows) -> float:
    """Root mean square of what cancels in an equation without a right-hand side: the sum of the
    sizes of its terms."""
    problem, total = solution.problem, np.zeros(len(part.points))
    for field in problem.fields:
        symbol = problem.symbol(part.source.operator, part.points, part.normals, field)
        for alpha, c in symbol.items():
            orders = {axis: n for axis, n in zip(problem.domain.axes, alpha, strict=True) if n}
            operator = (D(**orders) if orders else Identity()) @ problem.part(field)
            total += np.abs(c * solution.apply(operator, part.points))
    return math.sqrt(part.mean(total**2))


def loss(found: Sequence[Defect], weights: Mapping[str, float]) -> float:
    """The square root of the paper's loss."""
    squares = (weights[d.rows.source.name] * d.missed**2 for d in found)
    return math.sqrt(math.fsum(squares))


def in_cells(solution: Solution, rows: Sequence[Rows] = ()) -> Array:
    """About how wrong the solution is in every cell, root mean square times root volume.

    `rows` may have points where data are peaked, which a cell's own points could miss.
    """
    problem, tiling = solution.problem, solution.basis.decomposition
    assert isinstance(tiling, Tiling)
    k = solution.basis.levels[0].features.columns ** (1 / problem.domain.dimension)
    sizes = _Sizes(solution, k / (2 * tiling.half_widths))
    squares = np.zeros(tiling.count)
    for statement, cells, x, normals in _own_points(solution, tiling):
        here = statement.holds(problem.domain, x)
        if here.any():
            at = None if normals is None else normals[here]
            squares += sizes.mean_squares(statement, cells[here], x[here], at)
    volumes = np.prod(2 * tiling.half_widths, axis=1)
    for part in rows:
        if part.shares is not None:
            cells, point = tiling.seen(problem.domain.wrapped(part.points))
            peak = sizes.shared_squares(part, cells, point)
            squares = np.maximum(squares, peak * volumes.sum() / volumes)
    return np.asarray(np.sqrt(squares * volumes))


class _Sizes(NamedTuple):
    """Squared defects per cell, in units of what an operator makes of wavenumbers k (cells, d)."""

    solution: Solution
    k: Array

    def mean_squares(
        self, statement: Statement, cells: np.ndarray, x: Array, normals: Array | None
    ) -> Array:
        """Means over the points of every cell, 0 where it has none."""
        squares = statement.defect(self.solution, x, normals) ** 2
        size = self._operator(statement, x, normals)
        total = np.bincount(cells, squares, minlength=len(self.k))
        count = np.bincount(cells, minlength=len(self.k))
        used = (size > 0) & (count > 0)
        scale = np.where(used, size**2 * np.maximum(count, 1), 1.0)
        return np.where(used, total / scale, 0.0)

    def shared_squares(self, part: Rows, cells: np.ndarray, point: np.ndarray) -> Array:
        """The shares of a mean over all points that lie in every cell."""
        assert part.shares is not None
        squares = part.source.defect(self.solution, part.points, part.normals) ** 2
        size = self._operator(part.source, part.points, part.normals)
        total = np.bincount(cells, (part.shares * squares)[point], minlength=len(self.k))
        return total / np.where(size > 0, size, np.inf) ** 2

    def _operator(self, statement: Statement, x: Array, normals: Array | None) -> Array:
        problem = self.solution.problem
        return operator_sizes(problem, statement.operator, x, normals, self.k).sum(axis=0)


Places = tuple[Statement, np.ndarray, Array, Array | None]
"""A statement, the cells that points belong to, the points, and the normals there."""


def _own_points(solution: Solution, tiling: Tiling) -> Iterator[Places]:
    """Points of every cell: inside for the equations, on their parts for the conditions."""
    problem, domain = solution.problem, tiling.domain
    d = domain.dimension
    z = np.random.default_rng(SEED).uniform(-1, 1, (tuning.POINTS.get(d, tuning.POINTS[3]), d))
    every = np.arange(tiling.count)
    x, cells = _placed(tiling, every, z), np.repeat(every, len(z))
    inside = domain.contains(x)
    for equation in problem.equations:
        yield equation, cells[inside], x[inside], None
    for condition in problem.conditions:
        if not isinstance(condition, PointCondition | IntegralCondition):
            for places in _on_boundary(condition, tiling, z):
                yield condition, *places


def _on_boundary(
    condition: Condition, tiling: Tiling, z: Array
) -> Iterator[tuple[np.ndarray, Array, Array]]:
    domain = tiling.domain
    if not isinstance(domain, Box):
        per_face = len(z) * round(tiling.count ** (1 - 1 / domain.dimension)) * 2
        draw = np.random.default_rng(SEED)
        for name in condition.faces(domain):
            x, normals = domain.scatter_on(name, per_face, draw, domain)
            cells, point = tiling.seen(x)
            yield cells, x[point], normals[point]
        return
    for name in condition.faces(domain):
        face = domain.face(name)
        cells = tiling.at_end(face.axis, int(face.sign > 0))
        on_face = z.copy()
        on_face[:, face.axis] = face.sign
        x = _placed(tiling, cells, on_face)
        normal = np.eye(domain.dimension)[face.axis] * face.sign
        yield np.repeat(cells, len(z)), x, np.tile(normal, (len(x), 1))


def _placed(tiling: Tiling, cells: np.ndarray, z: Array) -> Array:
    """The points z of [-1, 1]^d in these cells, one cell after the other."""
    x = tiling.centres[cells][:, None] + z * tiling.half_widths[cells][:, None]
    return np.clip(x.reshape(-1, z.shape[1]), tiling.domain.lower, tiling.domain.upper)
