"""How many bytes several processes send each other to join cells and to solve (docs/scaling.md)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tessella.cells.joining import Order
from tessella.cells.jumps import across
from tessella.cells.together import Teams
from tessella.machine import processes


class Traffic(NamedTuple):
    """Bytes of all processes together: once for the maps, and for every right-hand side."""

    joining: int
    solving: int


def traffic(
    order: Order, ends: np.ndarray, unknowns: int, sums: int = 0, corrections: int = 0
) -> Traffic:
    """Foretold from the order of joins, the cells at every face, the most unknowns of a cell, the
    sums over all cells, and how often a solution is corrected.

    A join that several processes make costs the columns that are dealt out, D, and what the owner
    keeps of it. A right-hand side costs what every group that is handed over gives and takes; what
    is at faces between processes is added up, and those below them are told their cells' unknowns.
    """
    number = 1 + max(stage.owner for stage in order.stages)
    sizes = [order.stages[i].sizes for i in order.handed]
    once = sum(sum(own.taken) + sum(own.given) + sums for own in sizes)
    once += processes.total_sent(number) * len(order.crossing)
    cells = unknowns * sum(map(len, across(ends, order.owners).values()))
    joining = sum(_joined(Teams(order), i, sums) for i in order.above)
    return Traffic(8 * joining, 8 * ((1 + corrections) * once + cells))


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
