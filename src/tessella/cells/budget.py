"""What it takes to map and join cells, foretold, and the way that fits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tessella.cells.joining import Order
from tessella.cells.maps import Distinct
from tessella.cells.solvers import Exchange, Merging
from tessella.cells.together import Teams
from tessella.machine import processes
from tessella.machine.memory import available_bytes, gib

RATE = 1.5e10
"""Flops per second that joins are counted on."""

PATIENCE = 120.0
"""Seconds up to which merging is preferred."""

RESTART = 200
"""Iterations after which GMRES begins anew."""

SAFE = 0.9
"""Part of what is free that what is advised may take: it is foretold from this process's share."""

VECTORS = 16
"""Beside those it keeps: of the right-hand side, of the solution and of one exchange, which is of
cells of all colours."""

EXPECTED = 60
"""Iterations that an exchange is likely to take where it is worth while."""

TRIED = 0.5
"""Part of merging's time for which it is tried."""

FROM_MEMORY = 4.0
"""Of how many flops in a core's reach one takes the time whose numbers come from memory."""

WORTH = 0.2
"""Seconds of merging below which nothing else is tried."""

SETTLED = 1e-13
"""Relative residual that an exchange in place of merging must have."""


class Choice(NamedTuple):
    """How cells are joined, what merging is foretold to take, and an iteration that is tried before
    it, since that is likely to be done sooner."""

    solver: Merging | Exchange
    plan: str = ""
    sooner: Exchange | None = None

    @property
    def first(self) -> Merging | Exchange:
        """What is done first."""
        return self.sooner or self.solver

    def note(self, solver: Merging | Exchange) -> str:
        """A remark on one of them."""
        if not self.plan:
            return ""
        if isinstance(solver, Merging):
            return f"direct: {self.plan}"
        return f"iterative, because merging would need {self.plan}"


def chosen(
    order: Order, distinct: Sequence[Distinct], maps: int, bound: bool, once: bool = False
) -> Choice:
    """Merging if its predicted memory and time fit, beside so many bytes of the cells' own maps,
    else an iteration. Sums and open ports (`bound`) can only be merged. With a single right-hand
    side (`once`) an iteration is tried where merging is foretold to take several times as long."""
    me, teams = processes.index(), Teams(order).members
    flops = [
        len(distinct[i].pairs) * stage.flops / len(teams[i])
        for i, stage in enumerate(order.stages)
        if stage.cells is None and me in teams[i]
    ]
    seconds, turn = sum(flops) / RATE, _iteration(order) / RATE
    size = joining_bytes(order, distinct, Merging())
    others, more = processes.beside("needs", maps, int(size))
    left, room = (available_bytes(n) - maps for n in (others + more, others))
    filled = size / (0.6 * left) if left > 0 else math.inf
    if room <= 0:
        filled = 0.0  # maps alone do not fit: refused later
    seconds, turn, size, filled = processes.largest_each("plan", seconds, turn, size, filled)
    plan = f"about {gib(int(size))} and {seconds:.1g} s"
    if bound or (filled < 1 and seconds < PATIENCE):
        worth = once and not bound and seconds > max(WORTH, EXPECTED * turn)
        most = min(5 * EXPECTED, int(TRIED * seconds / max(turn, 1e-9)))
        return Choice(Merging(), plan, Exchange(most, SETTLED) if worth else None)
    return Choice(Exchange(), plan)


def _iteration(order: Order) -> float:
    """Flops of an iteration of the exchange by this process, of the maps and of the vectors that
    are there half-way; in those of joins, which need not be read from memory."""
    own = [s for s in order.stages if s.cells is not None and s.owner == processes.index()]
    maps = sum(2.0 * s.count * sum(s.sizes.taken) * sum(s.sizes.given) for s in own)
    return FROM_MEMORY * (maps + 8.0 * EXPECTED / 2 * exchanged_numbers(order))


def exchanged_numbers(order: Order) -> int:
    """Numbers of a vector of the exchange that this process has: what its cells of one colour
    take."""
    takers = order.taker[order.taker >= 0]
    mine = order.colours[takers[order.owners[takers] == processes.index()]]
    return int(np.bincount(mine, minlength=1).max())


def joining_bytes(order: Order, distinct: Sequence[Distinct], solver: Merging | Exchange) -> float:
    """What joining takes beside the maps of the cells: the maps of all groups, or the vectors that
    GMRES keeps."""
    if isinstance(solver, Exchange):
        kept = min(RESTART, solver.max_iterations, order.size)
        return 8.0 * exchanged_numbers(order) * (kept + VECTORS)
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


def enough(
    order: Order,
    distinct: Sequence[Distinct],
    maps: int,
    solver: Merging | Exchange,
    others: Iterable[Order],
    free: int,
) -> str:
    """What would be enough memory, in words: more processes, or another way; `maps` are the bytes
    of this one's, `others` the orders of joins of ever more processes."""
    number, exchange = None, solver
    if isinstance(solver, Merging):
        number = _enough_to_merge(order, distinct, maps, others, SAFE * free)
        exchange = Exchange()
    if number is not None:
        return f"or take {number} processes with as much memory each"
    if free <= 0:
        return "or more memory"
    needed = maps + joining_bytes(order, distinct, exchange)
    number = math.ceil(processes.number() * needed / (SAFE * free))
    if exchange is solver:
        return f"or take {number} processes with as much memory each"
    more = f" in {number} processes" if number > processes.number() else ""
    return f"or use solver='exchange'{more}"


def _enough_to_merge(
    order: Order, distinct: Sequence[Distinct], maps: int, others: Iterable[Order], free: float
) -> int | None:
    """How many processes would have enough."""
    me, joins = processes.index(), [i for i, s in enumerate(order.stages) if s.cells is None]
    own = [(order.stages[i], len(distinct[i].pairs)) for i in joins if order.stages[i].owner == me]
    every = sum(s.count * s.bytes for s, _ in own)
    share = sum(n * s.bytes for s, n in own) / every if every else 1.0
    for one in others:
        counts = [share * stage.count for stage in one.stages]
        owners = {stage.owner for stage in one.stages if stage.cells is None}
        if len(owners) < processes.number() or len(owners) == len(order.places):
            continue
        joining = 8.0 * max(_numbers(one, counts, owner) for owner in owners) + _above(one)
        if maps * processes.number() / len(owners) + joining < free:
            return len(owners)
    return None


def _above(order: Order) -> float:
    """Bytes that a process works with at most while several make a join together."""
    return max((_at_work(order, i) for i in order.above), default=0.0)


def _at_work(order: Order, i: int) -> float:
    """Bytes of the columns that a process works with while several make a join together."""
    stage, at = order.stages[i], order.stages[i].numbers
    m, n = len(at.a3_in), len(at.b3_in)
    return 8.0 * (sum(stage.sizes.given) + 2 * (m + n)) * (m + n)
