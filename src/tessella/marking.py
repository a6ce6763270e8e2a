"""Where a solution is poor: which subdomains a refinement splits.

Every subdomain is asked for the residuals of the equations inside and of the conditions on its
faces, at points of its own that no system has seen. In units of what the operator makes of a
function as fine as the subdomain resolves, they say how wrong the solution is there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tessella.collocation import Rows
from tessella.conditions import Condition, IntegralCondition, PointCondition
from tessella.domain import Array, Box
from tessella.cells.rows import operator_sizes
from tessella.operators import function_values
from tessella.problem import Equation
from tessella.solution import Solution
from tessella.tiling import Tiling

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
    domain = problem.domain
    assert isinstance(domain, Box) and isinstance(tiling, Tiling)
    d, draw = domain.dimension, np.random.default_rng(SEED)
    local = draw.uniform(-1, 1, (POINTS.get(d, POINTS[3]), d))
    everywhere = np.arange(tiling.count)
    k = solution.basis.levels[0].features.columns ** (1 / d) / (2 * tiling.half_widths)
    squares = np.zeros(tiling.count)

    def add(
        source: Equation | Condition, members: np.ndarray, z: Array, normal: Array | None = None
    ) -> None:
        x = tiling.centres[members][:, None] + z * tiling.half_widths[members][:, None]
        x = np.clip(x.reshape(-1, d), domain.lower, domain.upper)
        normals = None if normal is None else np.tile(normal, (len(x), 1))
        given = source.value if isinstance(source, Condition) else source.rhs
        defect = solution.apply(source.operator, x, normals)
        defect -= function_values(given, x, f"{source.name} value")
        if isinstance(source, Condition):
            defect *= source.chosen(x)
        size = operator_sizes(problem, source.operator, x, normals, k[members]).sum(axis=0)
        mean = np.mean(defect.reshape(len(members), -1) ** 2, axis=1)
        squares[members] += np.where(size > 0, mean / np.where(size > 0, size, 1.0) ** 2, 0.0)

    for equation in problem.equations:
        add(equation, everywhere, local)
    for condition in problem.conditions:
        if isinstance(condition, PointCondition | IntegralCondition):
            continue
        for name in condition.faces(domain):
            face = domain.face(name)
            members = tiling.at_end(face.axis, int(face.sign > 0))
            z = local.copy()
            z[:, face.axis] = face.sign
            add(condition, members, z, np.eye(d)[face.axis] * face.sign)
    volumes = np.prod(2 * tiling.half_widths, axis=1)
    for part in rows:
        if part.shares is None:
            continue
        source, x = part.source, part.points
        given = source.value if isinstance(source, Condition) else source.rhs
        defect = solution.apply(source.operator, x, part.normals)
        defect -= function_values(given, x, f"{source.name} value")
        box, point = tiling.seen(domain.wrapped(x))
        size = operator_sizes(problem, source.operator, x, part.normals, k).sum(axis=0)
        share = np.bincount(box, (part.shares * defect**2)[point], minlength=tiling.count)
        squares = np.maximum(squares, share * volumes.sum() / volumes / size**2)
    return np.asarray(np.sqrt(squares * volumes))
