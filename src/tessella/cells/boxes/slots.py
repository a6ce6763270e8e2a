"""Where a whole cell has its points: inside, on its faces, and on the parts of them that smaller
neighbours touch. The same for all cells, so that what features are there is found once."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tessella.cells.boxes.faces import Side, face_modes
from tessella.cells.boxes.tree import WHOLE, middle
from tessella.cells.cell.draw import Slot
from tessella.geometry.gauss import gauss
from tessella.machine.arrays import Array


@lru_cache(maxsize=64)
def inside(counts: tuple[int, ...]) -> Slot:
    """Gauss points of a cell."""
    return Slot(*gauss(counts), lasting=True)


@lru_cache(maxsize=256)
def on_face(counts: tuple[int, ...], side: Side) -> Slot:
    """Gauss points of a face, or of a part of it; `counts` along all axes but the face's own."""
    axis, end, part = side
    points, weights = gauss(counts)
    d = len(counts) + 1
    if part != WHOLE:
        points, weights = middle(part, d) + points / 2, weights / 2 ** (d - 1)
    return Slot(np.insert(points, axis, 2.0 * end - 1.0, axis=1), weights, lasting=True)


@lru_cache(maxsize=64)
def modes(counts: tuple[int, ...], degree: int) -> Array:
    """Orthonormal polynomials at a face's points times the roots of its weights, (n, p)."""
    matrix, number = face_modes(counts, degree)
    return np.ascontiguousarray(matrix[:, :number])


@lru_cache(maxsize=64)
def grid_on_face(dimension: int, per_axis: int, side: Side, inset: bool = False) -> Slot:
    """A regular grid on a face, where nothing is asked of a solution; `inset` without its ends."""
    axis, end, part = side
    along = np.linspace(-1, 1, per_axis + 2)[1:-1] if inset else np.linspace(-1, 1, per_axis)
    mesh = np.meshgrid(*[along] * (dimension - 1), indexing="ij")
    points = np.stack(mesh, axis=-1).reshape(-1, dimension - 1) if mesh else np.zeros((1, 0))
    if part != WHOLE:
        points = middle(part, dimension) + points / 2
    n = len(points)
    return Slot(np.insert(points, axis, 2.0 * end - 1.0, axis=1), np.full(n, 1 / n), lasting=True)
