"""Where a solution is poor: which subdomains a refinement splits.

Every subdomain is asked for the residuals of the equations inside and of the conditions on its
faces, at points of its own that no system has seen. In units of what the operator makes of a
function as fine as the subdomain resolves, they say how wrong the solution is there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from tessella.cells.rows import operator_sizes
from tessella.cells.tiling import Tiling
from tessella.geometry.box import Box
from tessella.geometry.functions import function_values
from tessella.machine.arrays import Array
from tessella.overlap.points import Rows
from tessella.problem.conditions import Condition, IntegralCondition, PointCondition
from tessella.problem.problem import Equation
from tessella.problem.scales import SEED as LINES_SEED
from tessella.problem.scales import lines_along, spectrum, total_degree
from tessella.solution.solution import Solution

POINTS = {1: 12, 2: 24, 3: 32}
"""Points in a subdomain, and on its face, by dimension."""

BULK = 0.95
"""The subdomains that are split hold this part of the squared error."""

FEW = 0.5
"""Of all subdomains; if more hold the bulk, all are split."""

SEED = 20_031


def split(tiling: Tiling, errors: Array, axes: tuple[int, ...]) -> Tiling | None:
    """Finer where most of the error is; None where that is everywhere and all boxes are equal.

    Slabs are halved along the axes that need it, or single boxes cut in all directions, whichever
    makes fewer.
    """
    squares = errors**2
    poor = _bulk(squares)
    if len(poor) > FEW * tiling.count:
        if tiling.equal:
            return None
        poor = np.arange(tiling.count)
    boxes = tiling.refined(poor) if len(axes) > 1 or tiling.cut else None
    if tiling.cut:
        return boxes
    per_axis = [
        _bulk(np.bincount(tiling.multi_index[:, axis], squares)) if axis in axes else ()
        for axis in range(tiling.domain.dimension)
    ]
    slabs = tiling.split([set(chosen) for chosen in per_axis])
    return slabs if boxes is None or slabs.count <= boxes.count else boxes


def _bulk(squares: np.ndarray) -> np.ndarray:
    """The fewest that hold most of a sum of squares."""
    order = np.argsort(-squares, kind="stable")
    reached = np.cumsum(squares[order]) >= BULK * squares.sum()
    return order[: int(np.argmax(reached)) + 1]


def errors(solution: Solution, rows: Sequence[Rows] = ()) -> Array:
    """About how wrong the solution is in every subdomain, root mean square times root volume.

    `rows` may have points where data are peaked, which a subdomain's own points could miss.
    """
    problem, tiling = solution.problem, solution.basis.decomposition
    assert isinstance(tiling, Tiling)
    d = problem.domain.dimension
    k = solution.basis.levels[0].features.columns ** (1 / d) / (2 * tiling.half_widths)
    seen = _Seen(solution, tiling, k)
    inner = seen.inner()
    for equation in problem.equations:
        seen.add(equation, *inner)
    for condition in problem.conditions:
        if not isinstance(condition, PointCondition | IntegralCondition):
            for places in seen.on_boundary(condition):
                seen.add(condition, *places)
    volumes = np.prod(2 * tiling.half_widths, axis=1)
    for part in rows:
        if part.shares is None:
            continue
        source, x = part.source, part.points
        given = source.value if isinstance(source, Condition) else source.rhs
        defect = solution.apply(source.operator, x, part.normals)
        defect -= function_values(given, x, f"{source.name} value")
        box, point = tiling.seen(problem.domain.wrapped(x))
        size = operator_sizes(problem, source.operator, x, part.normals, k).sum(axis=0)
        share = np.bincount(box, (part.shares * defect**2)[point], minlength=tiling.count)
        seen.squares = np.maximum(seen.squares, share * volumes.sum() / volumes / size**2)
    return np.asarray(np.sqrt(seen.squares * volumes))


class _Seen:
    """Squares of what every subdomain misses, while they are being added up."""

    def __init__(self, solution: Solution, tiling: Tiling, k: Array) -> None:
        self.solution, self.tiling, self.k = solution, tiling, k
        self.squares = np.zeros(tiling.count)
        d = tiling.domain.dimension
        draw = np.random.default_rng(SEED)
        self.local = draw.uniform(-1, 1, (POINTS.get(d, POINTS[3]), d))

    def inner(self) -> tuple[np.ndarray, Array, None]:
        """Boxes and points of theirs inside the domain."""
        boxes = np.repeat(np.arange(self.tiling.count), len(self.local))
        x = self._placed(np.arange(self.tiling.count), self.local)
        inside = self.tiling.domain.contains(x)
        return boxes[inside], x[inside], None

    def _placed(self, boxes: np.ndarray, z: Array) -> Array:
        tiling, domain = self.tiling, self.tiling.domain
        x = tiling.centres[boxes][:, None] + z * tiling.half_widths[boxes][:, None]
        return np.clip(x.reshape(-1, z.shape[1]), domain.lower, domain.upper)

    def on_boundary(self, condition: Condition) -> Iterator[tuple[np.ndarray, Array, Array]]:
        """Boxes, points of theirs on the parts of a condition, and the normals there."""
        domain, tiling = self.tiling.domain, self.tiling
        if not isinstance(domain, Box):
            per_face = len(self.local) * round(tiling.count ** (1 - 1 / domain.dimension)) * 2
            draw = np.random.default_rng(SEED)
            for name in condition.faces(domain):
                x, normals = domain.scatter_on(name, per_face, draw, domain)
                box, point = tiling.seen(x)
                yield box, x[point], normals[point]
            return
        for name in condition.faces(domain):
            face = domain.face(name)
            boxes = tiling.at_end(face.axis, int(face.sign > 0))
            z = self.local.copy()
            z[:, face.axis] = face.sign
            x = self._placed(boxes, z)
            normal = np.eye(domain.dimension)[face.axis] * face.sign
            yield np.repeat(boxes, len(z)), x, np.tile(normal, (len(x), 1))

    def add(
        self, source: Equation | Condition, boxes: np.ndarray, x: Array, normals: Array | None
    ) -> None:
        """Mean squares of a statement in units of its operator, box by box."""
        problem = self.solution.problem
        if isinstance(source, Equation) and source.where is not None:
            here = problem.domain.inside(source.where, x)
            boxes, x = boxes[here], x[here]
        if not len(x):
            return
        given = source.value if isinstance(source, Condition) else source.rhs
        defect = self.solution.apply(source.operator, x, normals)
        defect -= function_values(given, x, f"{source.name} value")
        if isinstance(source, Condition):
            defect *= source.chosen(x)
        size = operator_sizes(problem, source.operator, x, normals, self.k).sum(axis=0)
        total = np.bincount(boxes, defect**2, minlength=len(self.k))
        count = np.bincount(boxes, minlength=len(self.k))
        used = (size > 0) & (count > 0)
        scale = np.where(used, size**2 * np.maximum(count, 1), 1.0)
        self.squares += np.where(used, total / scale, 0.0)


SUBDOMAINS = 128
"""Of a solution, at most so many are looked at."""


ALIKE = 0.2
"""Axes with at least this part of the largest upper half of a spectrum are refined together."""


def coarse_axes(solution: Solution) -> tuple[int, ...]:
    """The axes along which the solution's expansion in its subdomains ends too early.

    Lines that leave the domain are not looked at; if all do, every axis counts.
    """
    basis, domain = solution.basis.levels[0], solution.problem.domain
    grid, d = basis.decomposition, domain.dimension
    if d == 1:
        return (0,)
    draw = np.random.default_rng(LINES_SEED)
    chosen = draw.permutation(grid.count)[:SUBDOMAINS]
    n = math.ceil(total_degree(basis.features.columns, d)) + 1
    half = (
        grid.half_widths[chosen]
        if isinstance(grid, Tiling)
        else np.broadcast_to(grid.spacing / 2, (len(chosen), d))
    )
    tails = np.zeros(d)
    for axis in range(d):
        local = lines_along(-np.ones(d), np.ones(d), axis, n, draw)
        x = grid.centres[chosen][:, None, None] + local * half[:, None, None]
        x = x.reshape(-1, n, d)
        x = x[np.all(domain.contains(x.reshape(-1, d)).reshape(-1, n), axis=1)]
        if not len(x):
            return tuple(range(d))
        values = solution(x.reshape(-1, d)).reshape(len(x), n, -1)
        for unknown in np.moveaxis(values, 2, 0):
            energy = spectrum(unknown).sum(axis=0)
            tails[axis] = max(tails[axis], math.sqrt(energy[n // 2 :].sum() / (energy.sum() or 1)))
    return tuple(i for i in range(d) if tails[i] >= ALIKE * tails.max())
