"""Cells joined by their maps, two and two up to the whole (see `joins`).

T is made on the way up once; every right-hand side goes up as c and comes down as `in`. Of several
processes each goes its own part of the way, and hands over what another one goes on with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tessella.cells.joining import Order
from tessella.cells.joins import Climb, Join
from tessella.cells.maps import Distinct, Maps, gathered_outputs, put, taken_from
from tessella.cells.solvers import Merging
from tessella.cells.stage import Stage
from tessella.cells.together import JoinedTogether, Together
from tessella.cells.whole import Halves, Whole, join_last
from tessella.linalg.iterative.iteration import History, Progress, SolverResult, Stop
from tessella.machine import processes
from tessella.machine.arrays import Array

EXACT = 1e-13
"""Relative residual of the exchange that is left as it is."""


@dataclass(frozen=True)
class Merged:
    """All joins of an order, ready for right-hand sides.

    joins   per stage: what `_up` and `_down` need, None for single cells, for the last one, and for
            those of other processes
    whole   the last one, which process 0 has
    reused  joins that an earlier solve had made
    growth  the largest number in the inverse of an exchange: by so much a group of cells that is
            nearly resonant magnifies rounding errors
    """

    order: Order
    leaves: tuple[Maps | None, ...]
    distinct: tuple[Distinct, ...]
    joins: tuple[Join | JoinedTogether | None, ...]
    whole: Whole | None
    undetermined: bool
    reused: int
    growth: float

    solver: ClassVar[Merging] = Merging()

    @property
    def bytes(self) -> int:
        """Of what right-hand sides need."""
        last = 0 if self.whole is None else self.whole.rows.nbytes
        return last + sum(join.bytes for join in self.joins if join is not None)

    def solve(
        self,
        c: Sequence[Array | None],
        sums: Sequence[Array | None],
        values: Array,
        progress: Progress | None = None,
    ) -> tuple[list[Array], SolverResult]:
        """`in` of all single cells, given their c (members, out), their parts of the sums
        (members, sums) and what these should be; per stage of single cells. For several right-hand
        sides at once these are (members, k, out), (members, k, sums) and (k, sums). It is over
        before there is progress to tell of."""
        taken, several = self._once(c, sums, values), values.shape[:-1]
        size = _norms(taken, several)
        size = np.where(size > 0, size, 1.0)
        missed = self._missed(taken, c, sums, values)
        error, last = float(np.max(_norms(missed[0], several) / size)), np.inf
        while EXACT < error < last / 4:
            more = self._once(*missed)
            taken = [x + y for x, y in zip(taken, more, strict=True)]
            missed = self._missed(taken, c, sums, values)
            error, last = float(np.max(_norms(missed[0], several) / size)), error
        return taken, SolverResult(None, 0, Stop.DIRECT, History(), error)

    def transposed(
        self, taken: Sequence[Array | None], several: tuple[int, ...]
    ) -> tuple[list[Array | None], Array]:
        """The transpose of `solve`: from `in` of all single cells, (members, k, in), to their c and
        to the values of the sums (k, sums); to the cells' parts of these it is the negative.
        `several` is (k,)."""
        size = _norms(taken, several)
        size = np.where(size > 0, size, 1.0)
        c, values = self._back(taken, several)
        missed = self._missed_back(taken, c, values)
        error, last = float(np.max(_norms(missed, several) / size)), np.inf
        while EXACT < error < last / 4:
            more, further = self._back(missed, several)
            c = [None if x is None or y is None else x + y for x, y in zip(c, more, strict=True)]
            values = values + further
            missed = self._missed_back(taken, c, values)
            error, last = float(np.max(_norms(missed, several) / size)), error
        return c, values

    def _once(
        self, c: Sequence[Array | None], sums: Sequence[Array | None], values: Array
    ) -> list[Array]:
        passing, total = self._up(c, sums)
        return self._down(passing, values - total if self.whole is not None else values)

    def _missed(
        self,
        taken: Sequence[Array],
        c: Sequence[Array | None],
        sums: Sequence[Array | None],
        values: Array,
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
        apart = gathered_outputs(order, outs) - x
        apart[..., order.open_places] = 0.0
        self._exchanged(apart)
        again = [
            None if place is None or part is None else taken_from(apart, place)
            for place, part in zip(order.given, sums, strict=True)
        ]
        none = [None if part is None else np.zeros_like(part) for part in sums]
        return again, none, values - (processes.total("sums", found) if values.size else 0.0)

    def _exchanged(self, x: Array) -> None:
        """Add what other processes have where one takes what another gives."""
        at = self.order.crossing
        if len(at):
            x[..., at] = processes.total("faces", np.ascontiguousarray(x[..., at]))

    def _mine(self, i: int) -> bool:
        return self.order.stages[i].owner == processes.index()

    def _up(
        self, c: Sequence[Array | None], sums: Sequence[Array | None]
    ) -> tuple[list[Array], Array]:
        """Of every stage what comes in at its closed ports if nothing came in from outside, of the
        last one what both sides give there; and the sums."""
        stages, total, me = self.order.stages, NONE, processes.index()
        outs = [NONE if own is None else own for own in c]
        parts = [NONE if own is None else own for own in sums]
        passing = [NONE] * len(stages)
        for i, (stage, join) in enumerate(zip(stages, self.joins, strict=True)):
            if stage.cells is None and stage.owner == me:
                a, b = stage.sides
                given = np.concatenate([outs[stage.left][a], outs[stage.right][b]], axis=-1)
                given = given.take(stage.given_order, axis=-1)
                closed = stage.closed_given
                total = parts[stage.left][a] + parts[stage.right][b]
                if join is None:
                    passing[i], total = given[..., :closed], total[0]
                    break
                times, m, o1 = self.distinct[i].times, join.A13.shape[2], join.A13.shape[1]
                x = join.closed(given[..., :closed], times)
                outs[i] = given[..., closed:]
                outs[i][..., :o1] += times(join.A13, x[..., :m])
                outs[i][..., o1:] += times(join.B23, x[..., m:])
                parts[i] = total + times(join.E3, x) if total.size else total
                passing[i] = x
            if i in self.order.handed:
                self._hand_up(i, outs, parts)
        return passing, total

    def _hand_up(self, i: int, *lists: list[Array]) -> None:
        """What a stage has to the process that goes on with it, if that is another one."""
        to = self.order.handed.get(i)
        if to is not None and self._mine(i):
            processes.send(to, "up", *(own[i] for own in lists))
        elif to == processes.index():
            found = processes.receive(self.order.stages[i].owner, "up")
            for own, x in zip(lists, found, strict=True):
                own[i] = x

    def _hand_down(self, i: int, *lists: list[Array]) -> None:
        """The other way."""
        to = self.order.handed.get(i)
        if to is not None and self._mine(i):
            for own, x in zip(lists, processes.receive(to, "down"), strict=True):
                own[i] = x
        elif to == processes.index():
            processes.send(self.order.stages[i].owner, "down", *(own[i] for own in lists))

    def _down(self, passing: list[Array], sums: Array) -> list[Array]:
        stages, me = self.order.stages, processes.index()
        taken = self._rooms(sums.shape[:-1], lambda stage: sum(stage.sizes.taken))
        for i in range(len(stages) - 1, -1, -1):
            if i in self.order.handed:
                self._hand_down(i, taken)
            stage, join = stages[i], self.joins[i]
            if stage.cells is not None or stage.owner != me:
                continue
            if join is None:
                assert self.whole is not None
                given, n = passing[i][0], len(stage.numbers.b3_in)
                x, outside = (
                    own[None] for own in self.whole.solve(given[..., :n], given[..., n:], sums)
                )
            else:
                outside = taken[i]
                x = passing[i] + self.distinct[i].times(join.S, outside)
            every = np.concatenate([outside, x], axis=-1)
            for child, members, own in zip(
                (stage.left, stage.right), stage.sides, stage.taken_orders, strict=True
            ):
                taken[child][members] = every.take(own, axis=-1)
        return taken

    def _rooms(self, several: tuple[int, ...], width: Callable[[Stage], int]) -> list[Array]:
        """Zeros for the members of every stage, and of those that are handed over."""
        handed = self.order.handed
        return [
            np.zeros((s.count, *several, width(s)))
            if self._mine(i) or handed.get(i) == processes.index()
            else NONE
            for i, s in enumerate(self.order.stages)
        ]

    def _back(
        self, taken: Sequence[Array | None], several: tuple[int, ...]
    ) -> tuple[list[Array | None], Array]:
        """`_down` and then `_up`, both transposed."""
        stages, passing, closed, values = self.order.stages, *self._climbed(taken)
        values = processes.told("values", values)
        given = self._rooms(several, lambda stage: sum(stage.sizes.given))
        parts = self._rooms(several, lambda stage: values.shape[-1])
        if self.whole is not None:
            parts[-1] = -values[None]
        for i in range(len(stages) - 1, -1, -1):
            self._hand_down(i, given, parts)
            stage, join = stages[i], self.joins[i]
            if stage.cells is not None or not self._mine(i):
                continue
            if join is not None:
                times, o1, outer = self.distinct[i].times, join.A13.shape[1], given[i]
                a = times(join.A13.transpose(0, 2, 1), outer[..., :o1])
                b = times(join.B23.transpose(0, 2, 1), outer[..., o1:])
                x = passing[i] + np.concatenate([a, b], axis=-1)
                if values.size:
                    x += times(join.E3.transpose(0, 2, 1), parts[i])
                closed = join.closed_back(x, times)
            every = np.zeros((*closed.shape[:-1], len(stage.given_order)))
            rest = every.shape[-1] - closed.shape[-1] if join is None else 0
            outer = np.zeros((*closed.shape[:-1], rest)) if join is None else given[i]
            every[..., stage.given_order] = np.concatenate([closed, outer], axis=-1)
            first = sum(stages[stage.left].sizes.given)
            halves = every[..., :first], every[..., first:]
            for child, members, own in zip(
                (stage.left, stage.right), stage.sides, halves, strict=True
            ):
                given[child][members], parts[child][members] = own, parts[i]
        return [
            c if s.cells is not None and self._mine(i) else None
            for i, (s, c) in enumerate(zip(stages, given, strict=True))
        ], values

    def _climbed(self, taken: Sequence[Array | None]) -> tuple[list[Array], Array, Array]:
        """`_down` transposed: of every join what belongs to its closed ports; of the last one what
        both sides give there and the sums, which process 0 has."""
        stages = self.order.stages
        passing = [NONE] * len(stages)
        own = [NONE if x is None else x for x in taken]
        for i, (stage, join) in enumerate(zip(stages, self.joins, strict=True)):
            if stage.cells is None and self._mine(i):
                at = stage.numbers
                outside, closed = len(at.a1_in) + len(at.b2_in), len(at.a3_in) + len(at.b3_in)
                left, right = stage.sides
                a, b = own[stage.left][left], own[stage.right][right]
                every = np.zeros((*a.shape[:-1], outside + closed))
                every[..., stage.taken_orders[0]] = a
                every[..., stage.taken_orders[1]] = b
                if join is None:
                    assert self.whole is not None
                    last = every[0]
                    c_a, c_b, values = self.whole.transposed(
                        last[..., outside:], last[..., :outside]
                    )
                    return passing, np.concatenate([c_a, c_b], axis=-1)[None], values
                passing[i] = every[..., outside:]
                back = self.distinct[i].times(join.S.transpose(0, 2, 1), passing[i])
                own[i] = every[..., :outside] + back
            self._hand_up(i, own)
        return passing, NONE, NONE

    def _missed_back(
        self, taken: Sequence[Array | None], c: Sequence[Array | None], values: Array
    ) -> list[Array | None]:
        """What this leaves over of the transposed exchange, taken - F^T (c, values)."""
        x = gathered_outputs(self.order, c)
        self._exchanged(x)
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


NONE = np.zeros((0, 0))


def _norms(parts: Sequence[Array | None], several: tuple[int, ...]) -> Array:
    """Of every right-hand side."""
    own = np.zeros(several)
    for x in parts:
        if x is not None and x.size:
            own = own + np.einsum("i...j,i...j->...", x, x)
    return np.sqrt(processes.total("norms", own))


def merge(climb: Climb, weights: Array) -> Merged:
    """Join what has been joined below up to the whole."""
    order, distinct, whole, last = climb.order, climb.distinct, None, climb.order.stages[-1]
    joins: list[Join | JoinedTogether | None] = [*climb.joins]
    growth = max([1.0, *(_largest(join.inverse) for join in climb.joins if join is not None)])
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
        halves = Halves.of_maps(*pair, distinct[-1].pairs, last)
        whole = join_last(halves, halves.B33 @ halves.A33, weights)
    loose = processes.agreed("whole", float(whole is not None and whole.undetermined))
    return Merged(
        order, tuple(climb.leaves), tuple(distinct), tuple(joins), whole, bool(loose),
        climb.reused, growth,
    )  # fmt: skip


def _largest(x: Array) -> float:
    return float(np.abs(x).max(initial=0.0))
