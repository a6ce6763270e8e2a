"""Memory that it takes to join cells, foretold, and what would be enough."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from tessella.cells.maps.maps import Distinct
from tessella.cells.order.front import Front, front_of
from tessella.cells.order.order import Order
from tessella.cells.solvers import Exchange, Merging
from tessella.machine import processes

FEWEST, MOST = 200, 800
"""Iterations after which GMRES begins anew, at least and at most."""

SAFE = 0.9
"""Part of what is free that what is advised may take: it is foretold from this process's share."""

VECTORS = 16
"""Beside those it keeps: of the right-hand side, of the solution and of one exchange, which is of
groups of all colours."""


def joining_bytes(order: Order, distinct: Sequence[Distinct], solver: Merging | Exchange) -> float:
    """What joining takes beside the maps of the cells: the maps of all groups, or the vectors that
    GMRES keeps."""
    if isinstance(solver, Exchange):
        front = front_of(order, solver.group)
        kept = min(restart(front, solver.coarse), solver.max_iterations, order.size)
        return exchange_bytes(front, distinct, front.numbers, kept, solver.coarse)
    counts = [len(own.pairs) for own in distinct]
    return 8.0 * _numbers(order, counts, processes.index()) + _above(order)


def expected(front: Front, dimension: int = 2, coarse: bool = False) -> float:
    """Iterations that an exchange between these groups is likely to take if their colours are two
    and nothing resonates: data travel from group to group, and what cells take suits waves as short
    as they can hold, n = N t along an axis; with a coarse level it depends on neither (`python -m
    benchmarks exchange_growth`)."""
    order, most = front.order, 14.0 + 4 * dimension
    leaves = [stage for stage in order.stages if stage.cells is not None]
    ports = sum(stage.count * len(stage.sizes.taken) for stage in leaves)
    numbers = sum(stage.count * sum(stage.sizes.taken) for stage in leaves)
    t = (numbers / max(ports, 1)) ** (1 / max(dimension - 1, 1))
    cells = order.each * order.count
    N, groups = (n ** (1 / dimension) for n in (cells, sum(front.counts)))
    found = 12 + 0.9 * math.sqrt(N * t * groups)
    return min(found, most) if coarse and order.long.size else found


def restart(front: Front, coarse: bool = False) -> int:
    """Iterations after which GMRES begins anew: more than it should take, if there is room."""
    return int(min(max(FEWEST, 1.5 * expected(front, coarse=coarse)), MOST))


def exchange_bytes(
    front: Front, distinct: Sequence[Distinct], numbers: float, vectors: int, coarse: bool = False
) -> float:
    """Of what is joined as far as a front, of so many vectors there of so many numbers, and of the
    coarse level."""
    order, joined, me = front.order, front.joined, processes.index()
    counts = [len(own.pairs) if i in joined else 0 for i, own in enumerate(distinct)]
    joins, above = _numbers(order, counts, me), 0.0
    if coarse and order.long.size:
        rest = [0 if i in joined else len(own.pairs) for i, own in enumerate(distinct)]
        sizes = [(i, order.stages[i].sizes, distinct[i].count) for i in front.members]
        mine = [own for own in sizes if order.stages[own[0]].owner == me]
        maps = sum(count * sum(own.taken) * sum(own.given) for _, own, count in mine)
        above = TWICE * _numbers(order, rest, me) + maps + _above(order) / 8
    return 8.0 * (joins + long_part(order) ** 2 * above + numbers * (vectors + VECTORS))


TWICE = 2
"""A coarse level's joins are there once more as what iterations need of them (see `passes`)."""


def long_part(order: Order) -> float:
    """Which part of the numbers that cross faces the coarse level has."""
    return float(np.mean(order.long)) if order.long.size else 0.0


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
        if len(owners) < processes.number() or len(owners) == order.count:
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
