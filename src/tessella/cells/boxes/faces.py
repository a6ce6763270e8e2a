"""The faces between boxes side by side, and the polynomials in which data cross them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.polynomial import legendre

from tessella.cells.boxes.tree import WHOLE, touching
from tessella.cells.cell.draw import placed
from tessella.geometry.gauss import gauss
from tessella.machine.arrays import Array

if TYPE_CHECKING:
    from tessella.cells.boxes.tiling import Tiling

Side = tuple[int, int, int]
"""(axis, side, part) of a subdomain's face: side 0 is the lower one, parts as in `tree`."""


@dataclass(frozen=True)
class Faces:
    """All interior faces across one axis: which subdomains they join.

    A face is whole for the smaller of the two, and of the larger it is a part (see `tree`).
    """

    axis: int
    below: np.ndarray
    above: np.ndarray
    part_below: np.ndarray
    part_above: np.ndarray

    @property
    def smaller(self) -> tuple[np.ndarray, np.ndarray]:
        """A subdomain for which each face is whole, and at which end (-1, 1) it has it."""
        is_below = self.part_below == WHOLE
        return np.where(is_below, self.below, self.above), np.where(is_below, 1, -1)

    def points(self, tiling: Tiling, across: Array) -> Array:
        """Local points of a face (n, d - 1) on all faces, shape (faces, n, d)."""
        cell, end = self.smaller
        z = np.insert(across, self.axis, 0.0, axis=1)
        x = placed(z, tiling.centres[cell], tiling.half_widths[cell])
        x[:, :, self.axis] += (end * tiling.half_widths[cell, self.axis])[:, None]
        return x


def interior_faces(tiling: Tiling) -> tuple[Faces, ...]:
    """The interior faces, axis by axis.

    Along a periodic axis the last subdomain lies below the first one: their face is the seam.
    """
    if tiling.cut:
        found = touching(tiling.roots, tiling.leaves)
        return tuple(Faces(axis, *own) for axis, own in enumerate(found))
    return tuple(_between_slabs(tiling, axis) for axis in range(len(tiling.subdomains)))


def _between_slabs(tiling: Tiling, axis: int) -> Faces:
    numbers = np.arange(tiling.count).reshape(tiling.subdomains)
    S = tiling.subdomains[axis]
    last = S if tiling.wraps[axis] else S - 1
    below = np.take(numbers, np.arange(last), axis=axis).ravel()
    above = np.take(numbers, np.arange(1, last + 1) % S, axis=axis).ravel()
    whole = np.full(len(below), WHOLE)
    return Faces(axis, below, above, whole, whole)


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
