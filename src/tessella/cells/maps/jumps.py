"""How far neighbours disagree on their common faces: on whole ones where nothing was asked of them,
on others at some points of the exchange."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from tessella.cells.boxes import slots
from tessella.cells.boxes.between import Between
from tessella.cells.boxes.tree import WHOLE
from tessella.cells.maps.unknowns import Unknowns
from tessella.cells.system.system import CellSystem
from tessella.geometry.functions import Orders
from tessella.machine import processes
from tessella.machine.arrays import Array
from tessella.problem.operators import D, Identity
from tessella.problem.problem import Problem

POINTS = 6
"""Points per axis of a face at which jumps are measured, its ends included; with enrichment, which
may be singular where faces meet, as many between them."""


Fields = tuple[int, ...] | None
"""The unknowns that cross a face; None means all."""


def jumps(unknowns: Unknowns, owners: np.ndarray | None = None) -> dict[str, dict[str, float]]:
    """Root mean square and largest jump of u and of every normal derivative that is exchanged; a
    process looks at the faces above its own cells (`owners`)."""
    found: dict[str, list[Array]] = {}
    mine = None
    if owners is not None and not processes.alone():
        mine = owners == processes.index()
        _hear_neighbours(unknowns, owners)
    for name, apart in (*_on_whole_faces(unknowns, mine), *_on_parts(unknowns, mine)):
        found.setdefault(name, []).append(apart.ravel())
    own = {name: np.concatenate(parts) for name, parts in found.items()}
    known = {
        name: (float(np.sum(x**2)), x.size, float(np.max(np.abs(x)))) for name, x in own.items()
    }
    every = _of_all(known)
    ordered = sorted(every, key=lambda n: (n.startswith("normal"), n))
    return {
        name: {"rms": math.sqrt(every[name][0] / every[name][1]), "max": every[name][2]}
        for name in ordered
    }


def _hear_neighbours(unknowns: Unknowns, owners: np.ndarray) -> None:
    """Take in the unknowns of cells above this process's own, and send those below which others'
    cells lie."""
    sent = across(unknowns.system.cells.faces.ends, owners)
    me, every = processes.index(), range(processes.number())
    out = {q: unknowns.rows[cells] for (p, q), cells in sent.items() if p == me}
    sources = [p for p, q in sent if q == me]
    for p, rows in processes.exchanged("neighbours", every, out, sources).items():
        unknowns.rows[sent[p, me]] = rows


def across(ends: np.ndarray, owners: np.ndarray) -> dict[tuple[int, int], np.ndarray]:
    """Cells of one process above those of another, by both; `ends` are the cells below and above
    every face."""
    pairs = ends[:, ::-1]
    whose = owners[pairs]
    apart = whose[:, 0] != whose[:, 1]
    found: dict[tuple[int, int], set[int]] = {}
    for (p, q), cell in zip(whose[apart].tolist(), pairs[apart, 0].tolist(), strict=True):
        found.setdefault((p, q), set()).add(cell)
    return {ends: np.array(sorted(cells)) for ends, cells in sorted(found.items())}


Known = dict[str, tuple[float, int, float]]
"""By name the sum of squares, how many there are, and the largest."""


def _of_all(own: Known) -> Known:
    """What all processes found together."""
    if processes.alone():
        return own
    said = np.frombuffer(json.dumps(own).encode(), dtype=np.uint8)
    found: Known = {}
    for theirs in processes.gathered("jumps", said):
        for name, (squares, count, most) in json.loads(theirs.tobytes()).items():
            before = found.get(name, (0.0, 0, 0.0))
            found[name] = before[0] + squares, before[1] + count, max(before[2], most)
    return found


def _on_whole_faces(unknowns: Unknowns, mine: np.ndarray | None) -> Iterator[tuple[str, Array]]:
    """At a grid of points that all faces of one kind share."""
    system = unknowns.system
    cells = system.cells
    d, inset = system.problem.domain.dimension, bool(system.enriching.count)
    for (axis, part_below, part_above, only), ends in cells.faces.by_kind.items():
        below, above = ends if mine is None else ends[:, mine[ends[0]]]
        if not len(below):
            continue
        slot_b = slots.grid_on_face(d, POINTS, (axis, 1, part_below), inset)
        slot_a = slots.grid_on_face(d, POINTS, (axis, 0, part_above), inset)
        whole, slot = (below, slot_b) if part_below == WHOLE else (above, slot_a)
        shape, places = (len(whole), len(slot)), partial(cells.points, whole, slot.points)
        for name, field, order in _compared(system, axis, only):
            table = _symbol(system.problem, field, axis, order, shape, places)
            apart = unknowns.on_slot(below, slot_b, field, table)
            yield name, apart - unknowns.on_slot(above, slot_a, field, table)


def _on_parts(unknowns: Unknowns, mine: np.ndarray | None) -> Iterator[tuple[str, Array]]:
    """At some points of parts of faces, all those across one axis together."""
    system = unknowns.system
    most = POINTS ** (system.problem.domain.dimension - 1)
    alike: dict[tuple[int, Fields], list[Between]] = {}
    for face in system.cells.faces.particular.values():
        if face.custom is not None and (mine is None or mine[face.below]):
            alike.setdefault((face.axis, face.fields), []).append(face)
    for (axis, only), faces in alike.items():
        parts = [face.custom for face in faces if face.custom is not None]
        some = [slice(None, None, -(-len(part.below) // most)) for part in parts]
        counts = [len(part.below.points[at]) for part, at in zip(parts, some, strict=True)]
        below, above = (
            np.repeat([getattr(face, side) for face in faces], counts)
            for side in ("below", "above")
        )
        z_b = np.concatenate([p.below.points[at] for p, at in zip(parts, some, strict=True)])
        z_a = np.concatenate([p.above.points[at] for p, at in zip(parts, some, strict=True)])
        x = system.cells.points(below, z_b[:, None])[:, 0]
        for name, field, order in _compared(system, axis, only):
            table = _symbol(system.problem, field, axis, order, (len(x),), partial(np.asarray, x))
            apart = unknowns.at_points(below, z_b, field, table)
            yield name, apart - unknowns.at_points(above, z_a, field, table)


def _compared(system: CellSystem, axis: int, only: Fields) -> Iterator[tuple[str, int, int]]:
    """What should agree on both sides of a face: its name, the unknown, and the order of the normal
    derivative."""
    problem, orders = system.problem, system.orders
    for f, field in enumerate(problem.fields):
        if only is not None and f not in only:
            continue
        of = f" of {field}" if len(problem.unknowns) > 1 else ""
        for m in range(max(1, int(orders[f, axis])) if orders[f].any() else 0):
            yield _name(m) + of, f, m


def _symbol(
    problem: Problem,
    field: int,
    axis: int,
    order: int,
    shape: tuple[int, ...],
    places: Callable[[], Array],
) -> dict[Orders, Array]:
    """How a normal derivative of an unknown acts on v at so many places, where an ansatz makes u of
    v."""
    name, d = problem.fields[field], problem.domain.dimension
    multiplier = problem.multiplier(name)
    if not callable(multiplier):
        alpha = tuple(order if i == axis else 0 for i in range(d))
        return {alpha: np.full(shape, float(multiplier))}
    along = D(**{problem.domain.axes[axis]: order}) if order else Identity()
    found = problem.symbol(along @ problem.part(name), places().reshape(-1, d), field=name)
    return {alpha: c.reshape(shape) for alpha, c in found.items()}


def _name(m: int) -> str:
    return ("value", "normal derivative")[m] if m < 2 else f"normal derivative {m}"
