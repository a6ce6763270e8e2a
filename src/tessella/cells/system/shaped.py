"""Cells of a shape or of a divided domain: boxes that its boundary cuts.

A cut cell asks its equation at points inside, its conditions on its piece of the boundary, and
exchanges data over the parts of its faces that lie inside. Each region of a divided domain has an
unknown of its own, which lives in the cells that the region meets.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np

from tessella.cells.boxes import slots
from tessella.cells.boxes.basis import AnyCellBasis, common_degree, tiling_of
from tessella.cells.boxes.between import FaceTable
from tessella.cells.boxes.tiling import Tiling
from tessella.cells.boxes.tree import WHOLE
from tessella.cells.cell.draw import Slot, placed
from tessella.cells.cell.place import Place
from tessella.cells.cut.cutting import (
    CUT,
    OUTSIDE,
    Inside,
    Part,
    boundary_points,
    face_parts,
    inner_points,
    kinds,
    too_thin,
    volume_points,
)
from tessella.cells.cut.cutting import WHOLE as INSIDE
from tessella.cells.system.cut_faces import cut_faces
from tessella.cells.system.tiled import Cells, corners, points_per_cell
from tessella.features.plane_waves import INSIDE as INSIDE_WAVES
from tessella.features.plane_waves import PlaneWaves
from tessella.geometry.combinations import Extrusion
from tessella.geometry.domain import Domain
from tessella.geometry.gauss import gauss_rule
from tessella.machine.arrays import Array
from tessella.overlap.points import Grid
from tessella.overlap.quadrature import FEWEST
from tessella.problem.problem import Problem
from tessella.problem.slabs import between, section

ROWS = 1.3
"""Points inside a cut cell, at least so many per feature."""


LOST = 0.05
"""Part of a boundary between regions that may lie in cells which see one side only: where it just
touches a face."""


@dataclass(frozen=True)
class ShapedCells(Cells):
    """Cells some of which are cut.

    insides    the domain, or each of its regions
    homes      of every unknown, in which of these it lives
    kind       (regions, J): outside, cut or whole; a cell that reaches into slivers is a cut one
    boxes      all boxes that take part, slivers among them, and `cell`, whose they are
    cut_slots  (region, cell) -> points inside
    sampled    where parts of the boundary have been sampled already
    """

    insides: tuple[Inside, ...]
    homes: tuple[int, ...]
    kind: np.ndarray
    boxes: np.ndarray
    cell: np.ndarray
    cut_slots: dict[tuple[int, int], Slot]
    sampled: dict[str, list[Place]] = field(default_factory=dict)

    @property
    def rooms(self) -> Array:
        boxes = np.prod(2 * self.half_widths, axis=1)
        found = np.where(self.kind == INSIDE, boxes, 0.0).sum(axis=1)
        for (region, cell), slot in self.cut_slots.items():
            found[region] += float(slot.weights.sum()) * boxes[cell]
        return np.asarray(found / found.sum())[list(self.homes)]

    @property
    def own_filter(self) -> np.ndarray:
        return np.asarray((self.kind == CUT).any(axis=0))

    @cached_property
    def corners(self) -> tuple[Array, Array]:
        """Of all boxes."""
        centres, half = self.tiling.centres[self.boxes], self.tiling.half_widths[self.boxes]
        return centres - half, centres + half

    def _seen(self, x: Array, cell: int) -> Array:
        """Points in the coordinates of a cell."""
        return np.asarray((x - self.centres[cell]) / self.half_widths[cell])

    def inner(self) -> list[Place]:
        return self._places(self.counts, self.cut_slots)

    def sums(self, fewest: int) -> list[Place]:
        counts = tuple(max(n, fewest) for n in self.counts)
        cut = {}
        for f, inside in enumerate(self.insides):
            own = np.flatnonzero(self.kind[f][self.cell] == CUT)
            low, high = (corner[own] for corner in self.corners)
            parts = volume_points(inside, low, high, max(counts)) if len(own) else []
            for cell, (x, weights) in _by_cell(self.cell[own], parts):
                boxes = np.prod(2 * self.half_widths[cell])
                cut[f, cell] = Slot(self._seen(x, cell), weights / boxes)
        return self._places(counts, cut)

    def _places(
        self, counts: tuple[int, ...], cut_slots: dict[tuple[int, int], Slot]
    ) -> list[Place]:
        found = []
        whole = np.flatnonzero((self.kind == INSIDE).any(axis=0))
        if len(whole):
            found.append(Place(slots.inside(counts), whole, np.ones(len(whole))))
        for (_, cell), slot in cut_slots.items():
            found.append(Place(slot, np.array([cell]), np.ones(1)))
        return found

    def on(self, problem: Problem, name: str) -> list[Place]:
        if name not in self.sampled:
            self.sampled[name] = self._sampled(problem, name)
        return self.sampled[name]

    def moved(self, tiling: Tiling) -> ShapedCells:
        """The same cells at another time."""
        insides = tuple(Inside(tiling.domain, inside.region) for inside in self.insides)
        return replace(self, tiling=tiling, insides=insides)

    def _lids(self, end: int) -> list[Place]:
        """The ends of the last axis, along which nothing changes: whole faces, and the parts of
        faces of cells that are cut, with as many points on any part as on a whole face, for initial
        data must determine all."""
        axis = self.half_widths.shape[1] - 1
        there = np.isin(self.boxes, self.tiling.at_end(axis, end))
        found: list[Place] = []
        for inside, kind in zip(self.insides, self.kind, strict=True):
            own = kind[self.cell]
            whole, cut = (np.flatnonzero(there & (own == one)) for one in (INSIDE, CUT))
            if len(whole):
                found.append(self.on_wall((axis, end, WHOLE), self.cell[whole]))
            low, high = (corner[cut] for corner in self.corners)
            low[:, axis] = high[:, axis] = (low + high)[:, axis] / 2  # The lid is a boundary.
            parts = face_parts(inside, axis, low, high, max(self.face_counts[axis], default=1))
            cells = np.repeat(self.cell[cut], [len(own) for own in parts])
            for cell, (x, weights) in _by_cell(cells, list(itertools.chain(*parts))):
                z = self._seen(x, cell)
                z[:, axis] = 2.0 * end - 1.0
                normals = np.tile(np.eye(axis + 1)[axis] * (2.0 * end - 1.0), (len(z), 1))
                slot = Slot(z, weights / np.prod(2 * self.half_widths[cell]))
                found.append(Place(slot, np.array([cell]), np.ones(1), normals))
        return found

    def _along_sides(self, base: Domain, name: str) -> tuple[np.ndarray, Array, Array, Array]:
        """Boxes, points, normals and weights on a part of the boundary along the last axis: those
        of the base, at Gauss points. Points evenly spaced in time would leave the end of a slab
        open, and that grows from slab to slab."""
        count = max(itertools.chain(*self.face_counts))
        spacing = (2 * self.half_widths).min(axis=0)[:-1] / count
        ends = np.concatenate([corner[:, :-1] for corner in self.corners], axis=1)
        flat, which = np.unique(ends, axis=0, return_inverse=True)
        low, high = np.split(flat, 2, axis=1)
        owner, x, normals, weights = boundary_points(base, name, spacing, low, high)
        nodes, shares = gauss_rule(count)
        found = []
        for number, (bottom, top) in enumerate(np.stack(self.corners)[:, :, -1].T):
            own = np.flatnonzero(owner == which.ravel()[number])
            t = np.tile((bottom + top) / 2 + (top - bottom) / 2 * nodes, len(own))
            points = np.column_stack([np.repeat(x[own], count, axis=0), t])
            outward = np.column_stack([np.repeat(normals[own], count, axis=0), 0 * t])
            measure = np.outer(weights[own], (top - bottom) / 2 * shares).ravel()
            found.append((np.full(len(t), number), points, outward, measure))
        box, points, outward, measure = (np.concatenate(a) for a in zip(*found, strict=True))
        return box, points, outward, measure

    def _sampled(self, problem: Problem, name: str) -> list[Place]:
        domain = problem.domain
        base, last = section(domain), domain.axes[-1]
        if base is not None and name in (f"{last}min", f"{last}max"):
            return self._lids(int(name.endswith("max")))
        if base is not None:
            box, points, normals, weights = self._along_sides(base, name)
        else:
            spacing = (2 * self.half_widths).min(axis=0) / (max(self.counts) + 1)
            box, points, normals, weights = boundary_points(domain, name, spacing, *self.corners)
        owner = self.cell[box]
        if self.insides[0].region is not None and "/" in name:
            sides = [i for i, own in enumerate(self.insides) if own.region in name.split("/")]
            there = (self.kind[sides][:, owner] != OUTSIDE).all(axis=0)
            if float(weights[~there].sum()) > LOST * float(weights.sum()):
                at = ", ".join(f"{c:.4g}" for c in points[~there][0])
                raise ValueError(
                    f"the boundary {name!r} of {problem.domain!r} runs along faces of subdomains "
                    f"near ({at}), where none sees both sides: choose edges beside it, or give "
                    f"subdomains=... instead of a basis, whose edges are moved aside"
                )
            owner, points, normals, weights = (x[there] for x in (owner, points, normals, weights))
        found: list[Place] = []
        on_walls: dict[tuple[int, int], list[int]] = {}
        for cell in np.unique(owner).tolist():
            here = owner == cell
            z = self._seen(points[here], cell)
            side = self._whole_side(cell, z, normals[here], float(weights[here].sum()))
            if side is not None:
                on_walls.setdefault(side, []).append(cell)
                continue
            volume = float(np.prod(2 * self.half_widths[cell]))
            slot = Slot(z, weights[here] / volume)
            found.append(Place(slot, np.array([cell]), np.ones(1), normals[here]))
        return [
            *(self.on_wall((*side, WHOLE), np.array(cells)) for side, cells in on_walls.items()),
            *found,
        ]

    def _whole_side(
        self, cell: int, z: Array, normals: Array, measure: float
    ) -> tuple[int, int] | None:
        """The face of a whole cell that these boundary points lie on and cover, if they do."""
        if not (self.kind[:, cell] == INSIDE).any():
            return None
        for axis, end in itertools.product(range(z.shape[1]), (0, 1)):
            sign = 2.0 * end - 1.0
            flat = np.all(np.abs(z[:, axis] - sign) < 1e-8)
            if flat and np.all(normals[:, axis] * sign > 1 - 1e-8):
                area = float(np.prod(np.delete(2 * self.half_widths[cell], axis)))
                covered = measure > 0.98 * area and self._covered(cell, axis, sign)
                return (axis, end) if covered else None
        return None

    def _covered(self, cell: int, axis: int, sign: float) -> bool:
        """Whether beyond a whole face of a whole cell there is nothing of the domain."""
        slot = self.slot((axis, int(sign > 0), WHOLE))
        beyond = slot.points.copy()
        beyond[:, axis] = sign * (1 + 1e-6)
        x = self.points(cell, beyond)
        return not any(inside.member(x).any() for inside in self.insides)


def shaped_cells(problem: Problem, basis: AnyCellBasis, grid: Grid) -> ShapedCells:
    """The boxes that a domain meets, cut by its boundary; the same as last time if nothing has
    changed."""
    tiling, degree = tiling_of(basis), common_degree(basis)
    counts = points_per_cell(basis, grid)
    extra = max(len(own.enrichment) for own in basis.levels)
    on_faces = tuple(max(n, degree + 1 + extra) for n in counts)
    least = int(ROWS * max(own.features.columns for own in basis.levels))
    features = basis.levels[0].features
    if isinstance(features, PlaneWaves):
        across = features.face_points(len(counts))
        counts, on_faces = (INSIDE_WAVES,) * len(counts), tuple(max(n, across) for n in on_faces)
        least = INSIDE_WAVES ** len(counts)
    regions = problem.domain.regions or (None,)
    homes = tuple(regions.index(problem.region(field)) for field in problem.fields)
    sizes = (_at_rest(tiling), counts, on_faces, degree, least, homes)
    try:
        return _shaped(*sizes).moved(tiling)
    except TypeError:  # a domain that has no hash is cut anew
        return _shaped.__wrapped__(*sizes).moved(tiling)


def _at_rest(tiling: Tiling) -> Tiling:
    """What is the same all along its last axis from 0 on: it is cut alike in all slabs of time."""
    domain = tiling.domain
    if section(domain) is None:
        return tiling
    length = float(f"{domain.upper[-1] - domain.lower[-1]:.9g}")
    if isinstance(domain, Extrusion):
        return tiling.moved(replace(domain, low=0.0, high=length))
    return tiling.moved(between(domain, 0.0, length))


@lru_cache(maxsize=4)
def _shaped(
    tiling: Tiling,
    counts: tuple[int, ...],
    on_faces: tuple[int, ...],
    degree: int,
    least: int,
    homes: tuple[int, ...],
) -> ShapedCells:
    """`homes` are the regions that the unknowns live in."""
    domain = tiling.domain
    insides = tuple(Inside(domain, name) for name in domain.regions) or (Inside(domain),)
    low, high = tiling.centres - tiling.half_widths, tiling.centres + tiling.half_widths
    kind = np.stack([kinds(inside, low, high) for inside in insides])
    _refuse_thin(insides, low, high, kind)
    points: dict[tuple[int, int], Part] = {}
    for f, inside in enumerate(insides):
        cut = np.flatnonzero(kind[f] == CUT)
        made = inner_points(inside, low[cut], high[cut], max(counts), least) if len(cut) else []
        for box, (x, weights) in zip(cut.tolist(), made, strict=True):
            if len(x):
                points[f, box] = Part(x, weights)
            else:
                kind[f, box] = OUTSIDE
    boxes = np.flatnonzero((kind != OUTSIDE).any(axis=0))
    host = np.arange(tiling.count) if tiling.hosts is None else tiling.hosts
    number = np.unique(host[boxes])
    if len(number) < 2:
        raise ValueError(
            f"{domain!r} meets {len(number)} of {tiling.count} subdomains, which has no "
            f"neighbour: use more subdomains, or coupling='overlap'"
        )
    cell_of = np.full(tiling.count, -1)
    cell_of[boxes] = np.searchsorted(number, host[boxes])
    for box in np.unique(host[boxes[host[boxes] != boxes]]).tolist():
        if kind[0, box] == INSIDE:
            slot, volume = slots.inside(counts), float(np.prod(high[box] - low[box]))
            x = placed(slot.points, tiling.centres[box], tiling.half_widths[box])
            points[0, box], kind[0, box] = Part(x, volume * slot.weights), CUT
    cut_slots, volumes = {}, np.zeros(len(number))
    sizes = np.prod(2 * tiling.half_widths[number], axis=1)
    for f in range(len(insides)):
        own = [(int(cell_of[box]), part) for (g, box), part in points.items() if g == f]
        for cell, (x, weights) in _by_cell([c for c, _ in own], [p for _, p in own]):
            z = (x - tiling.centres[number[cell]]) / tiling.half_widths[number[cell]]
            cut_slots[f, cell] = Slot(z, weights / sizes[cell])
            volumes[cell] += weights.sum()
    whole = (kind[:, number] == INSIDE).any(axis=0)
    volumes[whole] = sizes[whole]
    face_counts = tuple(on_faces[:i] + on_faces[i + 1 :] for i in range(len(counts)))
    all_low, all_high = corners(tiling)
    return ShapedCells(
        tiling,
        number,
        all_low[number],
        all_high[number],
        FaceTable.of(cut_faces(tiling, insides, homes, kind, cell_of, face_counts, degree)),
        counts,
        face_counts,
        degree,
        volumes,
        kind[list(homes)][:, number].T != OUTSIDE,
        insides,
        homes,
        kind[:, number],
        boxes,
        cell_of[boxes],
        cut_slots,
    )


def _by_cell(cells: Iterable[int], parts: Sequence[Part]) -> list[tuple[int, Part]]:
    """The points of all parts that a cell has, in the order of cells."""
    found: dict[int, list[Part]] = {}
    for cell, part in zip(cells, parts, strict=True):
        found.setdefault(int(cell), []).append(part)
    return [
        (cell, Part(*(np.concatenate(a) for a in zip(*found[cell], strict=True))))
        for cell in sorted(found)
    ]


def _refuse_thin(insides: tuple[Inside, ...], low: Array, high: Array, kind: np.ndarray) -> None:
    for f, inside in enumerate(insides):
        place = too_thin(inside, low, high, kind[f])
        if place is not None:
            at = ", ".join(f"{c:.4g}" for c in place)
            size = ", ".join(f"{c:.3g}" for c in (high - low).min(axis=0))
            raise ValueError(
                f"{inside.domain!r} has a part near ({at}) that is too thin for subdomains of "
                f"size ({size}): use more subdomains, or coupling='overlap'"
            )


def integral_points(problem: Problem, basis: AnyCellBasis) -> tuple[Array, Array]:
    """Points and weights of an integral over a shape or a divided domain."""
    cells = shaped_cells(problem, basis, Grid(2.0))
    points, weights = [], []
    for place in cells.sums(FEWEST):
        x = cells.points(place.members, place.slot.points)
        boxes = np.prod(2 * cells.half_widths[place.members], axis=1)
        points.append(x.reshape(-1, x.shape[2]))
        weights.append((boxes[:, None] * place.slot.weights).ravel())
    return np.concatenate(points), np.concatenate(weights)
