"""A block matrix row by row: which rows every block fills, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tessella.linalg.block_matrix import BlockMatrix, Group
from tessella.machine.arrays import Array


class Entries:
    """All rows of all blocks: which row of the whole, which block, and which of its rows."""

    def __init__(self, A: BlockMatrix) -> None:
        self.A = A
        heights = np.concatenate([g.heights for g in A.groups])
        self.widths = np.concatenate([g.widths for g in A.groups])
        self.block = np.repeat(np.arange(len(heights)), heights)
        self.local = np.arange(len(self.block)) - np.repeat(np.cumsum(heights) - heights, heights)
        rows, columns = A.pattern()
        self.row, self.columns = np.concatenate(rows).astype(np.int64), np.concatenate(columns)

    @property
    def once(self) -> bool:
        """Whether no block has a row twice."""
        order = np.lexsort((self.row, self.block))
        return not np.any((np.diff(self.row[order]) == 0) & (np.diff(self.block[order]) == 0))

    def columns_of(self, blocks: np.ndarray) -> np.ndarray:
        """Which columns of the whole some blocks have, one block's after the other's."""
        width, starts = self.widths[blocks], np.cumsum(self.widths) - self.widths
        along = np.arange(width.sum()) - np.repeat(np.cumsum(width) - width, width)
        return np.asarray(self.columns[np.repeat(starts[blocks], width) + along])

    def values(self, entry: np.ndarray) -> Array:
        """The numbers of some of them, as many as the widest block has."""
        found = np.zeros((len(entry), int(self.widths[self.block[entry]].max(initial=0))))
        for own, b, g in self.by_group(entry):
            width = min(found.shape[1], g.values.shape[1])
            found[own, :width] = np.asarray(g.values)[b, :width, self.local[entry[own]]]
        return found

    def by_group(self, entry: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, Group]]:
        """Which of some of them every group has, and in which of its blocks."""
        first = 0
        for g in self.A.groups:
            b = self.block[entry] - first
            own = np.flatnonzero((b >= 0) & (b < len(g.heights)))
            yield own, b[own], g
            first += len(g.heights)
