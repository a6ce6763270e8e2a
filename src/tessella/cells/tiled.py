"""Cells of a problem: the boxes of a tiling, their faces, and their ports."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tessella.cells import slots
from tessella.cells.draw import DRAWS, Slot, drawn, powers
from tessella.cells.enriched import Enriching
from tessella.cells.exchange import KAPPA, Along
from tessella.cells.faces import Side, interior_faces
from tessella.cells.glued import Glued, GluedBasis, common_degree, tiling_of
from tessella.cells.joining import Face
from tessella.cells.leaves import Port, Space
from tessella.cells.rows import Place, Stating
from tessella.collocation import Grid
from tessella.domain import Array, Box
from tessella.problem import Problem
from tessella.tiling import Tiling
from tessella.tree import WHOLE


def points_per_cell(basis: GluedBasis, grid: Grid) -> tuple[int, ...]:
    """Gauss points along every axis of a cell, from the grid's rule for the whole domain."""
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


@dataclass(frozen=True)
class Cells:
    """Where cells are, which faces join them, and where their points lie.

    low, high  corners in whole numbers, for the order of joining
    faces      (axis, below, above, part of the lower one's face, part of the upper one's)
    counts     points along every axis, inside and on faces
    """

    tiling: Tiling
    centres: Array
    half_widths: Array
    low: np.ndarray
    high: np.ndarray
    faces: tuple[tuple[int, int, int, int, int], ...]
    counts: tuple[int, ...]
    face_counts: tuple[tuple[int, ...], ...]
    degree: int

    @property
    def count(self) -> int:
        return len(self.centres)

    def sides(self) -> list[list[tuple[int, Side]]]:
        """Of every cell, its faces' numbers and where they are on it."""
        found: list[list[tuple[int, Side]]] = [[] for _ in range(self.count)]
        for number, (axis, below, above, part_below, part_above) in enumerate(self.faces):
            found[below].append((number, (axis, 1, part_below)))
            found[above].append((number, (axis, 0, part_above)))
        return [sorted(own, key=lambda pair: (pair[1], pair[0])) for own in found]

    def slot(self, side: Side) -> Slot:
        return slots.on_face(self.face_counts[side[0]], side)


def cells_of(basis: GluedBasis, grid: Grid) -> Cells:
    tiling, degree = tiling_of(basis), common_degree(basis)
    counts = points_per_cell(basis, grid)
    extra = max(len(own.enrichment) for own in basis.levels)
    on_faces = tuple(max(n, degree + 1 + extra) for n in counts)
    level, place = tiling.leaves
    deepest = int(level.max())
    size = (1 << (deepest - level))[:, None]
    faces = tuple(
        (f.axis, int(b), int(a), int(pb), int(pa))
        for f in interior_faces(tiling)
        for b, a, pb, pa in zip(f.below, f.above, f.part_below, f.part_above, strict=True)
    )
    return Cells(
        tiling,
        tiling.centres,
        tiling.half_widths,
        place * size,
        (place + 1) * size,
        faces,
        counts,
        tuple(on_faces[:i] + on_faces[i + 1 :] for i in range(len(counts))),
        degree,
    )


def wall_places(cells: Cells, problem: Problem, name: str) -> list[Place]:
    """Where a condition has its rows on one face of the domain."""
    domain = problem.domain
    assert isinstance(domain, Box)
    face = domain.face(name)
    side = (face.axis, int(face.sign > 0), WHOLE)
    members = cells.tiling.at_end(*side[:2])
    slot = cells.slot(side)
    normals = np.tile(np.eye(domain.dimension)[face.axis] * face.sign, (len(slot), 1))
    measure = 1 / (2 * cells.half_widths[members, face.axis])
    return [Place(slot, members, measure, normals, face.axis)]


def spaces(
    cells: Cells,
    bases: Sequence[Glued],
    stating: Stating,
    orders: Array,
    sigma: float,
) -> tuple[np.ndarray, list[Space]]:
    """Which cells share their filtered features, and those: cells of one shape and one draw."""
    shapes, which = np.unique(cells.half_widths, axis=0, return_inverse=True)
    which = which.ravel()
    if not all(own.shared for own in bases):
        made = [
            _space(cells, bases, stating, orders, sigma, cells.half_widths[j], j)
            for j in range(cells.count)
        ]
        return np.arange(cells.count), made
    return which, [_space(cells, bases, stating, orders, sigma, half, 0) for half in shapes]


def _space(
    cells: Cells,
    bases: Sequence[Glued],
    stating: Stating,
    orders: Array,
    sigma: float,
    half: Array,
    cell: int,
) -> Space:
    d = len(half)
    k = bases[0].features.columns ** (1 / d) / (2 * half)
    k = np.max([own.features.columns for own in bases]) ** (1 / d) / (2 * half)
    W = stating.sizes(k)
    draws, units = [], []
    for f, own in enumerate(bases):
        inner = {
            alpha: rms * float(np.prod(half ** -np.array(alpha, dtype=float)))
            for (g, alpha), rms in stating.coefficients.items()
            if g == f
        }
        on_faces = []
        for axis in range(d):
            traces = {
                tuple(m if i == axis else 0 for i in range(d)): float(
                    W[f] * k[axis] ** (-m - 0.5) / math.sqrt(2 * half[axis]) / half[axis] ** m
                )
                for m in range(max(1, int(orders[f, axis])))
            }
            on_faces.append(traces)
        largest = max([*inner.values(), *(w for t in on_faces for w in t.values())])
        asked = [(slots.inside(cells.counts), powers(inner, largest))]
        for axis, traces in enumerate(on_faces):
            for side in (0, 1):
                asked.append((cells.slot((axis, side, WHOLE)), powers(traces, largest)))
        features = drawn(own.features, own.layers, cell)
        draws.append(DRAWS.get(features, tuple(asked), sigma))
        units.append(largest)
    return Space(tuple(draws), tuple(units))


def ports_of(
    cells: Cells,
    along: Sequence[Along],
    stating: Stating,
    enriching: Enriching | None = None,
) -> tuple[list[list[Port]], list[Face]]:
    """Every cell's ports, and the faces with as many numbers as cross them."""
    W = stating.sizes(stating.k)
    P = [slots.modes(own, cells.degree) for own in cells.face_counts]
    ports: list[list[Port]] = [[] for _ in range(cells.count)]
    smaller = []
    for axis, below, above, _, _ in cells.faces:
        width = min(cells.half_widths[below, axis], cells.half_widths[above, axis])
        k = stating.k[below, axis] * cells.half_widths[below, axis] / width
        smaller.append(KAPPA * float(k))
    pulls_of: dict[tuple[object, ...], tuple[float, ...]] = {}
    modes = [_face_modes(cells, along, P, smaller, enriching, n) for n in range(len(cells.faces))]
    faces = [
        Face(below, above, *(sum(p.shape[1] for p in own) for own in modes[number]))
        for number, (_, below, above, _, _) in enumerate(cells.faces)
    ]
    for cell, sides in enumerate(cells.sides()):
        for number, (axis, side, part) in sides:
            half, kappa = float(cells.half_widths[cell, axis]), smaller[number]
            taken, given = along[axis].taken(side), along[axis].given(side)
            area = 1.0 if part == WHOLE else 0.5 ** (cells.half_widths.shape[1] - 1)
            k = float(stating.k[cell, axis])
            key = (axis, side, part, kappa, cells.half_widths[cell].tobytes())
            if key not in pulls_of:
                pulls_of[key] = tuple(
                    float(W[d.field, cell] * k**-0.5 * (kappa / k) ** d.top)
                    * math.sqrt(area / (2 * half))
                    for d in taken
                )
            ports[cell].append(
                Port(
                    number,
                    axis,
                    side,
                    cells.slot((axis, side, part)),
                    taken,
                    given,
                    modes[number][side],
                    modes[number][1 - side],
                    kappa,
                    pulls_of[key],
                    half,
                    (axis, side, part, kappa, half, pulls_of[key]),
                )
            )
    return ports, faces


def _face_modes(
    cells: Cells,
    along: Sequence[Along],
    P: Sequence[Array],
    kappas: Sequence[float],
    enriching: Enriching | None,
    number: int,
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """The functions in which the data from below and those from above cross a face."""
    axis, below, above, part_below, part_above = cells.faces[number]
    own = along[axis]
    if enriching is not None:
        active = np.concatenate([np.maximum(b.active[below], b.active[above]) for b in enriching.bases])
        if active.any():
            cell, side = (below, 1) if part_below == WHOLE else (above, 0)
            slot = cells.slot((axis, side, WHOLE))
            x = enriching.points(cell, slot)
            at = (x, slot.weights, axis, kappas[number])
            return tuple(
                tuple(enriching.modes(*at, datum, P[axis], active) for datum in data)
                for data in (own.below, own.above)
            )  # type: ignore[return-value]
    return (P[axis],) * len(own.below), (P[axis],) * len(own.above)


def open_ports(
    cells: Cells,
    problem: Problem,
    along: Sequence[Along],
    stating: Stating,
    ports: list[list[Port]],
    faces: list[Face],
) -> bool:
    """Ports at walls that have fewer conditions than cells take there; whether there are any.

    What comes in there is found from measurements and integrals.
    """
    domain = problem.domain
    if any(callable(problem.multiplier(field)) for field in problem.fields):
        return False
    found = False
    W = stating.sizes(stating.k)
    for axis, own in enumerate(along):
        for side in (0, 1) if domain.axes[axis] not in domain.periodic else ():
            name = f"{domain.axes[axis]}{('min', 'max')[side]}"
            held = sum(name in c.faces(domain) for c in problem.conditions)
            left = own.taken(side)[held:]
            if not left:
                continue
            found = True
            P = slots.modes(cells.face_counts[axis], cells.degree)
            numbers = P.shape[1] * len(left)
            for cell in cells.tiling.at_end(axis, side).tolist():
                half, k = float(cells.half_widths[cell, axis]), float(stating.k[cell, axis])
                kappa = KAPPA * k
                pulls = tuple(
                    float(W[d.field, cell] * k**-0.5 * (kappa / k) ** d.top) / math.sqrt(2 * half)
                    for d in left
                )
                slot = cells.slot((axis, side, WHOLE))
                label = ("open", axis, side, held, kappa, half, pulls)
                ports[cell].append(
                    Port(len(faces), axis, side, slot, left, (), (P,) * len(left), (), kappa,
                         pulls, half, label)
                )  # fmt: skip
                ends = (cell, -1, 0, numbers) if side else (-1, cell, numbers, 0)
                faces.append(Face(*ends))
    return found
