"""How many bytes several processes send each other to join cells and to solve (docs/scaling.md)."""

from __future__ import annotations

from typing import NamedTuple

from tessella.cells.joining import Order


class Traffic(NamedTuple):
    """Bytes of all processes together: once for the maps, and for every right-hand side."""

    joining: int
    solving: int


def traffic(order: Order, unknowns: int, sums: int = 0, corrections: int = 0) -> Traffic:
    """Foretold from the order of joins, the most unknowns of a cell, the sums over all cells, and
    how often a solution is corrected.

    Every group that is handed over costs its map, and per right-hand side what it gives and takes;
    every process tells all others what it has at faces between processes, and its cells' unknowns.
    """
    number = 1 + max(stage.owner for stage in order.stages)
    sizes = [order.stages[i].sizes for i in order.handed]
    ends = [(sum(own.taken), sum(own.given) + sums) for own in sizes]
    maps = sum(taken * given for taken, given in ends)
    once = sum(taken + given for taken, given in ends)
    once += number * (number - 1) * len(order.crossing)
    cells = (number - 1) * len(order.places) * unknowns
    return Traffic(8 * maps, 8 * ((1 + corrections) * once + cells))
