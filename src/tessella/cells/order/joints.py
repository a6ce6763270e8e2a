"""Where cells meet: the numbers that cross faces, and the ports of cells there, as tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b

import numpy as np

from tessella.cells.order.stage import Sizes, stack_ports


@dataclass(frozen=True, eq=False)
class Joints:
    """All faces, and the ports of all cells, one cell's after the other's.

    ends      the cells below and above every face, (faces, 2); -1 for none
    up, down  how many numbers the cell above takes from below, and the other one from above
    starts    where the ports of every cell begin, (J + 1,)
    ports     twice their faces, and one more where the face is above the cell
    long      which of all these numbers, of every face first what goes up, are of its longest waves
              (see `coarse`); empty if nobody knows
    """

    ends: np.ndarray
    up: np.ndarray
    down: np.ndarray
    starts: np.ndarray
    ports: np.ndarray
    long: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))

    @property
    def faces(self) -> int:
        """How many there are."""
        return len(self.ends)

    @cached_property
    def traces(self) -> int:
        """How many numbers cross them."""
        return int(self.up.sum() + self.down.sum())

    @cached_property
    def digest(self) -> bytes:
        """The same for the same numbers."""
        found = blake2b(digest_size=16)
        for own in (self.ends, self.up, self.down, self.starts, self.ports, self.long):
            found.update(np.int64(own.size).tobytes() + np.ascontiguousarray(own).tobytes())
        return found.digest()

    def longest(self, axis: np.ndarray, axes: int) -> list[np.ndarray]:
        """Which numbers at faces across every axis are of the longest waves, where faces across an
        axis are alike."""
        starts, found = stack_ports(self.up + self.down), []
        for own in (np.flatnonzero(axis == k)[:1] for k in range(axes)):
            at = [slice(starts[i], starts[i + 1]) for i in own.tolist()]
            found.append(np.concatenate([np.zeros(0, dtype=bool), *(self.long[x] for x in at)]))
        return found

    def counts(self, cells: np.ndarray) -> np.ndarray:
        """How many ports some cells have."""
        return np.asarray(self.starts[cells + 1] - self.starts[cells])

    def of_cells(self, cells: np.ndarray) -> np.ndarray:
        """The ports of some cells, one after the other."""
        count = self.counts(cells)
        before = np.cumsum(count) - count
        at = np.repeat(self.starts[cells] - before, count) + np.arange(count.sum())
        return np.asarray(self.ports[at])

    def sizes(self, ports: list[int]) -> Sizes:
        """What is taken and given at some ports."""
        own = np.array(ports, dtype=np.int64)
        up, down, upper = self.up[own >> 1], self.down[own >> 1], (own & 1).astype(bool)
        return Sizes(
            tuple(np.where(upper, down, up).tolist()), tuple(np.where(upper, up, down).tolist())
        )

    def opened(
        self, cells: np.ndarray, side: np.ndarray, taken: np.ndarray
    ) -> tuple[Joints, np.ndarray]:
        """The same with a port more at some cells, below (side 0) or above (1), at which so many
        numbers are taken from nobody; and the order of all ports, the new ones being the last."""
        nobody, upper = np.full(len(cells), -1), side == 1
        ends = np.where(upper[:, None], np.stack([cells, nobody]).T, np.stack([nobody, cells]).T)
        codes = 2 * (self.faces + np.arange(len(cells))) + side
        count = len(self.starts) - 1
        cell = np.append(np.repeat(np.arange(count), np.diff(self.starts)), cells)
        order = np.argsort(cell, kind="stable")
        made = Joints(
            np.concatenate([self.ends, ends]),
            np.append(self.up, np.where(upper, 0, taken)),
            np.append(self.down, np.where(upper, taken, 0)),
            np.searchsorted(cell[order], np.arange(count + 1)),
            np.append(self.ports, codes)[order],
            np.append(self.long, np.zeros(taken.sum() if self.long.size else 0, dtype=bool)),
        )
        return made, order
