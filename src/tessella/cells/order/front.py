"""Groups of cells that are joined no further, and what crosses between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tessella.cells.order.colours import coloured
from tessella.cells.order.order import Order
from tessella.cells.order.stage import Stage
from tessella.machine import processes


class Ends(NamedTuple):
    """Where what some groups take (members, in) and give (members, out) is in the vector of all
    that is exchanged."""

    taken: np.ndarray
    given: np.ndarray


def joined_ends(stage: Stage, left: Ends, right: Ends) -> Ends:
    """Those of the pairs that a stage joins, by those of both sides."""
    (a, b), at = stage.pairs.T, stage.numbers
    return Ends(
        np.hstack([left.taken[a][:, at.a1_in], right.taken[b][:, at.b2_in]]),
        np.hstack([left.given[a][:, at.a1_out], right.given[b][:, at.b2_out]]),
    )


@dataclass(frozen=True, eq=False)
class Front:
    """The largest groups of an order that have at most so many cells; what several processes have
    is never one of them, and neither is the whole."""

    order: Order
    group: int

    @cached_property
    def joined(self) -> frozenset[int]:
        """Stages that are joined on the way there."""
        order = self.order
        return frozenset(
            i
            for i, stage in enumerate(order.stages[:-1])
            if stage.cells is None and order.cells[i] <= self.group and i not in order.above
        )

    @cached_property
    def counts(self) -> list[int]:
        """How many groups every stage has."""
        found = [stage.count for stage in self.order.stages]
        for i, stage in enumerate(self.order.stages):
            if i in self.joined:
                found[stage.left] -= stage.count
                found[stage.right] -= stage.count
            elif stage.cells is None:
                found[i] = 0
        return found

    @cached_property
    def members(self) -> dict[int, np.ndarray]:
        """Which members of a stage they are, of those that have any."""
        left = {
            i: np.ones(self.order.stages[i].count, dtype=bool)
            for i, count in enumerate(self.counts)
            if count
        }
        for i in self.joined:
            stage = self.order.stages[i]
            for child, pair in zip((stage.left, stage.right), stage.pairs.T, strict=True):
                if child in left:
                    left[child][pair] = False
        return {i: np.flatnonzero(own) for i, own in sorted(left.items())}

    @cached_property
    def ends(self) -> dict[int, Ends]:
        """Of the groups of every stage that has any."""
        order, every = self.order, {}
        for i, (stage, taken, given) in enumerate(
            zip(order.stages, order.taken, order.given, strict=True)
        ):
            if taken is not None and given is not None:
                every[i] = Ends(taken, given)
            elif i in self.joined:
                every[i] = joined_ends(stage, every[stage.left], every[stage.right])
        return {i: Ends(*(x[own] for x in every[i])) for i, own in self.members.items()}

    @cached_property
    def owners(self) -> np.ndarray:
        """The process of every group."""
        stages = self.order.stages
        return np.repeat([stages[i].owner for i in self.members], self._lengths)

    @property
    def _lengths(self) -> list[int]:
        return [len(own) for own in self.members.values()]

    @cached_property
    def taker(self) -> np.ndarray:
        """The group that takes each number of that vector, or -1."""
        return self._whose([own.taken for own in self.ends.values()])

    @cached_property
    def giver(self) -> np.ndarray:
        """The group that gives it, or -1."""
        return self._whose([own.given for own in self.ends.values()])

    def _whose(self, places: Sequence[np.ndarray]) -> np.ndarray:
        found, start = np.full(self.order.size, -1), 0
        for place in places:
            found[place] = start + np.arange(len(place))[:, None]
            start += len(place)
        return found

    @cached_property
    def colours(self) -> np.ndarray:
        """Of every group, so that neighbours differ; the same for all if that cannot be."""
        both = (self.taker >= 0) & (self.giver >= 0)
        pairs = np.unique(np.stack([self.taker[both], self.giver[both]]), axis=1)
        return coloured(pairs, len(self.owners))

    @cached_property
    def colours_of(self) -> dict[int, np.ndarray]:
        """The same by stages."""
        parts = np.split(self.colours, np.cumsum(self._lengths)[:-1])
        return dict(zip(self.members, parts, strict=True))

    @property
    def numbers(self) -> int:
        """How many of them a vector of the exchange has in this process: what its groups of one
        colour take."""
        takers = self.taker[self.taker >= 0]
        mine = self.colours[takers[self.owners[takers] == processes.index()]]
        return int(np.bincount(mine, minlength=1).max())


def front_of(order: Order, group: int) -> Front:
    """The same one as last time."""
    found: Front = order.fronts.setdefault(group, Front(order, group))
    return found
