"""Cells joined two and two up to the whole, whose last exchange is solved directly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tessella.cells.joins.join import Climb, Join, largest_inverse
from tessella.cells.joins.joined import (
    EXACT,
    NONE,
    JoinedCells,
    added,
    both,
    gathered,
    sides,
    spread,
    spread_back,
)
from tessella.cells.joins.together import JoinedTogether, Together
from tessella.cells.joins.whole import Halves, Whole, join_last
from tessella.cells.solvers import Merging
from tessella.linalg.iterative.iteration import History, Progress, SolverResult, Stop
from tessella.machine import processes
from tessella.machine.arrays import Array


@dataclass(frozen=True)
class Merged(JoinedCells):
    """All joins of an order.

    whole  the last one, which process 0 has
    """

    whole: Whole | None
    undetermined: bool

    solver: ClassVar[Merging] = Merging()
    enough: ClassVar[float] = EXACT

    @property
    def handed(self) -> Mapping[int, int]:
        return self.order.handed

    @property
    def bytes(self) -> int:
        return super().bytes + (0 if self.whole is None else self.whole.rows.nbytes)

    def _across(
        self,
        outs: list[Array],
        parts: list[Array],
        values: Array,
        taken: list[Array],
        progress: Progress | None,
    ) -> SolverResult:
        """It is over before there is progress to tell of."""
        if self.whole is not None:
            last = self.order.stages[-1]
            given, n = both(outs, last).take(last.given_order, axis=-1)[0], len(last.numbers.b3_in)
            x, outside = self.whole.solve(
                given[..., :n], given[..., n : last.closed_given], values - added(parts, last)[0]
            )
            spread(last, np.concatenate([outside, x], axis=-1)[None], taken)
        return SolverResult(None, 0, Stop.DIRECT, History(), 0.0)

    def _across_back(self, taken: list[Array], given: list[Array], parts: list[Array]) -> Array:
        last, values = self.order.stages[-1], NONE
        if self.whole is not None:
            outside, x = gathered(last, taken)
            *closed, values = self.whole.transposed(x[0], outside[0])
            every = np.zeros((*x.shape[:-1], len(last.given_order)))
            every[..., : last.closed_given] = np.concatenate(closed, axis=-1)
            spread_back(last, every, given)
            for child, members in sides(last):
                parts[child][members] = -values
        return processes.told("values", values)


def merge(climb: Climb, weights: Array) -> Merged:
    """Join what has been joined below up to the whole."""
    order, whole, last = climb.order, None, climb.order.stages[-1]
    joins: list[Join | JoinedTogether | None] = [*climb.joins]
    growth = largest_inverse(climb.joins)
    if order.above:
        together = Together(order, climb.maps, len(weights))
        climb.maps.clear()
        for i in sorted(order.above)[:-1]:
            if together.mine(i):
                joins[i] = together.join(i)
        growth = max(growth, together.growth)
        top = together.last() if together.mine(len(order.stages) - 1) else None
        whole = None if top is None else join_last(*top, weights)
    elif last.owner == processes.index():
        pair = climb.maps[last.left], climb.maps[last.right]
        halves = Halves.of_maps(*pair, climb.distinct[-1].pairs, last)
        whole = join_last(halves, halves.B33 @ halves.A33, weights)
    loose = processes.agreed("whole", float(whole is not None and whole.undetermined))
    return Merged(
        order, tuple(climb.leaves), tuple(climb.distinct), tuple(joins), climb.reused, growth,
        whole, bool(loose),
    )  # fmt: skip
