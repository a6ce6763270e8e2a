"""(Problem, Glued basis, points) -> the local systems of all subdomains, equal ones once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from tessella.assembly import CHUNK_BYTES
from tessella.basis import evaluate_blocks, per_field, window_tables
from tessella.collocation import Grid
from tessella.decomposition import Decomposition
from tessella.domain import Array
from tessella.glued_system import SUM, GluedSystem, Kind
from tessella.interfaces import (
    Glued,
    GluedBasis,
    glue_orders,
    glued_bases,
    interior_faces,
)
from tessella.linalg.partial_sums import partial_sums
from tessella.linalg.threads import side_by_side
from tessella.local_rows import Layout, LocalRows, local_rows
from tessella.memory import require
from tessella.operators import Orders
from tessella.problem import Problem


def glue(problem: Problem, basis: GluedBasis, grid: Grid) -> GluedSystem:
    """The local systems of all subdomains; equal ones are recognised and evaluated once."""
    rows, bases = local_rows(problem, basis, grid), per_field(basis, problem.fields)
    layout, tiling = rows.layout, basis.decomposition
    orders = np.sum(glue_orders(problem), axis=0).tolist()
    groups = _equal_subdomains(rows, all(own.shared for own in glued_bases(basis)))
    C = np.cumsum([0, *(own.features.columns for own in bases)])
    _check_memory(int(C[-1]), layout, len(groups), max(orders))

    first = np.array([members[0] for members in groups])
    x = np.zeros((layout.height, tiling.domain.dimension))
    on_faces = (slot for slots in layout.faces.values() for slot in slots)
    for slot in (*layout.inside, *on_faces, *layout.sums):
        x[slot.rows] = slot.points * tiling.half_width
    points = tiling.centres[first][:, None] + x
    for data in rows.data:
        points[:, data.rows] = data.x[first]
    values = np.zeros((len(groups), C[-1], layout.height))
    for number, own in enumerate(bases):
        assert isinstance(own, Glued)
        symbol = {alpha: c[first] for (f, alpha), c in rows.symbol.items() if f == number}
        for part, block in evaluate_local(own, first, points, symbol):
            values[part, C[number] : C[number + 1]] = block

    def kind(number: int) -> Kind:
        members, block = groups[number], values[number]
        free, coupled, faces = np.ones(layout.height, dtype=bool), [], []
        for (axis, side), slots in layout.faces.items():
            glued = members[0] in rows.glued[axis, side]
            held = orders[axis] if glued else rows.held[axis, side]
            for slot in slots[held:]:
                free[slot.rows] = False
            if not glued:
                continue
            faces.append((axis, side))
            for slot in slots[:held]:
                block[:, slot.rows] = block[:, slot.rows] @ layout.modes[axis]
                traces = np.arange(slot.rows.start, slot.rows.start + layout.traces[axis])
                free[traces] = False
                coupled.append(traces)
        for part in rows.data:
            free[part.rows.start + part.counts[members[0]] : part.rows.stop] = False
        for number, total in enumerate(rows.sums):
            free[total.rows] = False
            block[:, total.rows.start] = total.scale * block[:, total.rows].sum(axis=1)
            coupled.append(np.array([total.rows.start]))
            faces.append((SUM, number))
        matched = np.concatenate(coupled) if coupled else np.zeros(0, dtype=np.int64)
        return Kind(members, block, np.flatnonzero(free), matched, tuple(faces))

    work = 4.0 * values.size * max(map(len, layout.modes))
    kinds = side_by_side(kind, range(len(groups)), work)

    traces = tuple(n * m for n, m in zip(orders, layout.traces, strict=True))
    numbering = _number_faces(tiling, traces, len(rows.sums))
    numbers = _number_columns(tiling.count, C)
    system = GluedSystem(
        basis, tuple(kinds), rows.h, rows.places, rows.weights, numbers, *numbering, rows.sums
    )
    columns = basis.columns + system.traces
    if system.rows < columns:
        raise ValueError(
            f"the system has fewer rows than columns ({system.rows} < {columns}): raise "
            f"oversampling (or points_per_axis), or use fewer features or a lower trace_degree"
        )
    return system


def _number_columns(J: int, C: np.ndarray) -> np.ndarray:
    """Every subdomain's columns, unknown after unknown, (J, C[-1]); unknown f has C[f]:C[f+1]."""
    return np.concatenate(
        [
            J * start + np.arange(J * (end - start)).reshape(J, -1)
            for start, end in itertools.pairwise(C)
        ],
        axis=1,
    )


def _number_faces(
    tiling: Decomposition, traces: tuple[int, ...], integrals: int
) -> tuple[dict[tuple[int, int], np.ndarray], np.ndarray, Array]:
    """`face_of`, `starts` and `positions` of a GluedSystem; `traces` per face of each axis.

    The partial sums of every integral follow, as faces of one trace each.
    """
    d = tiling.domain.dimension
    face_of = {(axis, side): np.full(tiling.count, -1) for axis in range(d) for side in (0, 1)}
    widths, positions = [0], []
    for f in interior_faces(tiling):
        numbers = len(widths) - 1 + np.arange(len(f.below))
        face_of[f.axis, 1][f.below] = face_of[f.axis, 0][f.above] = numbers
        widths += [traces[f.axis]] * len(f.below)
        positions.append(f.positions)
    tree = partial_sums(tiling.positions)
    for number in range(integrals):
        face_of[SUM, number] = len(widths) - 1 + np.arange(tiling.count)
        widths += [1] * (tree.rows - 1)
        positions.append(tree.positions[:-1])
    return face_of, np.cumsum(widths), np.concatenate(positions)


def _equal_subdomains(rows: LocalRows, shared: bool) -> list[np.ndarray]:
    """Subdomains grouped by their coefficients; without a shared draw every one is alone, and so
    is one with measurements."""
    J = len(rows.h)
    if not shared:
        return [np.array([j]) for j in range(J)]
    found: dict[bytes, list[int]] = {}
    table = np.stack([rows.symbol[alpha] for alpha in sorted(rows.symbol)], axis=1)
    alone = sum(part.counts for part in rows.data) * np.ones(J)
    glued = np.zeros((J, len(rows.glued)), dtype=bool)
    for i, members in enumerate(rows.glued.values()):
        glued[members, i] = True
    for j in range(J):
        key = str(j).encode() if alone[j] else table[j].tobytes() + glued[j].tobytes()
        found.setdefault(key, []).append(j)
    return [np.array(members) for members in found.values()]


def _check_memory(C: int, layout: Layout, distinct: int, orders: int) -> None:
    """Blocks, a working copy of them, and the triangles, before anything is allocated."""
    traces = 2 * len(layout.traces) * orders * max(layout.traces)
    require(
        8 * distinct * (2 * C * layout.height + C * (C + traces) + traces**2),
        f"{distinct:,} distinct subdomains of {layout.height:,} rows and {C:,} columns",
        "use fewer features, subdomains or points, or a lower trace_degree",
    )


def evaluate_local(
    basis: Glued, members: np.ndarray, points: Array, symbol: dict[Orders, Array]
) -> Iterator[tuple[slice, Array]]:
    """The operators on each member's own features at its own points (B, m, d), piece by piece.

    Pieces have one shape, so that they compile once; the last one repeats a block to fill up.
    """
    B, m, d = points.shape
    fitting = max(1, CHUNK_BYTES // (8 * basis.features.columns * m))
    step = 1 << min(max(B - 1, 0).bit_length(), fitting.bit_length() - 1)
    for start in range(0, B, step):
        pick = np.minimum(np.arange(start, start + step), B - 1)
        x = points[pick].reshape(-1, d)
        own = {alpha: c[pick].ravel() for alpha, c in symbol.items()}
        rows = np.arange(len(x), dtype=np.int32).reshape(step, m)
        made = evaluate_blocks(
            basis, members[pick], rows, np.full(step, m), x, window_tables(basis, x, own), own
        )
        part = slice(start, min(start + step, B))
        yield part, np.asarray(made)[: part.stop - part.start]
