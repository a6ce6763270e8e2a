"""Cells joined by their maps (see `join`), as far as a front; what is left there is solved by
whoever goes on (see `merging` and `exchanged`).

T is made on the way up once; every right-hand side goes up as c and comes down as `in`. Of several
processes each goes its own part of the way, and hands over what another one goes on with.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tessella.cells.joins.join import Join
from tessella.cells.joins.together import JoinedTogether
from tessella.cells.maps.maps import Distinct, Maps, gathered_outputs, put, taken_from
from tessella.cells.order.order import Order
from tessella.cells.order.stage import Some, Stage
from tessella.linalg.iterative.iteration import Progress, SolverResult, Stop
from tessella.machine import processes
from tessella.machine.arrays import Array

EXACT = 1e-13
"""Relative residual of the exchange that is left as it is."""

NONE, NOWHERE = np.zeros((0, 0)), np.zeros(0, dtype=np.int64)

Parts = Sequence[Array | None]
"""Numbers of the members of every stage, (members, n), or (members, k, n) for several right-hand
sides at once; None where this process has none."""


@dataclass(frozen=True)
class JoinedCells(ABC):
    """Joins of an order, ready for right-hand sides.

    joins   per stage: what `_up` and `_down` need, None for single cells, beyond the front, and for
            those of other processes
    reused  joins that an earlier solve had made
    growth  the largest number in the inverse of an exchange: by so much a group of cells that is
            nearly resonant magnifies rounding errors
    """

    order: Order
    leaves: tuple[Maps | None, ...]
    distinct: tuple[Distinct, ...]
    joins: tuple[Join | JoinedTogether | None, ...]
    reused: int
    growth: float

    @property
    @abstractmethod
    def handed(self) -> Mapping[int, int]:
        """Stages that another process goes on with, and which."""

    @property
    @abstractmethod
    def enough(self) -> float:
        """Relative residual of the exchange of all cells that is not corrected."""

    @abstractmethod
    def _across(
        self,
        outs: list[Array],
        parts: list[Array],
        values: Array,
        taken: list[Array],
        progress: Progress | None,
    ) -> SolverResult:
        """Fill in what is taken at the front, by what is given there and its parts of the sums."""

    @abstractmethod
    def _across_back(self, taken: list[Array], given: list[Array], parts: list[Array]) -> Array:
        """Fill in what is given there, and the parts of the sums, by what is taken; the transpose.
        And the values of the sums."""

    @property
    def bytes(self) -> int:
        """Of what right-hand sides need beside the maps of the cells."""
        return sum(join.bytes for join in self.joins if join is not None)

    def solve(
        self, c: Parts, sums: Parts, values: Array, progress: Progress | None = None
    ) -> tuple[list[Array], SolverResult]:
        """`in` of all single cells, given their c (members, out), their parts of the sums
        (members, sums) and what these should be; per stage of single cells. For several right-hand
        sides at once these are (members, k, out), (members, k, sums) and (k, sums)."""
        taken, result = self._once(c, sums, values, progress)
        several = values.shape[:-1]
        size = _norms(taken, several)
        size = np.where(size > 0, size, 1.0)
        missed = self._missed(taken, c, sums, values)
        error, last = float(np.max(_norms(missed[0], several) / size)), np.inf
        while self.enough < error < last / 4 and result.stop not in CUT_OFF:
            more, _ = self._once(*missed)
            taken = [x + y for x, y in zip(taken, more, strict=True)]
            missed = self._missed(taken, c, sums, values)
            error, last = float(np.max(_norms(missed[0], several) / size)), error
        return taken, replace(result, residual_norm=error)

    def transposed(
        self, taken: Parts, several: tuple[int, ...]
    ) -> tuple[list[Array | None], Array]:
        """The transpose of `solve`: from `in` of all single cells, (members, k, in), to their c and
        to the values of the sums (k, sums); to the cells' parts of these it is the negative.
        `several` is (k,)."""
        size = _norms(taken, several)
        size = np.where(size > 0, size, 1.0)
        c, values = self._back(taken, several)
        missed = self._missed_back(taken, c, values)
        error, last = float(np.max(_norms(missed, several) / size)), np.inf
        while self.enough < error < last / 4:
            more, further = self._back(missed, several)
            c = [None if x is None or y is None else x + y for x, y in zip(c, more, strict=True)]
            values = values + further
            missed = self._missed_back(taken, c, values)
            error, last = float(np.max(_norms(missed, several) / size)), error
        return c, values

    # --- up to the front and down again

    def _once(
        self, c: Parts, sums: Parts, values: Array, progress: Progress | None = None
    ) -> tuple[list[Array], SolverResult]:
        passing, outs, parts = self._up(c, sums)
        taken = self._rooms(values.shape[:-1], lambda stage: sum(stage.sizes.taken))
        result = self._across(outs, parts, values, taken, progress)
        self._down(passing, taken)
        return taken, result

    def _up(self, c: Parts, sums: Parts) -> tuple[list[Array], list[Array], list[Array]]:
        """Of every join what comes in at its closed ports if nothing came in from outside; and what
        every stage gives then, and its parts of the sums."""
        stages = self.order.stages
        outs = [NONE if own is None else own for own in c]
        parts = [NONE if own is None else own for own in sums]
        passing = [NONE] * len(stages)
        for i in self._passed:
            stage, join = stages[i], self.joins[i]
            if join is not None:
                given, total = (
                    both(outs, stage).take(stage.given_order, axis=-1),
                    added(parts, stage),
                )
                closed = stage.closed_given
                times, m, o1 = self.distinct[i].times, join.A13.shape[2], join.A13.shape[1]
                x = join.closed(given[..., :closed], times)
                outs[i] = given[..., closed:]
                outs[i][..., :o1] += times(join.A13, x[..., :m])
                outs[i][..., o1:] += times(join.B23, x[..., m:])
                parts[i] = total + times(join.E3, x) if total.size else total
                passing[i] = x
            self._hand_up(i, outs, parts)
        return passing, outs, parts

    def _down(self, passing: list[Array], taken: list[Array]) -> None:
        """From what is taken at the front to what all below take."""
        for i in reversed(self._passed):
            self._hand_down(i, taken)
            join = self.joins[i]
            if join is not None:
                x = passing[i] + self.distinct[i].times(join.S, taken[i])
                spread(self.order.stages[i], np.concatenate([taken[i], x], axis=-1), taken)

    def _mine(self, i: int) -> bool:
        return self.order.stages[i].owner == processes.index()

    @cached_property
    def _rooms_of(self) -> list[int]:
        """Stages of which this process has something: its own, and those it goes on with."""
        me, every = processes.index(), range(len(self.order.stages))
        return [i for i in every if self._mine(i) or self.handed.get(i) == me]

    @cached_property
    def _passed(self) -> list[int]:
        """Those of them that are joined, handed over or gone on with, children first."""
        return [i for i in self._rooms_of if self.joins[i] is not None or i in self.handed]

    def _hand_up(self, i: int, *lists: list[Array]) -> None:
        """What a stage has to the process that goes on with it, if that is another one."""
        to = self.handed.get(i)
        if to is not None and self._mine(i):
            processes.send(to, "up", *(own[i] for own in lists))
        elif to == processes.index():
            found = processes.receive(self.order.stages[i].owner, "up")
            for own, x in zip(lists, found, strict=True):
                own[i] = x

    def _hand_down(self, i: int, *lists: list[Array]) -> None:
        """The other way."""
        to = self.handed.get(i)
        if to is not None and self._mine(i):
            for own, x in zip(lists, processes.receive(to, "down"), strict=True):
                own[i] = x
        elif to == processes.index():
            processes.send(self.order.stages[i].owner, "down", *(own[i] for own in lists))

    def _rooms(self, several: tuple[int, ...], width: Callable[[Stage], int]) -> list[Array]:
        """Zeros for the members of every stage, and of those that are handed over."""
        found = [NONE] * len(self.order.stages)
        for i in self._rooms_of:
            stage = self.order.stages[i]
            found[i] = np.zeros((stage.count, *several, width(stage)))
        return found

    # --- the same transposed

    def _back(self, taken: Parts, several: tuple[int, ...]) -> tuple[list[Array | None], Array]:
        passing, own = self._down_back(taken)
        sums = next((maps.E.shape[1] for maps in self.leaves if maps is not None), 0)
        given = self._rooms(several, lambda stage: sum(stage.sizes.given))
        parts = self._rooms(several, lambda stage: sums)
        values = self._across_back(own, given, parts)
        self._up_back(passing, given, parts)
        return [
            c if s.cells is not None and self._mine(i) else None
            for i, (s, c) in enumerate(zip(self.order.stages, given, strict=True))
        ], values

    def _down_back(self, taken: Parts) -> tuple[list[Array], list[Array]]:
        """Of every join what belongs to its closed ports, and of every stage to what it takes."""
        stages = self.order.stages
        passing = [NONE] * len(stages)
        own = [NONE if x is None else x for x in taken]
        for i in self._passed:
            stage, join = stages[i], self.joins[i]
            if join is not None:
                outside, passing[i] = gathered(stage, own)
                own[i] = outside + self.distinct[i].times(join.S.transpose(0, 2, 1), passing[i])
            self._hand_up(i, own)
        return passing, own

    def _up_back(self, passing: list[Array], given: list[Array], parts: list[Array]) -> None:
        for i in reversed(self._passed):
            self._hand_down(i, given, parts)
            join = self.joins[i]
            if join is not None:
                times, o1, outer = self.distinct[i].times, join.A13.shape[1], given[i]
                a = times(join.A13.transpose(0, 2, 1), outer[..., :o1])
                b = times(join.B23.transpose(0, 2, 1), outer[..., o1:])
                x = passing[i] + np.concatenate([a, b], axis=-1)
                if parts[i].size:
                    x += times(join.E3.transpose(0, 2, 1), parts[i])
                closed = join.closed_back(x, times)
                spread_back(self.order.stages[i], np.concatenate([closed, outer], axis=-1), given)
                for child, members in sides(self.order.stages[i]):
                    parts[child][members] = parts[i]

    # --- what is left over

    def _missed(
        self, taken: Sequence[Array], c: Parts, sums: Parts, values: Array
    ) -> tuple[list[Array | None], list[Array | None], Array]:
        """What exchange and sums of this `in` leave over, as right-hand sides for a correction.

        A group of cells may be nearly resonant where the whole is not, and magnify rounding errors
        on the way; a correction or two take them out again.
        """
        order, found = self.order, np.zeros(values.shape)
        outs: list[Array | None] = []
        x = np.zeros((*values.shape[:-1], order.size))
        for place, own, one, mine, given, part in zip(
            order.taken, self.leaves, self.distinct, taken, c, sums, strict=True
        ):
            if place is None or own is None or given is None or part is None:
                outs.append(None)
                continue
            outs.append(one.times(own.T, mine) + given)
            if values.size:
                found += np.sum(one.times(own.E, mine) + part, axis=0)
            put(x, place, mine)
        self.crossed(x, back=True)
        apart = gathered_outputs(order, outs) - x
        again = [
            None if place is None or part is None else taken_from(apart, place)
            for place, part in zip(order.given, sums, strict=True)
        ]
        none = [None if part is None else np.zeros_like(part) for part in sums]
        return again, none, values - (processes.total("sums", found) if values.size else 0.0)

    def crossed(self, x: Array, back: bool = False) -> None:
        """Of what crosses between processes, tell those who take it what is given; or `back`, those
        who give it what is taken."""
        if processes.alone():
            return
        me, crossing = processes.index(), self.order.crossing
        leaving = {p if q == me else q: NOWHERE for p, q in crossing if me in (p, q)}
        coming = dict(leaving)
        for (taker, giver), at in crossing.items():
            if me in (taker, giver):
                here = leaving if back == (me == taker) else coming
                here[giver if me == taker else taker] = at
        heard = processes.swapped("faces", {q: x[..., at] for q, at in leaving.items()})
        for q, at in coming.items():
            x[..., at] = heard[q]

    def _missed_back(self, taken: Parts, c: Parts, values: Array) -> list[Array | None]:
        """What this leaves over of the transposed exchange, taken - F^T (c, values)."""
        x = gathered_outputs(self.order, c)
        self.crossed(x)
        found: list[Array | None] = []
        for place, own, one, mine, given in zip(
            self.order.taken, self.leaves, self.distinct, taken, c, strict=True
        ):
            if place is None or own is None or mine is None or given is None:
                found.append(None)
                continue
            left = mine - taken_from(x, place) + one.times(own.T.transpose(0, 2, 1), given)
            if values.size:
                each = np.broadcast_to(values, (len(mine), *values.shape))
                left -= one.times(own.E.transpose(0, 2, 1), np.ascontiguousarray(each))
            found.append(left)
        return found


CUT_OFF = (Stop.LIMIT, Stop.INTERRUPTED, Stop.NOT_FINITE)
"""Ends of an iteration after which nothing is corrected."""


def sides(stage: Stage) -> list[tuple[int, Some]]:
    """Both children of a stage, and which of their members are joined."""
    return list(zip((stage.left, stage.right), stage.sides, strict=True))


def both(outs: Sequence[Array], stage: Stage) -> Array:
    """What both sides give, one after the other."""
    return np.concatenate([outs[child][members] for child, members in sides(stage)], axis=-1)


def added(parts: Sequence[Array], stage: Stage) -> Array:
    """What both sides add to the sums."""
    (left, a), (right, b) = sides(stage)
    return np.asarray(parts[left][a] + parts[right][b])


def spread(stage: Stage, every: Array, taken: list[Array]) -> None:
    """What is taken outside and at closed ports to both sides."""
    for (child, members), own in zip(sides(stage), stage.taken_orders, strict=True):
        taken[child][members] = every.take(own, axis=-1)


def gathered(stage: Stage, taken: Sequence[Array]) -> tuple[Array, Array]:
    """The other way: what both sides take, outside and at closed ports."""
    at = stage.numbers
    outside, closed = len(at.a1_in) + len(at.b2_in), len(at.a3_in) + len(at.b3_in)
    parts = [taken[child][members] for child, members in sides(stage)]
    every = np.zeros((*parts[0].shape[:-1], outside + closed))
    for own, x in zip(stage.taken_orders, parts, strict=True):
        every[..., own] = x
    return every[..., :outside], every[..., outside:]


def spread_back(stage: Stage, every: Array, given: list[Array]) -> None:
    """What is given at closed ports and outside (see `both` and `given_order`) to both sides."""
    x = np.zeros_like(every)
    x[..., stage.given_order] = every
    start = 0
    for child, members in sides(stage):
        width = given[child].shape[-1]
        given[child][members] = x[..., start : start + width]
        start += width


def _norms(parts: Parts, several: tuple[int, ...]) -> Array:
    """Of every right-hand side."""
    own = np.zeros(several)
    for x in parts:
        if x is not None and x.size:
            own = own + np.einsum("i...j,i...j->...", x, x)
    return np.sqrt(processes.total("norms", own))
