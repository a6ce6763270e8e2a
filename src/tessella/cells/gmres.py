"""The exchange between cells solved by GMRES: in = Pi (T in + c), with Pi from out to in.

Every iteration is one product with the maps of all cells. Nothing is merged, so that memory grows
with the cells alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse

from tessella.cells.joining import Order
from tessella.cells.maps import Distinct, Maps, gathered_outputs, put, taken_from
from tessella.cells.solvers import Exchange, Merging
from tessella.cells.together import Teams
from tessella.linalg.iterative.iteration import History, SolverResult, Stop
from tessella.machine import processes
from tessella.machine.arrays import Array
from tessella.machine.memory import available_bytes, gib

RATE = 1.5e10
"""Flops per second that joins are counted on."""

PATIENCE = 120.0
"""Seconds up to which merging is preferred."""

RESTART = 200
"""Iterations after which GMRES begins anew."""


def chosen(
    order: Order, distinct: Sequence[Distinct], bound: bool
) -> tuple[Merging | Exchange, str]:
    """Merging if its predicted memory and time fit, else an iteration; and the prediction in words.
    Sums and open ports (`bound`) can only be merged."""
    me, teams = processes.index(), Teams(order).members
    flops = [
        len(distinct[i].pairs) * stage.flops / len(teams[i])
        for i, stage in enumerate(order.stages)
        if stage.cells is None and me in teams[i]
    ]
    seconds = sum(flops) / RATE
    size = joining_bytes(order, distinct, Merging())
    filled = size / (0.6 * available_bytes())
    seconds, size, filled = processes.largest_each("plan", seconds, size, filled)
    plan = f"about {gib(int(size))} and {seconds:.1g} s"
    if bound or (filled < 1 and seconds < PATIENCE):
        return Merging(), f"direct: {plan}"
    return Exchange(), f"iterative, because merging would need {plan}"


def joining_bytes(order: Order, distinct: Sequence[Distinct], solver: Merging | Exchange) -> float:
    """What joining takes beside the maps of the cells: the maps of all groups, or the vectors that
    GMRES keeps."""
    if isinstance(solver, Exchange):
        return 8.0 * order.size * (min(RESTART, solver.max_iterations, order.size) + VECTORS)
    counts = [len(own.pairs) for own in distinct]
    return 8.0 * _numbers(order, counts, processes.index()) + _above(order)


def _numbers(order: Order, counts: Sequence[float], owner: int) -> float:
    """Numbers that one process has while it makes so many joins of every stage: what they leave for
    right-hand sides, and the most in maps of groups that are there at once, a level's and those of
    lower ones that are still to be joined."""
    stages, left, most = order.stages, 0.0, 0.0
    there: dict[int, float] = {}
    for k, level in enumerate(order.levels):
        for i in level:
            if stages[i].owner == owner:
                there[i], kept = (counts[i] * n for n in stages[i].numbers_left)
                left += kept
        most = max(most, sum(there.values()))
        there = {i: size for i, size in there.items() if order.joined_by.get(i, k) > k}
    return left + most


def enough(order: Order, distinct: Sequence[Distinct], others: Iterable[Order], free: int) -> str:
    """How many processes would have enough memory for merging, in words; `others` are the orders of
    joins of ever more of them."""
    me, joins = processes.index(), [i for i, s in enumerate(order.stages) if s.cells is None]
    own = [(order.stages[i], len(distinct[i].pairs)) for i in joins if order.stages[i].owner == me]
    every = sum(s.count * s.bytes for s, _ in own)
    share = sum(n * s.bytes for s, n in own) / every if every else 1.0
    for one in others:
        counts = [share * stage.count for stage in one.stages]
        owners = {stage.owner for stage in one.stages if stage.cells is None}
        if len(owners) < processes.number() or len(owners) == len(order.places):
            continue
        if 8.0 * max(_numbers(one, counts, owner) for owner in owners) + _above(one) < free:
            return f"or take {len(owners)} processes with as much memory each"
    return "or use solver='exchange'"


def _above(order: Order) -> float:
    """Bytes that a process works with at most while several make a join together."""
    return max((_at_work(order, i) for i in order.above), default=0.0)


def _at_work(order: Order, i: int) -> float:
    """Bytes of the columns that a process works with while several make a join together."""
    stage, at = order.stages[i], order.stages[i].numbers
    m, n = len(at.a3_in), len(at.b3_in)
    return 8.0 * (sum(stage.sizes.given) + 2 * (m + n)) * (m + n)


VECTORS = 8
"""Beside those it keeps: of the right-hand side, of the solution and of one exchange."""


@dataclass(frozen=True)
class Exchanged:
    """The maps of all cells, ready to be exchanged."""

    order: Order
    solver: Exchange
    maps: tuple[Maps | None, ...]
    distinct: tuple[Distinct, ...]

    @property
    def bytes(self) -> int:
        """Nothing but the maps of the cells is needed."""
        return 0

    @property
    def growth(self) -> float:
        """Nothing is inverted."""
        return 1.0

    def solve(
        self, c: Sequence[Array | None], sums: Sequence[Array | None], values: Array
    ) -> tuple[list[Array], SolverResult]:
        """`in` of all single cells, per stage, and how it was found; several right-hand sides are
        taken one after the other."""
        if values.ndim > 1:
            return self._each(c, sums, values)
        x, result = self._iterated(
            self._exchange, processes.total("right", gathered_outputs(self.order, c))
        )
        taken = [np.zeros((0, 0)) if place is None else x[place] for place in self.order.taken]
        return taken, result

    def transposed(
        self, taken: Sequence[Array | None], several: tuple[int, ...]
    ) -> tuple[list[Array | None], Array]:
        """The transpose of `solve`, one after the other: from `in` (members, k, in) to c."""
        order = self.order
        right = np.zeros((*several, order.size))
        for place, own in zip(order.taken, taken, strict=True):
            if place is not None and own is not None:
                put(right, place, own)
        right = processes.total("right", right)
        x = np.stack([self._iterated(self._exchange_back, own)[0] for own in right])
        given = [
            None if place is None or own is None else taken_from(x, place)
            for place, own in zip(order.given, taken, strict=True)
        ]
        return given, np.zeros((len(x), 0))

    def _iterated(
        self, product: Callable[[Array], Array], right: Array
    ) -> tuple[Array, SolverResult]:
        order, most = self.order, self.solver.max_iterations
        history: list[float] = []
        operator = scipy.sparse.linalg.LinearOperator(
            (order.size, order.size), matvec=product, dtype=np.float64
        )
        x, info, before = np.zeros(order.size), 1, -1
        while info and before < len(history) < most:
            before = len(history)
            x, info = scipy.sparse.linalg.gmres(
                operator,
                right,
                x,
                rtol=self.solver.tolerance,
                atol=0.0,
                restart=min(most - before, RESTART),
                maxiter=1,
                callback=lambda r: history.append(float(r)),
                callback_type="pr_norm",
            )
        stop = Stop.RESIDUAL if info == 0 else Stop.LIMIT
        residual = float(history[-1]) if history else 0.0
        curve = History(residual=np.array(history))
        return x, SolverResult(None, len(history), stop, curve, residual)

    def _each(
        self, c: Sequence[Array | None], sums: Sequence[Array | None], values: Array
    ) -> tuple[list[Array], SolverResult]:
        every = [
            self.solve([None if own is None else own[:, i] for own in c], sums, one)
            for i, one in enumerate(values)
        ]
        taken = [np.stack(own, axis=1) for own in zip(*(one for one, _ in every), strict=True)]
        return taken, max((result for _, result in every), key=lambda own: own.iterations)

    def _exchange(self, x: Array) -> Array:
        """in - Pi T in."""
        order = self.order
        taken = [None if place is None else x.ravel()[place] for place in order.taken]
        outs = [
            None if own is None or mine is None else one.times(own.T, mine)
            for own, one, mine in zip(self.maps, self.distinct, taken, strict=True)
        ]
        return np.asarray(x.ravel() - processes.total("exchange", gathered_outputs(order, outs)))

    def _exchange_back(self, x: Array) -> Array:
        """The transpose of that."""
        order, found = self.order, np.zeros(x.size)
        for into, place, own, one in zip(
            order.taken, order.given, self.maps, self.distinct, strict=True
        ):
            if into is not None and place is not None and own is not None:
                found[into] = one.times(own.T.transpose(0, 2, 1), x.ravel()[place])
        return np.asarray(x.ravel() - processes.total("exchange", found))
