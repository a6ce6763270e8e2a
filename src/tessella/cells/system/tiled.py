"""Cells of a problem: the boxes of a tiling, their faces, and their ports."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from tessella.cells.boxes import slots
from tessella.cells.boxes.basis import AnyCellBasis, CellBasis, common_degree, tiling_of
from tessella.cells.boxes.between import FaceTable, Sides
from tessella.cells.boxes.faces import Side
from tessella.cells.boxes.tiling import Tiling
from tessella.cells.boxes.tree import WHOLE
from tessella.cells.cell.draw import DRAWS, Slot, absent, drawn, placed, powers, unfiltered
from tessella.cells.cell.place import Place
from tessella.cells.cell.rows import Stating
from tessella.cells.cell.sizes import monomial
from tessella.cells.cell.space import Space
from tessella.cells.order.found import order
from tessella.cells.order.halving import owners
from tessella.cells.order.joints import Joints
from tessella.cells.order.order import Order
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
    faces: FaceTable
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
    def sides(self) -> Sides:
        """The faces of every cell."""
        return self.faces.sides(self.count)

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
    def _shares(self) -> dict[int, np.ndarray]:
        """Processes of all cells that were found already, by how many there are."""
        return {}

    @property
    def whose(self) -> np.ndarray:
        """The process of every cell, (J,)."""
        number = processes.number()
        if number not in self._shares:
            self._shares[number] = owners(self.low, self.high, self.faces.ends, number)
        return self._shares[number]

    def order(self, joints: Joints, number: int | None = None) -> Order:
        """In which order cells are joined; `number` is that of processes, if not of those there
        are."""
        return order(self.low, self.high, joints, number or processes.number())

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
    return Cells(
        tiling,
        np.arange(tiling.count),
        low,
        high,
        FaceTable.whole(tiling.faces),
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
