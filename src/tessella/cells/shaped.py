"""Cells of a shape or of a divided domain: boxes that its boundary cuts.

A cut cell asks its equation at points inside, its conditions on its piece of the boundary, and
exchanges data over the parts of its faces that lie inside. Each region of a divided domain has an
unknown of its own, which lives in the cells that the region meets.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np

from tessella.cells import slots
from tessella.cells.basis import AnyCellBasis, common_degree, tiling_of
from tessella.cells.cutting import (
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
from tessella.cells.cutting import WHOLE as INSIDE
from tessella.cells.draw import Slot
from tessella.cells.ports import modes_on
from tessella.cells.rim import FEW
from tessella.cells.rows import Place
from tessella.cells.tiled import Between, Cells, Custom, corners, points_per_cell
from tessella.cells.tiling import Tiling
from tessella.cells.tree import WHOLE
from tessella.features.plane_waves import INSIDE as INSIDE_WAVES
from tessella.features.plane_waves import PlaneWaves
from tessella.geometry.combinations import Extrusion
from tessella.machine.arrays import Array
from tessella.overlap.points import Grid
from tessella.overlap.quadrature import FEWEST
from tessella.problem.problem import Problem
from tessella.problem.slabs import START

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
    kind       (regions, J): outside, cut or whole
    cut_slots  (region, cell) -> points inside
    sampled    where parts of the boundary have been sampled already
    """

    insides: tuple[Inside, ...]
    homes: tuple[int, ...]
    kind: np.ndarray
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
    def low_corner(self) -> Array:
        return self.centres - self.half_widths

    @cached_property
    def high_corner(self) -> Array:
        return self.centres + self.half_widths

    def inner(self) -> list[Place]:
        return self._places(self.counts, self.cut_slots)

    def sums(self, fewest: int) -> list[Place]:
        counts = tuple(max(n, fewest) for n in self.counts)
        cut = {}
        for f, inside in enumerate(self.insides):
            cells = np.flatnonzero(self.kind[f] == CUT)
            corners = self.low_corner[cells], self.high_corner[cells]
            parts = volume_points(inside, *corners, max(counts)) if len(cells) else []
            for cell, (x, weights) in zip(cells.tolist(), parts, strict=True):
                half = self.half_widths[cell]
                slot = Slot((x - self.centres[cell]) / half, weights / np.prod(2 * half))
                cut[f, cell] = slot
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

    def _lids(self, domain: Extrusion, end: int) -> list[Place]:
        """The ends of an extrusion: whole faces, and the parts of faces of cells that are cut, with
        as many points on any part as on a whole face, for initial data must determine all."""
        axis = domain.dimension - 1
        there = np.isin(self.number, self.tiling.at_end(axis, end))
        found: list[Place] = []
        for inside, kind in zip(self.insides, self.kind, strict=True):
            whole, cut = (np.flatnonzero(there & (kind == one)) for one in (INSIDE, CUT))
            if len(whole):
                found.append(self.on_wall((axis, end, WHOLE), whole))
            low, high = self.low_corner[cut], self.high_corner[cut]
            low[:, axis] = high[:, axis] = self.centres[cut, axis]  # The lid itself is a boundary.
            parts = face_parts(inside, axis, low, high, max(self.face_counts[axis], default=1))
            for cell, own in zip(cut.tolist(), parts, strict=True):
                if own:
                    x, weights = (np.concatenate(a) for a in zip(*own, strict=True))
                    half = self.half_widths[cell]
                    z = (x - self.centres[cell]) / half
                    z[:, axis] = 2.0 * end - 1.0
                    normals = np.tile(np.eye(axis + 1)[axis] * (2.0 * end - 1.0), (len(z), 1))
                    slot = Slot(z, weights / np.prod(2 * half))
                    found.append(Place(slot, np.array([cell]), np.ones(1), normals))
        return found

    def _sampled(self, problem: Problem, name: str) -> list[Place]:
        domain = problem.domain
        if isinstance(domain, Extrusion) and name in domain.ends:
            return self._lids(domain, domain.ends.index(name))
        counts = self.counts
        if isinstance(domain, Extrusion):  # what too few points leave open grows with time
            counts = tuple(itertools.chain(*self.face_counts))
        spacing = (2 * self.half_widths).min(axis=0) / (max(counts) + 1)
        axis = domain.axes.index("t") if name == START else None
        few = FEW if axis is None else math.prod(self.face_counts[axis])
        owner, points, normals, weights = boundary_points(
            problem.domain, name, spacing, self.low_corner, self.high_corner, few=few
        )
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
            z = (points[here] - self.centres[cell]) / self.half_widths[cell]
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
    """An extrusion from 0 on: what is cut is the same in all slabs of time."""
    domain = tiling.domain
    if not isinstance(domain, Extrusion):
        return tiling
    length = float(f"{domain.high - domain.low:.9g}")
    return tiling.moved(replace(domain, low=0.0, high=length))


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
    points: dict[tuple[int, int], tuple[Array, Array]] = {}
    for f, inside in enumerate(insides):
        cut = np.flatnonzero(kind[f] == CUT)
        made = inner_points(inside, low[cut], high[cut], max(counts), least) if len(cut) else []
        for box, (x, weights) in zip(cut.tolist(), made, strict=True):
            if len(x):
                points[f, box] = (x, weights)
            else:
                kind[f, box] = OUTSIDE
    number = np.flatnonzero((kind != OUTSIDE).any(axis=0))
    if len(number) < 2:
        raise ValueError(
            f"{domain!r} meets {len(number)} of {tiling.count} subdomains, which has no "
            f"neighbour: use more subdomains, or coupling='overlap'"
        )
    cell_of = np.full(tiling.count, -1)
    cell_of[number] = np.arange(len(number))
    cut_slots, volumes = {}, np.zeros(len(number))
    boxes = np.prod(2 * tiling.half_widths, axis=1)
    for (f, box), (x, weights) in points.items():
        z = (x - tiling.centres[box]) / tiling.half_widths[box]
        cut_slots[f, int(cell_of[box])] = Slot(z, weights / boxes[box])
        volumes[cell_of[box]] += weights.sum()
    whole = (kind[:, number] == INSIDE).any(axis=0)
    volumes[whole] = boxes[number][whole]
    face_counts = tuple(on_faces[:i] + on_faces[i + 1 :] for i in range(len(counts)))
    all_low, all_high = corners(tiling)
    return ShapedCells(
        tiling,
        number,
        all_low[number],
        all_high[number],
        tuple(_faces(tiling, insides, homes, kind, cell_of, face_counts, degree)),
        counts,
        face_counts,
        degree,
        volumes,
        kind[list(homes)][:, number].T != OUTSIDE,
        insides,
        homes,
        kind[:, number],
        cut_slots,
    )


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


def _faces(
    tiling: Tiling,
    insides: tuple[Inside, ...],
    homes: tuple[int, ...],
    kind: np.ndarray,
    cell_of: np.ndarray,
    counts: tuple[tuple[int, ...], ...],
    degree: int,
) -> list[Between]:
    """All parts of faces inside, of the unknowns of every region."""
    found = []
    for f, inside in enumerate(insides):
        living = tuple(i for i, home in enumerate(homes) if home == f)
        fields = living if len(insides) > 1 else None
        for faces in tiling.faces:
            there = (kind[f][faces.below] != OUTSIDE) & (kind[f][faces.above] != OUTSIDE)
            plain = (kind[f][faces.below] == INSIDE) & (kind[f][faces.above] == INSIDE)
            columns = cell_of[faces.below], cell_of[faces.above], faces.part_below, faces.part_above
            ends = np.stack(columns, axis=1).tolist()
            whole = [Between(faces.axis, b, a, pb, pa, None, fields) for b, a, pb, pa in ends]
            found += [whole[i] for i in np.flatnonzero(plain).tolist()]
            some = np.flatnonzero(there & ~plain)
            if len(some):
                smaller, end = (x[some] for x in faces.smaller)
                centre, half = tiling.centres[smaller], tiling.half_widths[smaller]
                low, high = centre - half, centre + half
                plane = centre[:, faces.axis] + end * half[:, faces.axis]
                low[:, faces.axis] = high[:, faces.axis] = plane
                n = max(counts[faces.axis], default=1)
                parts = face_parts(inside, faces.axis, low, high, n)
                for i, own in zip(some.tolist(), parts, strict=True):
                    boxes = int(faces.below[i]), int(faces.above[i])
                    found += _cut_face(tiling, whole[i], boxes, own, counts[faces.axis], degree)
    return found


def _cut_face(
    tiling: Tiling,
    face: Between,
    boxes: tuple[int, int],
    parts: list[Part],
    counts: tuple[int, ...],
    degree: int,
) -> list[Between]:
    """The parts of one face, as the boxes below and above it see them; a whole one is like any
    other."""
    smaller = boxes[0] if face.part_below == WHOLE else boxes[1]
    area = float(np.prod(np.delete(2 * tiling.half_widths[smaller], face.axis)))
    if len(parts) == 1 and abs(parts[0].weights.sum() - area) <= 1e-13 * area:
        plain = len(parts[0].points) == int(np.prod(counts)) and len(set(counts)) <= 1
        if plain:
            return [face]
    found = []
    for part in parts:
        measure = float(part.weights.sum())
        weights = part.weights / measure
        seen_below, seen_above = (
            Slot((part.points - tiling.centres[j]) / tiling.half_widths[j], weights) for j in boxes
        )
        modes = modes_on(np.delete(part.points, face.axis, axis=1), weights, degree)
        custom = Custom(seen_below, seen_above, modes, measure)
        found.append(face._replace(part_below=WHOLE, part_above=WHOLE, custom=custom))
    return found


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
