"""The coarse level of an exchange between groups: the longest waves alone, merged to the whole.

In one iteration data travel from a group to the next, so that what is as long as the whole domain
takes as many as there are groups. A few functions on every face hold it: with all others left out,
groups have narrow ports and are merged in a fraction of the time. Every iteration then solves for
these numbers as if there were no others,

    x = r + P x_c,    x_c = Pi_c (T_c x_c + c),    c = T_c P^T r,

P putting them in their places, and leaves the others as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tessella.cells.joins.join import Climb
from tessella.cells.joins.merging import Merged, merge
from tessella.cells.joins.routes import Groups
from tessella.cells.maps.maps import Distinct, Maps, distinct_members
from tessella.cells.order.coarse import CoarseOrder, Leaf
from tessella.machine import processes
from tessella.machine.arrays import Array

NOUGHT = np.zeros(0)


class Placed(NamedTuple):
    """Of a stage of the coarse level: some of its members, and where their numbers are in a vector
    of the exchange, (members, in)."""

    stage: int
    members: np.ndarray
    at: np.ndarray


@dataclass(frozen=True, eq=False)
class Coarse:
    """The level merged, and where its numbers are among those that this process iterates for."""

    merged: Merged
    placed: tuple[Placed, ...]

    def solve(self, x: Array) -> Array:
        """What would be taken if nothing but the longest waves were exchanged."""
        taken = self._rooms()
        for own in self.placed:
            taken[own.stage][own.members] = x[own.at]
        c = [
            None if maps is None else one.times(maps.T, r)
            for maps, one, r in zip(self.merged.leaves, self.merged.distinct, taken, strict=True)
        ]
        return self._added(x, self.merged.once(c))

    def solve_back(self, x: Array) -> Array:
        """The transpose of that."""
        taken = self._rooms()
        for own in self.placed:
            taken[own.stage][own.members] = x[own.at]
        more = [
            None if maps is None or c is None else one.times(maps.T.transpose(0, 2, 1), c)
            for maps, one, c in zip(
                self.merged.leaves, self.merged.distinct, self.merged.once_back(taken), strict=True
            )
        ]
        return self._added(x, more)

    def _rooms(self) -> list[Array]:
        """Zeros for what the cells of this process take, of every stage."""
        stages, me = self.merged.order.stages, processes.index()
        own = [s.cells is not None and s.owner == me for s in stages]
        return [
            np.zeros((s.count if mine else 0, sum(s.sizes.taken)))
            for s, mine in zip(stages, own, strict=True)
        ]

    def _added(self, x: Array, more: Sequence[Array | None]) -> Array:
        found = x.copy()
        for own in self.placed:
            part = more[own.stage]
            assert part is not None
            found[own.at] += part[own.members]
        return found


def coarse(
    level: CoarseOrder,
    maps: Sequence[Maps | None],
    distinct: Sequence[Distinct],
    groups: Sequence[Groups],
) -> Coarse:
    """The level below which groups have these maps; vectors of the exchange have what some groups
    take."""
    which: list[np.ndarray | None] = [None] * len(level.order.stages)
    leaves: list[Maps | None] = [None] * len(level.order.stages)
    for k, leaf in enumerate(level.leaves):
        own = maps[leaf.stage]
        if own is not None and level.order.stages[k].owner == processes.index():
            used, which[k] = np.unique(
                distinct[leaf.stage].which[leaf.members], return_inverse=True
            )
            T = own.T if len(used) == len(own.T) else own.T[used]
            T = T.take(leaf.given, axis=1).take(leaf.taken, axis=2)
            leaves[k] = Maps(T, np.zeros((len(T), 0, len(leaf.taken))), ())
    climb = Climb(level.order, leaves, distinct_members(level.order, which), None)
    merged = merge(climb.below(), NOUGHT)
    return Coarse(merged, tuple(_placed(level.leaves, groups)))


def _placed(leaves: Sequence[Leaf], groups: Sequence[Groups]) -> list[Placed]:
    found, start = [], 0
    number = {leaf.stage: k for k, leaf in enumerate(leaves)}
    for some in groups:
        count, width = some.taken.shape
        k = number[some.stage]
        at = start + width * np.arange(count)[:, None] + leaves[k].taken
        found.append(Placed(k, np.searchsorted(leaves[k].members, some.members), at))
        start += count * width
    return found
