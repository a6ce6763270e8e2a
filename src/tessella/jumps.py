"""How far neighbours side by side disagree on their common faces."""

from __future__ import annotations

import numpy as np

from tessella.basis import per_field
from tessella.domain import Array
from tessella.interfaces import Faces, Glued, GluedBasis, glue_orders, interior_faces
from tessella.local_blocks import evaluate_local
from tessella.operators import D, Identity, Operator, Orders
from tessella.problem import Problem

POINTS = 6
"""Points per axis of a face at which jumps are measured, its ends included; with enrichment, which
may be singular where faces meet, as many between them."""


def jumps(problem: Problem, basis: GluedBasis, a: Array) -> dict[str, dict[str, float]]:
    """Root mean square and largest jump of u and of every normal derivative that is glued.

    Measured on a regular grid of every interior face, where nothing was asked of the solution.
    """
    found: dict[str, list[Array]] = {}
    start = 0
    orders = dict(zip(problem.fields, glue_orders(problem), strict=True))
    for field, own in zip(problem.fields, per_field(basis, problem.fields), strict=True):
        assert isinstance(own, Glued)
        plan = [
            (faces, m)
            for faces in interior_faces(own.decomposition)
            if len(faces.below)
            for m in range(orders[field][faces.axis])
        ]
        local = a[start : start + own.columns]
        start += own.columns
        of = f" of {field}" if len(problem.fields) > 1 else ""
        differences = _differences(problem, field, own, local, plan)
        for (_, m), jump in sorted(zip(plan, differences, strict=True), key=lambda p: p[0][1]):
            found.setdefault(_name(m) + of, []).append(jump.ravel())
    return {
        name: {
            "rms": float(np.sqrt(np.mean(np.concatenate(parts) ** 2))),
            "max": float(np.max(np.abs(np.concatenate(parts)))),
        }
        for name, parts in found.items()
    }


def _differences(
    problem: Problem, field: str, basis: Glued, a: Array, plan: list[tuple[Faces, int]]
) -> list[Array]:
    """The m-th normal derivative below each face minus that above it; one evaluation for all."""
    d, names = problem.domain.dimension, problem.domain.axes
    parts: list[tuple[np.ndarray, Array, dict[Orders, Array]]] = []
    for faces, m in plan:
        x = _face_points(basis, faces)
        operator: Operator = D(**{names[faces.axis]: m}) if m else Identity()
        operator = operator @ problem.unknown(field)
        symbol = problem.symbol(operator, x.reshape(-1, d), field=field)
        own = {alpha: c.reshape(x.shape[:2]) for alpha, c in symbol.items()}
        parts += [(faces.below, x, own), (faces.above, x, own)]
    members = np.concatenate([j for j, _, _ in parts])
    points = np.concatenate([x for _, x, _ in parts])
    tables = {
        alpha: np.concatenate([own.get(alpha, np.zeros(x.shape[:2])) for _, x, own in parts])
        for alpha in sorted({alpha for _, _, own in parts for alpha in own})
    }
    local = a.reshape(basis.decomposition.count, -1)
    values = np.zeros(points.shape[:2])
    for part, block in evaluate_local(basis, members, points, tables):
        values[part] = np.einsum("bcm,bc->bm", np.asarray(block), local[members[part]])
    sides = np.split(values, np.cumsum([len(j) for j, _, _ in parts])[:-1])
    return [below - above for below, above in zip(sides[::2], sides[1::2], strict=True)]


def _face_points(basis: Glued, faces: Faces) -> Array:
    """A regular grid on every face, shape (faces, points, d)."""
    tiling = basis.decomposition
    d = tiling.domain.dimension
    along = np.linspace(-1, 1, POINTS)
    if basis.enrichment:
        along = np.linspace(-1, 1, POINTS + 2)[1:-1]
    across = np.stack(np.meshgrid(*[along] * (d - 1), indexing="ij"), axis=-1) if d > 1 else None
    return faces.points(tiling, np.zeros((1, 0)) if across is None else across.reshape(-1, d - 1))


def _name(m: int) -> str:
    return ("value", "normal derivative")[m] if m < 2 else f"normal derivative {m}"
