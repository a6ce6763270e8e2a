"""The faces between boxes side by side, and the polynomials in which data cross them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import legendre

from tessella.cells.tiling import Tiling
from tessella.cells.tree import WHOLE, touching
from tessella.geometry.gauss import gauss
from tessella.machine.arrays import Array
from tessella.overlap.decomposition import Decomposition

Side = tuple[int, int, int]
"""(axis, side, part) of a subdomain's face: side 0 is the lower one, parts as in `tree`."""


@dataclass(frozen=True)
class Faces:
    """All interior faces across one axis: which subdomains they join, and where they are.

    A face is whole for the smaller of the two, and of the larger it is a part (see `tree`).
    """

    axis: int
    below: np.ndarray
    above: np.ndarray
    positions: Array
    part_below: np.ndarray
    part_above: np.ndarray

    @property
    def smaller(self) -> tuple[np.ndarray, np.ndarray]:
        """A subdomain for which each face is whole, and at which end (-1, 1) it has it."""
        is_below = self.part_below == WHOLE
        return np.where(is_below, self.below, self.above), np.where(is_below, 1, -1)

    def points(self, tiling: Decomposition, across: Array) -> Array:
        """Local points of a face (n, d - 1) on all faces, shape (faces, n, d)."""
        cell, end = self.smaller
        z = np.insert(across, self.axis, 0.0, axis=1)
        x = tiling.centres[cell][:, None] + z * tiling.half_widths[cell][:, None]
        x[:, :, self.axis] += (end * tiling.half_widths[cell, self.axis])[:, None]
        return x

    def by_side(self) -> Iterator[tuple[Side, np.ndarray, np.ndarray]]:
        """(axis, side, part), the subdomains that have such a face, and the faces' numbers."""
        sides = ((1, self.below, self.part_below), (0, self.above, self.part_above))
        for side, members, parts in sides:
            for part in np.unique(parts).tolist():
                chosen = np.flatnonzero(parts == part)
                yield (self.axis, side, part), members[chosen], chosen


def interior_faces(tiling: Tiling) -> list[Faces]:
    """The interior faces, axis by axis; positions are in units of the domain's sides.

    Along a periodic axis the last subdomain lies below the first one: their face is the seam.
    The tiling keeps them.
    """
    if "_faces" not in tiling.__dict__:
        tiling.__dict__["_faces"] = _interior_faces(tiling)
    return list(tiling.__dict__["_faces"])


def _interior_faces(tiling: Tiling) -> list[Faces]:
    found = []
    if tiling.cut:
        for axis, (below, above, *parts) in enumerate(touching(tiling.roots, tiling.leaves)):
            positions = _positions(tiling, axis, below, above)
            faces = Faces(axis, below, above, positions, *parts)
            # All faces in one plane are at the same place, so that they can separate.
            cell, end = faces.smaller
            inner = positions[:, axis] < 1.0
            place = tiling.centres[cell, axis] + end * tiling.half_widths[cell, axis]
            side = tiling.domain.upper[axis] - tiling.domain.lower[axis]
            place = np.round((place - tiling.domain.lower[axis]) / side, 12)
            positions[inner, axis] = place[inner]
            found.append(faces)
        return found
    numbers = np.arange(tiling.count).reshape(tiling.subdomains)
    for axis, S in enumerate(tiling.subdomains):
        last = S if tiling.wraps[axis] else S - 1
        below = np.take(numbers, np.arange(last), axis=axis).ravel()
        above = np.take(numbers, np.arange(1, last + 1) % S, axis=axis).ravel()
        whole = np.full(len(below), WHOLE)
        positions = _positions(tiling, axis, below, above)
        found.append(Faces(axis, below, above, positions, whole, whole))
    return found


def _positions(tiling: Tiling, axis: int, below: np.ndarray, above: np.ndarray) -> Array:
    """Between the centres of both subdomains; at the upper end where an axis closes on itself."""
    positions = (tiling.positions[below] + tiling.positions[above]) / 2
    seam = tiling.centres[below, axis] > tiling.centres[above, axis]
    positions[seam, axis] = 1.0
    return positions


def face_modes(counts: tuple[int, ...], degree: int) -> tuple[Array, int]:
    """The orthogonal matrix from weighted values at a face's Gauss points to its modes.

    Column k is sqrt(weight) P_k at the points, for orthonormal tensor Legendre polynomials; those
    of total degree <= `degree`, the traces, come first, and their number is returned.
    """
    points, weights = gauss(counts)
    orders = sorted(itertools.product(*(range(n) for n in counts)), key=lambda k: (sum(k), k))
    values = np.sqrt(weights)[:, None] * np.ones((1, len(orders)))
    for i, n in enumerate(counts):
        one = legendre.legvander(points[:, i], n - 1) * np.sqrt(2 * np.arange(n) + 1)
        values *= one[:, [k[i] for k in orders]]
    return values, sum(sum(k) <= degree for k in orders)
