"""The faces between cells of a shape or of a divided domain, as far as they lie inside."""

from __future__ import annotations

import numpy as np

from tessella.cells.boxes.between import Between, Custom
from tessella.cells.boxes.tiling import Tiling
from tessella.cells.boxes.tree import WHOLE
from tessella.cells.cell.draw import Slot
from tessella.cells.cut.cutting import OUTSIDE, Inside, Part, face_parts
from tessella.cells.cut.cutting import WHOLE as INSIDE
from tessella.cells.system.ports import modes_on


def cut_faces(
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
            there &= cell_of[faces.below] != cell_of[faces.above]
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
                    found += _parts_of(tiling, whole[i], boxes, own, counts[faces.axis], degree)
    return found


def _parts_of(
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
    hosts = boxes if tiling.hosts is None else tuple(tiling.hosts[list(boxes)].tolist())
    if hosts == boxes and len(parts) == 1 and abs(parts[0].weights.sum() - area) <= 1e-13 * area:
        plain = len(parts[0].points) == int(np.prod(counts)) and len(set(counts)) <= 1
        if plain:
            return [face]
    found = []
    for part in parts:
        measure = float(part.weights.sum())
        weights = part.weights / measure
        seen_below, seen_above = (
            Slot((part.points - tiling.centres[j]) / tiling.half_widths[j], weights) for j in hosts
        )
        modes = modes_on(np.delete(part.points, face.axis, axis=1), weights, degree)
        custom = Custom(seen_below, seen_above, modes, measure)
        found.append(face._replace(part_below=WHOLE, part_above=WHOLE, custom=custom))
    return found
