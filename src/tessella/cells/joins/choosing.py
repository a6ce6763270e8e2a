"""How cells are joined: whatever is foretold to take the least time, and fits."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import NamedTuple

from tessella.cells.joins.budget import (
    exchange_bytes,
    expected,
    joining_bytes,
    long_part,
    restart,
)
from tessella.cells.joins.exchanged import Exchanged, exchange
from tessella.cells.joins.join import Climb
from tessella.cells.joins.merging import Merged, merge
from tessella.cells.joins.together import Teams
from tessella.cells.joins.traffic import joining_traffic
from tessella.cells.maps.maps import Distinct
from tessella.cells.order.front import Front, front_of
from tessella.cells.order.order import Order
from tessella.cells.order.stage import Stage
from tessella.cells.solvers import ROUNDING, Exchange, Merging
from tessella.linalg.iterative.iteration import Progress
from tessella.machine import processes
from tessella.machine.arrays import Array
from tessella.machine.memory import available_bytes, gib
from tessella.machine.threads import CORES

RATE, HALF = 4e10, 64
"""Flops per second of a core in joins that close many numbers, and how many numbers halve that."""

READ = 4e9
"""Numbers per second that a process reads from memory."""

SENT = 1e9
"""Bytes per second that a process sends."""

WAITING = 2.0
"""By how much longer joins that several processes make take, which wait for the slowest."""

DELAY = 1.5e-4
"""Seconds that an iteration takes beside its products, and once more for every doubling of
processes."""

CALLS = 4e-5
"""Seconds that a stage of the coarse level takes beside its operations, on the way up and down; to
join it takes eight times as long."""

QUICK = 0.01
"""Seconds of merging below which nothing else is thought of, and seconds that must be saved."""

PART = 0.8
"""Part of merging's time that anything else may take."""

PATIENCE = 120.0
"""Seconds up to which merging is thought of."""

MANY = 50
"""Right-hand sides that factors are made for, unless somebody knows better."""

TRIAL = 0.5
"""Part of an exchange's iterations that are made before, to see whether they settle."""

FILLED, FULL = 0.6, 0.85
"""Parts of what is free that merging may be foretold to take, and what is taken in its place."""


class Choice(NamedTuple):
    """How cells are joined, what merging is foretold to take, and an exchange between groups that
    is preferred to it if that settles in so many iterations."""

    solver: Merging | Exchange
    plan: str = ""
    sooner: Exchange | None = None
    most: int = 0

    @property
    def first(self) -> Merging | Exchange:
        """What is done first."""
        return self.sooner or self.solver

    def joined(self, climb: Climb, weights: Array, progress: Progress | None) -> Merged | Exchanged:
        """By an exchange if one is asked for, or preferred and settles; otherwise merged."""
        if isinstance(self.first, Exchange):
            found = exchange(climb, self.first)
            if self.sooner is None or found.settles(self.most, progress):
                return found
            with processes.in_unison("joins"):
                climb.below()
        return merge(climb, weights)

    def note(self, solver: Merging | Exchange) -> str:
        """A remark on one of them."""
        if not self.plan:
            return ""
        if isinstance(solver, Merging):
            tried = "; an exchange was tried before, and did not settle" if self.sooner else ""
            return f"direct: {self.plan}{tried}"
        groups = "" if solver.group == 1 else f"between groups of up to {solver.group} cells, "
        if self.sooner:
            return f"{groups}sooner than merging all: {self.plan}"
        return f"{groups}iterative, because merging all would need {self.plan}"


class Cost(NamedTuple):
    """Bytes, and seconds of joining and of an iteration, of a process; and how many iterations a
    right-hand side takes."""

    size: float
    joining: float
    iteration: float = 0.0
    iterations: float = 0.0

    def seconds(self, right_sides: int) -> float:
        return self.joining + (TRIAL + right_sides) * self.iterations * self.iteration


def chosen(
    order: Order,
    distinct: Sequence[Distinct],
    maps: int,
    bound: bool,
    right_sides: int = MANY,
    dimension: int = 2,
) -> Choice:
    """Merging if its predicted memory and time fit, beside so many bytes of the cells' own maps,
    and an exchange between groups otherwise, or where it is foretold to be sooner for so many
    right-hand sides. Sums and open ports (`bound`) can only be merged."""
    size = joining_bytes(order, distinct, Merging())
    others, more = processes.beside("needs", maps, int(size))
    left, room = (available_bytes(n) - maps for n in (others + more, others))
    if room <= 0:
        left = sys.maxsize  # maps alone do not fit: refused later
    joins = _joins(order, distinct)
    *merging, short = processes.largest_each("plan", size, _merging(order, joins), -float(left))
    direct, free = Cost(*merging), -short
    fits = direct.size < FILLED * free and direct.joining < PATIENCE
    plan = f"about {gib(int(direct.size))} and {direct.joining:.1g} s"
    if bound or (fits and direct.joining < QUICK):
        return Choice(Merging(), plan)
    ways = [Way(front_of(order, n), coarse) for n in _groups(order) for coarse in _levels(order)]
    every = processes.largest_each(
        "fronts", *(x for way in ways for x in _cost(*way, distinct, joins, dimension))
    )
    costs = [Cost(*every[i : i + 4]) for i in range(0, len(every), 4)]
    fitting = [i for i, own in enumerate(costs) if own.size < FULL * free]
    fitting = fitting or [min(range(len(costs)), key=lambda i: costs[i].size)]
    way, cost = _best([ways[i] for i in fitting], [costs[i] for i in fitting], right_sides)
    group, coarse = way.front.group, way.coarse
    if not fits:
        return Choice(Exchange(group=group, coarse=coarse), plan)
    if cost.seconds(right_sides) > min(PART * direct.joining, direct.joining - QUICK):
        return Choice(Merging(), plan)
    most = int((direct.joining - cost.joining) / cost.iteration)
    sooner = Exchange(tolerance=ROUNDING, group=group, coarse=coarse)
    return Choice(Merging(), plan, sooner, most)


class Way(NamedTuple):
    """Groups that exchange, and whether they have a coarse level."""

    front: Front
    coarse: bool


def _levels(order: Order) -> tuple[bool, ...]:
    return (False, True) if order.long.size else (False,)


def _best(ways: list[Way], costs: list[Cost], right_sides: int) -> tuple[Way, Cost]:
    """The way that takes the least time. Groups that cannot be coloured like a chessboard take
    twice as many iterations, which is looked at only of those that may be it."""
    slow: set[int] = set()
    while True:
        best = min(range(len(costs)), key=lambda i: costs[i].seconds(right_sides))
        way, cost = ways[best], costs[best]
        if best in slow or way.front.colours.any():
            return way, cost
        costs[best] = cost._replace(iterations=2 * cost.iterations)
        slow.add(best)


def _groups(order: Order) -> list[int]:
    """Numbers of cells of groups that are thought of: the largest that equally many halvings leave,
    of those that one process has. Groups of that size at most lie like a grid, so that they can be
    coloured like a chessboard."""
    depth, found = [0] * len(order.stages), {1}
    for i, stage in reversed(list(enumerate(order.stages))):
        if stage.cells is None:
            for child in (stage.left, stage.right):
                depth[child] = max(depth[child], depth[i] + 1)
    for k in range(1, max(depth) + 1):
        here = [n for i, n in enumerate(order.cells) if depth[i] == k and i not in order.above]
        found.add(max(here, default=1))
    return sorted(found)


def _merging(order: Order, joins: Joins) -> float:
    """Seconds of all joins that this process makes or takes part in, and of what is sent."""
    above = sum(seconds for i, seconds in joins.seconds.items() if i in order.above)
    below = sum(joins.seconds.values()) - above
    return below + (WAITING * (above + joins.sending) if order.above else 0.0)


def _join(stage: Stage, team: int = 1) -> float:
    """Seconds of one join by a team, all of which factor what closes."""
    n = len(stage.numbers.a3_in)
    every = 2 * n**3 / 3 if team > 1 else 0.0
    return (every + stage.flops / team) * (1 + HALF / max(n, 1)) / (RATE * CORES)


class Joins(NamedTuple):
    """Seconds of the joins of every stage that this process makes or takes part in, and numbers
    that they leave for right-hand sides; and seconds that it takes to send what several make."""

    seconds: dict[int, float]
    numbers: dict[int, int]
    sending: float


def _joins(order: Order, distinct: Sequence[Distinct]) -> Joins:
    me, teams = processes.index(), Teams(order).members
    mine = [i for i, s in enumerate(order.stages) if s.cells is None and me in teams[i]]
    seconds = {i: len(distinct[i].pairs) * _join(order.stages[i], len(teams[i])) for i in mine}
    numbers = {i: len(distinct[i].pairs) * order.stages[i].numbers_left[1] for i in mine}
    sent = joining_traffic(order) if order.above else 0
    return Joins(seconds, numbers, sent / processes.number() / SENT)


def _cost(
    front: Front, coarse: bool, distinct: Sequence[Distinct], joins: Joins, dimension: int
) -> Cost:
    """Of an exchange between these groups."""
    me, stages = processes.index(), front.order.stages
    mine = [i for i, stage in enumerate(stages) if stage.owner == me]
    joining = sum(joins.seconds[i] for i in mine if i in front.joined)
    products = read = numbers = 0
    for i in mine:
        if count := front.counts[i]:
            taken, given = (sum(own) for own in stages[i].sizes)
            products += count * taken * given
            read += min(count, distinct[i].count) * taken * given
            numbers += count * taken
    iterations = expected(front, dimension, coarse)
    vectors = numbers * iterations  # half of them, four times, of half of the iterations
    delay = DELAY * (1 + math.log2(processes.number()))
    iteration = 2 * products / (RATE * CORES) + (read + vectors) / READ + delay
    if coarse:
        more, each = _coarse(front, joins)
        joining, iteration = joining + more, iteration + each
    size = exchange_bytes(front, distinct, numbers / 2, restart(front, coarse), coarse)
    return Cost(size, joining, iteration, iterations)


def _coarse(front: Front, joins: Joins) -> tuple[float, float]:
    """Seconds to join the coarse level of a front, and to solve with it."""
    part, mine = long_part(front.order), joins.seconds.keys() - front.joined
    seconds = sum(joins.seconds[i] for i in mine)
    read = sum(joins.numbers[i] for i in mine)
    joining = 8 * CALLS * len(mine) + part**3 * seconds + part**2 * joins.sending
    told = 2 * DELAY * math.log2(processes.number())
    return joining, len(mine) * CALLS + part**2 * read / READ + told
