"""How many bytes several processes send each other to join cells and to solve (docs/scaling.md)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tessella.cells.joins.budget import restart
from tessella.cells.joins.together import Teams
from tessella.cells.maps.jumps import across
from tessella.cells.order.front import Front
from tessella.cells.order.order import Order
from tessella.machine import processes


class Traffic(NamedTuple):
    """Bytes of all processes together: once for the maps, and for every right-hand side."""

    joining: int
    solving: int


def traffic(
    order: Order, ends: np.ndarray, unknowns: int, sums: int = 0, corrections: int = 0
) -> Traffic:
    """Of merging, foretold from the order of joins, the cells at every face, the most unknowns of a
    cell, the sums over all cells, and how often a solution is corrected.

    A join that several processes make costs the columns that are dealt out, D, and what the owner
    keeps of it. A right-hand side costs what every group that is handed over gives and takes; those
    who give something at faces between processes are told what is taken there, and those below them
    their cells' unknowns.
    """
    once = _handed(order, sums) + _crossing(order)
    told = (1 + corrections) * once + _unknowns(order, ends, unknowns)
    return Traffic(joining_traffic(order, sums), 8 * told)


def joining_traffic(order: Order, sums: int = 0) -> int:
    """Bytes that are sent for the joins that several processes make."""
    return 8 * sum(_joined(Teams(order), i, sums) for i in order.above)


def exchange_traffic(
    front: Front,
    ends: np.ndarray,
    unknowns: int,
    iterations: int,
    tried: int = 0,
    again: float = 1.0,
    coarse: Order | None = None,
) -> Traffic:
    """Of an exchange between groups in so many iterations, after a trial of so many; in this part
    of them vectors are made orthogonal again.

    Every product costs what crosses between processes: one an iteration, one for the residual at
    the end, and for data two and what groups of the first colour give; and if there is a coarse
    level (of this order, kept to the end) what that tells, in every iteration and for the
    solution.
    """
    order, colours = front.order, front.colours[front.giver]
    crossing = _crossing(order)
    first = sum(int(np.sum(colours[at] == 0)) for at in order.crossing.values())
    data = 2 * crossing + (first if front.colours.any() else 0)
    sums = processes.total_sent(1 + max(stage.owner for stage in order.stages))
    asked = 0 if coarse is None else _handed(coarse)

    def sent(k: int) -> int:
        whole, rest = divmod(k, restart(front))
        cycles = [restart(front)] * whole + [rest] * (rest > 0)
        told = sum(1 + round((1 + again) * n * (n + 3) / 2) for n in cycles)
        products = k + len(cycles)
        return products * (crossing + asked) + sums * (told + (k > 0))

    joining = 8 * (sent(tried) + 3 * sums * (tried > 0))
    joining += 0 if coarse is None else joining_traffic(coarse)
    solving = sent(iterations) + data + 2 * sums + _unknowns(order, ends, unknowns)
    return Traffic(joining, 8 * solving)


def _handed(order: Order, sums: int = 0) -> int:
    """Numbers that groups which are handed over give, and take."""
    sizes = [order.stages[i].sizes for i in order.handed]
    return sum(sum(own.taken) + sum(own.given) + sums for own in sizes)


def _crossing(order: Order) -> int:
    """Numbers that one process takes and another one gives."""
    return sum(map(len, order.crossing.values()))


def _unknowns(order: Order, ends: np.ndarray, unknowns: int) -> int:
    """Numbers of cells above a face between processes."""
    return unknowns * sum(map(len, across(ends, order.owners).values()))


def _joined(teams: Teams, i: int, sums: int) -> int:
    """Numbers that are sent for one join."""
    stage, team = teams.order.stages[i], teams.members[i]
    m, n, dealt = len(stage.numbers.a3_in), len(stage.numbers.b3_in), 0
    for child, wanted in zip((stage.left, stage.right), teams.wanted(i), strict=True):
        moved = sum(int(np.sum(teams.holders(child)[c] != p)) for p, c in wanted.items())
        dealt += moved * (sum(teams.order.stages[child].sizes.given) + sums)
    if i == len(teams.order.stages) - 1:
        others = [p for p in team if p != stage.owner]
        return dealt + m * sum(_length(teams.part(i, p)) for p in others)
    outside = int(np.sum(teams.holders(i) != stage.owner))
    return dealt + (len(team) - 1) * m * m + (n + m) * outside


def _length(part: slice) -> int:
    return int(part.stop - part.start)
