"""The coarse level of an exchange between groups: the longest waves alone, merged to the whole.

In one iteration data travel from a group to the next, so that what is as long as the whole domain
takes as many as there are groups. A few functions on every face hold it: with all others left out,
groups have narrow ports and are merged in a fraction of the time. Every iteration then solves for
these numbers as if there were no others,

    x = r + P x_c,    x_c = Pi_c (T_c x_c + c),    c = T_c P^T r,

P putting them in their places, and leaves the others as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tessella.cells.joins.join import Climb
from tessella.cells.joins.merging import Merged, merge
from tessella.cells.joins.passes import Part, Passes, passes
from tessella.cells.joins.routes import Groups
from tessella.cells.maps.maps import Maps, Sharing, distinct_members
from tessella.cells.order.coarse import CoarseOrder
from tessella.cells.order.order import Order
from tessella.machine import processes
from tessella.machine.arrays import Array

NONE = np.zeros(0)


@dataclass(frozen=True, eq=False)
class Coarse:
    """The level merged, and where its numbers are among those that this process iterates for: `at`
    in its vectors, and `here` in what the groups of the level take.

    trusted  whether its joins determine what they close
    """

    order: Order
    passes: Passes
    at: np.ndarray
    here: np.ndarray
    trusted: bool

    def solve(self, x: Array) -> Array:
        """What would be taken if nothing but the longest waves were exchanged."""
        return self._more(x, self.passes.solve)

    def solve_back(self, x: Array) -> Array:
        """The transpose of that."""
        return self._more(x, self.passes.solve_back)

    def _more(self, x: Array, solve: Callable[[Array], Array]) -> Array:
        taken, found = np.zeros(self.passes.taken), x.copy()
        taken[self.here] = x[self.at]
        found[self.at] += solve(taken)[self.here]
        return found

    @property
    def bytes(self) -> int:
        return self.passes.bytes + self.at.nbytes + self.here.nbytes


def coarse(
    level: CoarseOrder,
    maps: Sequence[Maps | None],
    distinct: Sequence[Sharing],
    groups: Sequence[Groups],
) -> Coarse:
    """The level above groups with these maps; vectors of the exchange have what some groups
    take."""
    order = level.order
    which: list[np.ndarray | None] = [None] * len(order.stages)
    leaves: list[Maps | None] = [None] * len(order.stages)
    for k, leaf in enumerate(level.leaves):
        own = maps[leaf.stage]
        if own is not None and order.stages[k].owner == processes.index():
            used, which[k] = np.unique(
                distinct[leaf.stage].which[leaf.members], return_inverse=True
            )
            T = own.T if len(used) == len(own.T) else own.T[used]
            T = T.take(leaf.given, axis=1).take(leaf.taken, axis=2)
            leaves[k] = Maps(T, np.zeros((len(T), 0, len(leaf.taken))), ())
    merged = merge(Climb(order, leaves, distinct_members(order, which), None).below(), NONE)
    made = passes(merged)
    at, here = _placed(level, groups, made.parts)
    return Coarse(order, made, at, here, _trusted(merged))


TOO_MUCH = 1e7
"""The largest number in the inverse of an exchange between groups, and condition of the last one,
that are trusted."""


def _trusted(merged: Merged) -> bool:
    last = 1.0 if merged.whole is None else merged.whole.condition
    growth, condition = processes.largest_each("trust", merged.growth, last)
    return not merged.undetermined and max(growth, condition) < TOO_MUCH


def _placed(
    level: CoarseOrder, groups: Sequence[Groups], parts: Mapping[int, Part]
) -> tuple[np.ndarray, np.ndarray]:
    """Where the numbers of the level are in a vector of the exchange, and in what its groups
    take."""
    at, here, start = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)], 0
    number = {leaf.stage: k for k, leaf in enumerate(level.leaves)}
    for some in groups:
        (count, width), k = some.taken.shape, number[some.stage]
        leaf = level.leaves[k]
        at.append((start + width * np.arange(count)[:, None] + leaf.taken).ravel())
        here.append(parts[k].taken(np.searchsorted(leaf.members, some.members)).ravel())
        start += count * width
    return np.concatenate(at), np.concatenate(here)
