"""The faces between cells, all as one table; those that are unlike others also one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tessella.cells.boxes.faces import Faces
from tessella.cells.boxes.tree import WHOLE
from tessella.cells.cell.draw import Slot
from tessella.machine.arrays import Array


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

    @property
    def particular(self) -> bool:
        """Whether it is unlike others of its axis."""
        return self.custom is not None or self.fields is not None or bool(self.wind)


class Sides(NamedTuple):
    """The faces of all cells, one cell's after the other's (see `faces.Side`).

    starts            where those of every cell begin, (J + 1,)
    face              their numbers
    axis, side, part  where on the cell they are
    """

    starts: np.ndarray
    face: np.ndarray
    axis: np.ndarray
    side: np.ndarray
    part: np.ndarray


@dataclass(frozen=True, eq=False)
class FaceTable:
    """All faces.

    columns     axis, cells below and above, and which parts of theirs it is, (5, faces)
    particular  by their numbers those that are
    """

    columns: np.ndarray
    particular: Mapping[int, Between]

    @staticmethod
    def of(faces: Iterable[Between]) -> FaceTable:
        every = list(faces)
        rows = np.array([face[:5] for face in every], dtype=np.int64).reshape(-1, 5)
        particular = {i: face for i, face in enumerate(every) if face.particular}
        return FaceTable(np.ascontiguousarray(rows.T), particular)

    @staticmethod
    def whole(axes: Sequence[Faces]) -> FaceTable:
        """Those of a tiling."""
        columns = [
            np.stack([np.full(len(f.below), f.axis), f.below, f.above, f.part_below, f.part_above])
            for f in axes
        ]
        return FaceTable(np.concatenate(columns, axis=1), {})

    @property
    def axis(self) -> np.ndarray:
        return self.columns[0]

    @property
    def ends(self) -> np.ndarray:
        """The cells below and above every face, (faces, 2)."""
        return self.columns[1:3].T

    def __len__(self) -> int:
        return self.columns.shape[1]

    def __getitem__(self, number: int) -> Between:
        if number in self.particular:
            return self.particular[number]
        axis, below, above, part_below, part_above = self.columns[:, number].tolist()
        return Between(axis, below, above, part_below, part_above)

    def __iter__(self) -> Iterator[Between]:
        return map(self.__getitem__, range(len(self)))

    @property
    def all_alike(self) -> bool:
        """Whether all are whole on both sides, and none is particular."""
        return not self.particular and bool((self.columns[3:] == WHOLE).all())

    def sides(self, cells: int) -> Sides:
        """Those of so many cells, by where on the cell they are."""
        axis, below, above, part_below, part_above = self.columns
        face, upper = np.tile(np.arange(len(self)), 2), np.arange(2 * len(self)) < len(self)
        cell, part = np.concatenate([below, above]), np.concatenate([part_below, part_above])
        side, across = upper.astype(np.int64), np.tile(axis, 2)
        order = np.lexsort((face, part, side, across, cell))
        starts = np.searchsorted(cell[order], np.arange(cells + 1))
        return Sides(starts, face[order], across[order], side[order], part[order])

    @cached_property
    def by_kind(self) -> dict[tuple[int, int, int, tuple[int, ...] | None], np.ndarray]:
        """The cells below and above faces with points at whole slots, (2, faces), by axis, parts
        and unknowns."""
        plain = np.ones(len(self), dtype=bool)
        plain[list(self.particular)] = False
        each, which = np.unique(self.columns[[0, 3, 4]][:, plain].T, axis=0, return_inverse=True)
        ends = self.ends[plain].T
        found: dict[tuple[int, int, int, tuple[int, ...] | None], np.ndarray] = {
            (axis, below, above, None): ends[:, which.ravel() == k]
            for k, (axis, below, above) in enumerate(each.tolist())
        }
        others: dict[tuple[int, int, int, tuple[int, ...] | None], list[tuple[int, int]]] = {}
        for face in self.particular.values():
            if face.custom is None:
                key = (face.axis, face.part_below, face.part_above, face.fields)
                others.setdefault(key, []).append((face.below, face.above))
        for key, own in others.items():
            parts = [found[key]] if key in found else []
            found[key] = np.concatenate([*parts, np.array(own).T], axis=1)
        return found
