"""Where a solution is poor: which slabs of subdomains a refinement splits.

Every subdomain is asked for the residuals of the equations inside and of the conditions on its
faces, at points of its own that no system has seen. In units of what the operator makes of a
function as fine as the subdomain resolves, they say how wrong the solution is there.
"""

from __future__ import annotations

import numpy as np

from tessella.conditions import Condition, IntegralCondition, PointCondition
from tessella.domain import Array, Box
from tessella.local_rows import at_end, operator_sizes
from tessella.operators import function_values
from tessella.problem import Equation
from tessella.solution import Solution
from tessella.tiling import Tiling

POINTS = {1: 12, 2: 24, 3: 32}
"""Points in a subdomain, and on its face, by dimension."""

BULK = 0.95
"""The slabs that are split hold this part of the squared error."""

FEW = 0.5
"""Of the slabs along an axis; if more hold the bulk, all are split."""

SEED = 20_031


def poor_slabs(tiling: Tiling, errors: Array, axes: tuple[int, ...]) -> tuple[frozenset[int], ...]:
    """Per axis, the fewest slabs that hold most of the subdomains' errors, or all; none along other
    axes."""
    squares = errors**2
    found = []
    for axis, S in enumerate(tiling.subdomains):
        if axis not in axes:
            found.append(frozenset[int]())
            continue
        held = np.bincount(tiling.multi_index[:, axis], squares, minlength=S)
        order = np.argsort(-held, kind="stable")
        reached = np.cumsum(held[order]) >= BULK * held.sum()
        few = order[: int(np.argmax(reached)) + 1]
        found.append(frozenset(few.tolist() if len(few) <= FEW * S else range(S)))
    return tuple(found)


def errors(solution: Solution) -> Array:
    """About how wrong the solution is in every subdomain, root mean square times root volume."""
    problem, tiling = solution.problem, solution.basis.decomposition
    domain = problem.domain
    assert isinstance(domain, Box) and isinstance(tiling, Tiling)
    d, draw = domain.dimension, np.random.default_rng(SEED)
    local = draw.uniform(-1, 1, (POINTS[d], d))
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
            members = at_end(tiling, face.axis, int(face.sign > 0))
            z = local.copy()
            z[:, face.axis] = face.sign
            add(condition, members, z, np.eye(d)[face.axis] * face.sign)
    return np.asarray(np.sqrt(squares * np.prod(2 * tiling.half_widths, axis=1)))
