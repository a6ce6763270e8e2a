"""Cells of a problem: the boxes of a tiling, their faces, and their ports."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from tessella.cells import slots
from tessella.cells.basis import AnyCellBasis, CellBasis, common_degree, tiling_of
from tessella.cells.draw import DRAWS, Slot, absent, drawn, placed, powers, unfiltered
from tessella.cells.faces import Side
from tessella.cells.halving import owners
from tessella.cells.joining import Face, Order, order
from tessella.cells.place import Place
from tessella.cells.port import Port
from tessella.cells.rows import Stating
from tessella.cells.sizes import monomial
from tessella.cells.space import Space
from tessella.cells.tiling import Tiling
from tessella.cells.tree import WHOLE
from tessella.features.plane_waves import INSIDE, PlaneWaves
from tessella.geometry.box import Box
from tessella.machine import processes
from tessella.machine.arrays import Array
from tessella.overlap.points import Grid
from tessella.problem.problem import Problem


def points_per_cell(basis: AnyCellBasis, grid: Grid) -> tuple[int, ...]:
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


class Custom(NamedTuple):
    """A part of a face that is no whole one: its points as both cells see them, the functions in
    which data cross it, and its measure."""

    below: Slot
    above: Slot
    modes: Array
    measure: float


class Between(NamedTuple):
    """A face: the cells below and above it, which part of theirs it is (see `tree`)."""

    axis: int
    below: int
    above: int
    part_below: int = WHOLE
    part_above: int = WHOLE
    custom: Custom | None = None
    fields: tuple[int, ...] | None = None
    """The unknowns whose data cross it; None means all."""
    wind: int = 0
    """1 where it blows from below, so that only the cell above takes anything; -1 from above."""


@dataclass(frozen=True)
class Cells:
    """Where cells are, which faces join them, and where their points lie.

    number     of the tiling's boxes, which ones they are
    low, high  corners in whole numbers, for the order of joining
    counts     points along every axis inside; face_counts on the faces across every axis
    volumes    of what lies inside the domain
    present    (J, F): which unknowns live in which cells
    """

    tiling: Tiling
    number: np.ndarray
    low: np.ndarray
    high: np.ndarray
    faces: tuple[Between, ...]
    counts: tuple[int, ...]
    face_counts: tuple[tuple[int, ...], ...]
    degree: int
    volumes: Array
    present: np.ndarray

    @property
    def count(self) -> int:
        return len(self.number)

    @property
    def rooms(self) -> Array:
        """The volumes in which the unknowns live, in parts of the whole, (F,)."""
        return np.ones(self.present.shape[1])

    @property
    def own_filter(self) -> np.ndarray:
        """Which cells filter their own features: points of theirs are not those of others."""
        return np.zeros(self.count, dtype=bool)

    @cached_property
    def centres(self) -> Array:
        return self.tiling.centres[self.number]

    @cached_property
    def half_widths(self) -> Array:
        return self.tiling.half_widths[self.number]

    @cached_property
    def sides(self) -> list[list[tuple[int, Side]]]:
        """Of every cell, its faces' numbers and where they are on it."""
        found: list[list[tuple[int, Side]]] = [[] for _ in range(self.count)]
        for number, face in enumerate(self.faces):
            found[face.below].append((number, (face.axis, 1, face.part_below)))
            found[face.above].append((number, (face.axis, 0, face.part_above)))
        return [sorted(own, key=lambda pair: (pair[1], pair[0])) for own in found]

    @cached_property
    def whole_faces(self) -> dict[tuple[int, int, int, tuple[int, ...] | None], np.ndarray]:
        """The cells below and above faces at whole slots, (2, faces), by axis, parts and fields."""
        found: dict[tuple[int, int, int, tuple[int, ...] | None], list[tuple[int, int]]] = {}
        for face in self.faces:
            if face.custom is None:
                key = (face.axis, face.part_below, face.part_above, face.fields)
                found.setdefault(key, []).append((face.below, face.above))
        return {key: np.array(ends).T for key, ends in found.items()}

    @cached_property
    def alike(self) -> tuple[np.ndarray, np.ndarray]:
        """The first cell of every shape, unknowns and filter, and which of them each cell has."""
        own = np.concatenate([self.half_widths, self.present, self.own_filter[:, None]], axis=1)
        _, first, which = np.unique(own, axis=0, return_index=True, return_inverse=True)
        return first, which.ravel()

    @cached_property
    def shapes(self) -> np.ndarray:
        """Which cells have the same half widths, by numbers."""
        return np.unique(self.half_widths, axis=0, return_inverse=True)[1].ravel()

    def slot(self, side: Side) -> Slot:
        return slots.on_face(self.face_counts[side[0]], side)

    def points(self, cells: int | np.ndarray, z: Array) -> Array:
        """Points z in the coordinates of a cell, or of some cells (see `placed`)."""
        return placed(z, self.centres[cells], self.half_widths[cells])

    @cached_property
    def known_ports(self) -> dict[object, Any]:
        """Ports that were found already, by what decides them (see `ports`)."""
        return {}

    @cached_property
    def ends(self) -> np.ndarray:
        """The cells below and above every face, (faces, 2)."""
        return np.array([face[1:3] for face in self.faces], dtype=np.int64).reshape(-1, 2)

    @cached_property
    def _shares(self) -> dict[int, np.ndarray]:
        """Processes of all cells that were found already, by how many there are."""
        return {}

    @property
    def whose(self) -> np.ndarray:
        """The process of every cell, (J,)."""
        number = processes.number()
        if number not in self._shares:
            self._shares[number] = owners(self.low, self.high, self.ends, number)
        return self._shares[number]

    @cached_property
    def _orders(self) -> dict[tuple[int, tuple[Face, ...]], Order]:
        """Orders of joining that were found already, by processes and what crosses the faces."""
        return {}

    def order(
        self,
        faces: tuple[Face, ...],
        crossings: Sequence[Sequence[int]],
        ports: Sequence[Sequence[Port]],
        number: int | None = None,
    ) -> Order:
        """In which order cells are joined over these faces; `crossings` are the numbers of the
        faces at every cell's ports, and `number` that of processes, if not of those there are."""
        number = number or processes.number()
        key = (number, faces)
        if key not in self._orders:
            sides = [
                [(number, port.side) for number, port in zip(numbers, own, strict=True)]
                for numbers, own in zip(crossings, ports, strict=True)
            ]
            self._orders[key] = order(self.low, self.high, sides, faces, number)
        return self._orders[key]

    def owners(self, x: Array) -> tuple[np.ndarray, np.ndarray]:
        """(cell, point) for all points in some cell."""
        box, point = self.tiling.seen(x)
        cell_of = np.full(self.tiling.count, -1)
        cell_of[self.number] = np.arange(self.count)
        inside = cell_of[box] >= 0
        return cell_of[box[inside]], point[inside]

    def inner(self) -> list[Place]:
        """Where the equations are asked."""
        everywhere, boxes = np.arange(self.count), self.tiling.subdomains
        grid = None if self.tiling.cut else (boxes, self.counts)
        slot = slots.inside(self.counts)
        return [Place(slot, everywhere, np.ones(self.count), grid=grid)]

    def sums(self, fewest: int) -> list[Place]:
        """Where integrals are taken: points whose weights are parts of a cell's volume."""
        counts = tuple(max(n, fewest) for n in self.counts)
        return [Place(slots.inside(counts), np.arange(self.count), np.ones(self.count))]

    def on(self, problem: Problem, name: str) -> list[Place]:
        """Where a condition has its rows on one part of the boundary."""
        domain = problem.domain
        assert isinstance(domain, Box)
        face = domain.face(name)
        side = (face.axis, int(face.sign > 0), WHOLE)
        place = self.on_wall(side, self.tiling.at_end(*side[:2]))
        if self.tiling.cut:
            return [place]
        boxes, counts = list(self.tiling.subdomains), list(self.face_counts[face.axis])
        boxes[face.axis] = 1
        counts.insert(face.axis, 1)
        return [place._replace(grid=(tuple(boxes), tuple(counts)))]

    def on_wall(self, side: Side, members: np.ndarray) -> Place:
        """Whole faces of some cells as pieces of the boundary."""
        axis, end, _ = side
        slot, d = self.slot(side), self.half_widths.shape[1]
        normals = np.zeros((len(slot), d))
        normals[:, axis] = 2.0 * end - 1.0
        return Place(slot, members, 1 / (2 * self.half_widths[members, axis]), normals, axis)


def cells_of(problem: Problem, basis: AnyCellBasis, grid: Grid) -> Cells:
    """All boxes of a tiling; the same ones as last time if nothing has changed."""
    tiling, degree = tiling_of(basis), common_degree(basis)
    counts = points_per_cell(basis, grid)
    extra = max(len(own.enrichment) for own in basis.levels)
    on_faces = tuple(max(n, degree + 1 + extra) for n in counts)
    features = basis.levels[0].features
    if isinstance(features, PlaneWaves):
        across = features.face_points(len(counts))
        counts, on_faces = (INSIDE,) * len(counts), tuple(max(n, across) for n in on_faces)
    return _cells(tiling, counts, on_faces, degree, len(problem.fields))


@lru_cache(maxsize=8)
def _cells(
    tiling: Tiling, counts: tuple[int, ...], on_faces: tuple[int, ...], degree: int, fields: int
) -> Cells:
    low, high = corners(tiling)
    faces = tuple(
        Between(f.axis, int(b), int(a), int(pb), int(pa))
        for f in tiling.faces
        for b, a, pb, pa in zip(f.below, f.above, f.part_below, f.part_above, strict=True)
    )
    return Cells(
        tiling,
        np.arange(tiling.count),
        low,
        high,
        faces,
        counts,
        tuple(on_faces[:i] + on_faces[i + 1 :] for i in range(len(counts))),
        degree,
        np.prod(2 * tiling.half_widths, axis=1),
        np.ones((tiling.count, fields), dtype=bool),
    )


def corners(tiling: Tiling) -> tuple[np.ndarray, np.ndarray]:
    """Of all boxes, in whole numbers of the smallest."""
    level, place = tiling.leaves
    size = (1 << (int(level.max()) - level))[:, None]
    return place * size, (place + 1) * size


def spaces(
    cells: Cells,
    bases: Sequence[CellBasis],
    stating: Stating,
    orders: Array,
    sigma: float,
) -> tuple[np.ndarray, list[Space]]:
    """Which cells share their filtered features, and those: cells of one shape and one draw."""
    first = which = np.arange(cells.count)
    if all(own.shared for own in bases):
        first, which = cells.alike
    return which, [_space(cells, bases, stating, orders, sigma, j) for j in first.tolist()]


def _space(
    cells: Cells,
    bases: Sequence[CellBasis],
    stating: Stating,
    orders: Array,
    sigma: float,
    cell: int,
) -> Space:
    half = cells.half_widths[cell]
    d = len(half)
    k = np.max([own.features.columns for own in bases]) ** (1 / d) / (2 * half)
    W = stating.sizes(k)
    draws, units = [], []
    for f, own in enumerate(bases):
        features = drawn(own.features, own.layers, int(cells.number[cell]))
        if not cells.present[cell, f]:
            draws.append(absent(features))
            units.append(1.0)
            continue
        inner = {
            alpha: rms / float(monomial(half, alpha))
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
        if cells.own_filter[cell]:
            draws.append(unfiltered(features))
            units.append(largest)
            continue
        draws.append(DRAWS.get(features, tuple(asked), sigma))
        units.append(largest)
    return Space(tuple(draws), tuple(units))
