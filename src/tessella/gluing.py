"""(Problem, Glued basis, points) -> the local systems of all subdomains, equal ones once."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from hashlib import blake2b

import jax
import numpy as np

from tessella.basis import per_field
from tessella.collocation import Grid
from tessella.domain import Array
from tessella.enrichment import enriched_values, scales
from tessella.glued_system import GluedSystem
from tessella.interfaces import Glued, GluedBasis, Side, glue_orders, interior_faces
from tessella.linalg.batched_qr import preferred
from tessella.linalg.partial_sums import partial_sums
from tessella.local_blocks import Modes, device_blocks, host_blocks
from tessella.local_layout import Layout
from tessella.local_rows import LocalRows, local_rows
from tessella.local_systems import SUM, Kind
from tessella.memory import require
from tessella.problem import Problem
from tessella.shelf import Shelf
from tessella.tiling import Tiling
from tessella.tree import WHOLE


def glue(
    problem: Problem, basis: GluedBasis, grid: Grid, shelf: Shelf | None = None
) -> GluedSystem:
    """The local systems of all subdomains; equal ones are recognised and evaluated once, and those
    on the shelf not at all."""
    rows, each_order = local_rows(problem, basis, grid), glue_orders(problem)
    bases = [own for own in per_field(basis, problem.fields) if isinstance(own, Glued)]
    layout, tiling = rows.layout, bases[0].decomposition
    orders = np.sum(each_order, axis=0).tolist()
    names, groups = _equal_subdomains(rows, bases)
    C = np.cumsum([0, *(own.width for own in bases)])
    _check_memory(int(C[-1]), layout, len(groups), max(orders), shelf is not None)

    ends = {face[:2]: set(tiling.at_end(*face[:2]).tolist()) for face in layout.faces}
    kinds = [_kind(rows, orders, ends, members) for members in groups]
    enriched = any(own.enrichment for own in bases)
    values: Array | jax.Array
    if preferred() and not enriched and not rows.sums:
        values, units = device_blocks(rows, bases, orders, kinds), None
    else:
        modes = _modes(bases, layout, each_order)
        values = _with_known(
            names,
            shelf,
            lambda new: host_blocks(rows, bases, orders, [kinds[i] for i in new], modes),
        )
        units = _units(bases, kinds, values)

    traces = tuple(n * m for n, m in zip(orders, layout.traces, strict=True))
    numbering = _number_faces(tiling, traces, len(rows.sums))
    numbers = _number_columns(tiling.count, C)
    system = GluedSystem(
        basis,
        tuple(kinds),
        values,
        rows.h,
        rows.places,
        rows.weights,
        numbers,
        *numbering,
        rows.sums,
        units,
        _ratios(tiling, rows),
        names,
        shelf,
    )
    columns = basis.columns + system.traces
    if system.rows < columns:
        raise ValueError(
            f"the system has fewer rows than columns ({system.rows} < {columns}): raise "
            f"oversampling (or points_per_axis), or use fewer features or a lower trace_degree"
        )
    return system


def _with_known(
    names: tuple[bytes | None, ...],
    shelf: Shelf | None,
    evaluate: Callable[[list[int]], Array],
) -> Array:
    """Blocks from the shelf, and the others evaluated."""
    known = {i: one for i, name in enumerate(names) if shelf and (one := shelf.find(name))}
    made = evaluate([i for i in range(len(names)) if i not in known])
    if not known:
        return made
    values = np.zeros((len(names), *made.shape[1:]))
    values[[i for i in range(len(names)) if i not in known]] = made
    for i, one in known.items():
        used = min(one.block.shape[1], values.shape[2])
        values[i, :, :used] = one.block[:, :used]
    return values


def _kind(
    rows: LocalRows, orders: list[int], ends: dict[tuple[int, int], set[int]], members: np.ndarray
) -> Kind:
    """Which rows of these equal subdomains are used, and which of them meet traces."""
    layout = rows.layout
    free, coupled = np.ones(layout.height, dtype=bool), []
    faces: list[Side] = []
    for face, slots in layout.faces.items():
        axis = face[0]
        glued = members[0] in rows.glued[face]
        held = orders[axis] if glued else rows.held[face] if members[0] in ends[face[:2]] else 0
        for slot in slots[held:]:
            free[slot.rows] = False
        if not glued:
            continue
        faces.append(face)
        for slot in slots[:held]:
            traces = np.arange(slot.rows.start, slot.rows.start + layout.traces[axis])
            free[traces] = False
            coupled.append(traces)
    for part in rows.data:
        free[part.rows.start + part.counts[members[0]] : part.rows.stop] = False
    for number, total in enumerate(rows.sums):
        free[total.rows] = False
        coupled.append(np.array([total.rows.start]))
        faces.append((SUM, number, 0))
    matched = np.concatenate(coupled) if coupled else np.zeros(0, dtype=np.int64)
    return Kind(members, np.flatnonzero(free), matched, tuple(faces))


def _modes(bases: list[Glued], layout: Layout, orders: tuple[tuple[int, ...], ...]) -> Modes:
    """The modes of every face: the layout's, with those of the enrichment in front if any."""
    if not any(own.enrichment for own in bases):
        return lambda face, place, member: layout.modes[face[0]]
    beyond = _beyond_polynomials(bases, layout, orders)
    return lambda face, place, member: _lead(layout.modes[face[0]], beyond[face, place][member])


def _number_columns(J: int, C: np.ndarray) -> np.ndarray:
    """Every subdomain's columns, unknown after unknown, (J, C[-1]); unknown f has C[f]:C[f+1]."""
    return np.concatenate(
        [
            J * start + np.arange(J * (end - start)).reshape(J, -1)
            for start, end in itertools.pairwise(C)
        ],
        axis=1,
    )


def _units(bases: list[Glued], kinds: list[Kind], values: Array) -> Array | None:
    """Units (C,) for the filter in which enrichment is as long as features, if there is any."""
    if not any(own.enrichment for own in bases):
        return None
    norms = np.stack(
        [
            np.linalg.norm(V[:, np.concatenate([k.free, k.coupled])], axis=1)
            for k, V in zip(kinds, values, strict=True)
        ]
    )
    ends = np.cumsum([own.width for own in bases])
    parts = np.split(norms, ends[:-1], axis=1)
    return np.concatenate(
        [scales(part, len(own.enrichment))[0] for part, own in zip(parts, bases, strict=True)]
    )


def _beyond_polynomials(
    bases: list[Glued], layout: Layout, orders: tuple[tuple[int, ...], ...]
) -> dict[tuple[Side, int], Array]:
    """What polynomial traces miss of the enrichment: [face, slot] -> (J, modes, E), on that face of
    subdomain j, in the modes that are no polynomial traces."""
    found: dict[tuple[Side, int], Array] = {}
    tiling = bases[0].decomposition
    most = max(len(own.enrichment) for own in bases)
    for f in interior_faces(tiling):
        modes = layout.modes[f.axis][:, layout.polynomials[f.axis] :]
        slots = [(own, m) for own, n in zip(bases, orders, strict=True) for m in range(n[f.axis])]
        for number, (own, m) in enumerate(slots):
            missed = np.zeros((len(f.below), modes.shape[1], most))
            if own.enrichment and missed.size:
                slot = layout.faces[f.axis, 1, WHOLE][number]
                x = f.points(tiling, np.delete(slot.points, f.axis, axis=1))
                gamma = tuple(m * (i == f.axis) for i in range(x.shape[2]))
                flat = x.reshape(-1, x.shape[2])
                everywhere = {gamma: np.ones(len(flat), dtype=bool)}
                psi = enriched_values(tiling, own.enrichment, flat, everywhere)
                weighted = psi.reshape(-1, *x.shape[:2]) * np.sqrt(slot.weights)
                has = np.maximum(own.active[f.below], own.active[f.above])
                missed[:, :, : len(psi)] = np.einsum("efp,pk,fe->fke", weighted, modes, has)
            for side, members, faces in f.by_side():
                table = found.setdefault(
                    (side, number), np.zeros((tiling.count, *missed.shape[1:]))
                )
                table[members] = missed[faces]
    return found


def _lead(modes: Array, beyond: Array) -> Array:
    """The modes turned so that the enrichment's part beyond the polynomials comes next to them.

    An orthogonal change of the last modes alone, the same for both neighbours of a face: the
    traces are polynomials and enrichment, and what remains is still matched with zero.
    """
    if not len(beyond):
        return modes
    first = modes.shape[1] - len(beyond)
    turned, _ = np.linalg.qr(beyond, mode="complete")
    return np.concatenate([modes[:, :first], modes[:, first:] @ turned], axis=1)


def _number_faces(
    tiling: Tiling, traces: tuple[int, ...], integrals: int
) -> tuple[dict[Side, np.ndarray], np.ndarray, Array]:
    """`face_of`, `starts` and `positions` of a GluedSystem; `traces` per face of each axis.

    The partial sums of every integral follow, as faces of one trace each.
    """
    nowhere = np.full(tiling.count, -1)
    face_of: dict[Side, np.ndarray] = {}
    widths, positions = [0], []
    for f in interior_faces(tiling):
        for side, members, faces in f.by_side():
            face_of.setdefault(side, nowhere.copy())[members] = len(widths) - 1 + faces
        widths += [traces[f.axis]] * len(f.below)
        positions.append(f.positions)
    for number in range(integrals):
        tree = partial_sums(tiling.positions)
        face_of[SUM, number, 0] = len(widths) - 1 + np.arange(tiling.count)
        widths += [1] * (tree.rows - 1)
        positions.append(tree.positions[:-1])
    return face_of, np.cumsum(widths), np.concatenate(positions)


def _ratios(tiling: Tiling, rows: LocalRows) -> dict[Side, Array] | None:
    """Neighbours of different size weigh the same trace differently: the system's own unit is the
    geometric mean of theirs."""
    if tiling.equal:
        return None
    found: dict[Side, Array] = {}
    for f in interior_faces(tiling):
        pulls = np.repeat(rows.pulls[f.axis], rows.layout.traces[f.axis], axis=1)
        ratio = np.sqrt(pulls[f.below] / pulls[f.above])
        for side, members, faces in f.by_side():
            own = ratio if side[1] else 1 / ratio
            found.setdefault(side, np.ones_like(pulls))[members] = own[faces]
    return found


def _equal_subdomains(
    rows: LocalRows, bases: list[Glued]
) -> tuple[tuple[bytes | None, ...], list[np.ndarray]]:
    """Subdomains grouped by their coefficients, with the digest of all that makes their blocks;
    without a shared draw every one is alone and has no name, and so are those with measurements,
    and those with enrichment in themselves or next to them, which has other values in each."""
    J = len(rows.h)
    if not all(own.shared for own in bases):
        return (None,) * J, [np.array([j]) for j in range(J)]
    enriched = np.asarray(np.concatenate([own.active for own in bases], axis=1).any(axis=1))
    alone = enriched.copy()
    tiling = bases[0].decomposition
    for f in interior_faces(tiling):
        alone[f.below] |= enriched[f.above]
        alone[f.above] |= enriched[f.below]
    found: dict[bytes | int, list[int]] = {}
    common = blake2b(
        repr(
            (
                [(own.features, own.seed, own.degree) for own in bases],
                [slot.points.shape for slot in rows.layout.inside],
                rows.layout.common,
                sorted(rows.symbol),
                [(total.rows, total.scale) for total in rows.sums],
            )
        ).encode()
    )
    table = np.stack([rows.symbol[alpha] for alpha in sorted(rows.symbol)], axis=1)
    for part in rows.data:
        alone |= part.counts > 0
    whole = sum(part == WHOLE for _, _, part in rows.glued)
    glued = np.zeros((J, len(rows.glued)), dtype=bool)
    for i, members in enumerate(rows.glued.values()):
        glued[members, i] = True
    for j in range(J):
        name = common.copy()
        name.update(tiling.half_widths[j].tobytes() + glued[j, :whole].tobytes())
        name.update(table[j, :, : rows.layout.common].tobytes())
        if glued[j, whole:].any():
            name.update(glued[j, whole:].tobytes())
            name.update(table[j, :, rows.layout.common :].tobytes())
        found.setdefault(j if alone[j] else name.digest(), []).append(j)
    names = tuple(name if isinstance(name, bytes) else None for name in found)
    return names, [np.array(members) for members in found.values()]


def _check_memory(C: int, layout: Layout, distinct: int, orders: int, shelved: bool) -> None:
    """Blocks, a working copy of them, and the triangles, before any of them is allocated.

    On a device the working copies hold the traces' columns too; for a shelf there is a copy of the
    blocks and one of their reflections.
    """
    sides = 2 * len(layout.traces)
    sides = max(sides, len(layout.faces) - sides)  # or all their parts
    traces = sides * orders * max(layout.traces)
    copies = C + 3 * (C + traces) if preferred() else (4 if shelved else 2) * C
    require(
        8 * distinct * (copies * layout.height + C * (C + traces) + traces**2),
        f"{distinct:,} distinct subdomains of {layout.height:,} rows and {C:,} columns",
        "use fewer features, subdomains or points, or a lower trace_degree",
    )
