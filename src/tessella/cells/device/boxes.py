"""The boxes of a regular grid's cells that several processes have, each as one large cell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tessella.cells.device.grid import Data, Sides
from tessella.cells.order.found import order_of_blocks
from tessella.cells.order.joints import Joints
from tessella.cells.order.order import Order


@dataclass(frozen=True, eq=False)
class Blocks:
    """From which cell to which every process has, (P, d), of a grid that may wrap around."""

    counts: tuple[int, ...]
    wraps: tuple[bool, ...]
    low: np.ndarray
    high: np.ndarray

    @staticmethod
    def of(
        counts: tuple[int, ...], wraps: tuple[bool, ...], whose: np.ndarray, number: int
    ) -> Blocks | None:
        """Those of cells with these owners; None if some process has none, or no box."""
        each = np.bincount(whose, minlength=number)
        if not all(each):
            return None
        order, first = np.argsort(whose, kind="stable"), np.cumsum(each) - each
        places = np.stack(np.unravel_index(order, counts), axis=1)
        low = np.minimum.reduceat(places, first)
        high = np.maximum.reduceat(places, first) + 1
        boxes = np.array_equal(np.prod(high - low, axis=1), each)
        return Blocks(counts, wraps, low, high) if boxes else None

    @property
    def largest(self) -> int:
        """The most cells of a process."""
        return int(np.prod(self.high - self.low, axis=1).max())

    def cells(self, process: int) -> np.ndarray:
        """One's cells, in the order of its own grid."""
        axes = zip(self.low[process], self.high[process], strict=True)
        return self._numbers([np.arange(a, b) for a, b in axes])

    def shape(self, process: int) -> tuple[int, ...]:
        return tuple((self.high[process] - self.low[process]).tolist())

    def wrapped(self, process: int) -> tuple[bool, ...]:
        """The axes along which a block is its own neighbour."""
        spans = self.high[process] - self.low[process] == self.counts
        return tuple(bool(own and whole) for own, whole in zip(self.wraps, spans, strict=True))

    def opened(self, process: int) -> Sides:
        """The sides beyond which others have cells."""
        found = []
        for axis, wraps in enumerate(self.wraps):
            a, b, n = self.low[process, axis], self.high[process, axis], self.counts[axis]
            around = wraps and b - a < n
            found.append((bool(a > 0 or around), bool(b < n or around)))
        return tuple(found)

    def order(self, data: Data, long: Sequence[np.ndarray]) -> Order:
        """In which order blocks are joined, as those of all cells are; their ports are faces of
        cells, as `Grid.outside` has them, and `long` says of every axis which numbers at a face are
        of its longest waves."""
        each = math.prod(self.counts) // len(self.low)
        return replace(order_of_blocks(self._joints(data, long)), each=each)

    def _joints(self, data: Data, long: Sequence[np.ndarray]) -> Joints:
        """Faces between blocks, known by their axis and the cell above."""
        faces, sides, whose = [], [], []
        for process in range(len(self.low)):
            for axis, both in enumerate(self.opened(process)):
                for end in np.flatnonzero(both).tolist():
                    above = self._above(process, axis, end)
                    faces.append(axis * math.prod(self.counts) + above)
                    sides.append(np.full(len(above), end))
                    whose.append(np.full(len(above), process))
        side, of = np.concatenate(sides), np.concatenate(whose)
        every, face = np.unique(np.concatenate(faces), return_inverse=True)
        ends = np.empty((len(every), 2), dtype=np.int64)
        ends[face, 1 - side] = of
        across = every // math.prod(self.counts)
        up, down = (np.array(own)[across] for own in zip(*data, strict=True))
        starts = np.searchsorted(of, np.arange(len(self.low) + 1))
        waves = np.concatenate([long[axis] for axis in across.tolist()])
        return Joints(ends, up, down, starts, 2 * face + side, waves)

    def _above(self, process: int, axis: int, side: int) -> np.ndarray:
        """The cells above the faces of one side of a block."""
        ranges = [
            np.arange(a, b) for a, b in zip(self.low[process], self.high[process], strict=True)
        ]
        ranges[axis] = ranges[axis][:1] if side == 0 else ranges[axis][-1:] + 1
        return self._numbers(ranges)

    def _numbers(self, ranges: list[np.ndarray]) -> np.ndarray:
        places = np.meshgrid(*ranges, indexing="ij")
        return np.ravel_multi_index([own.ravel() for own in places], self.counts, mode="wrap")
