"""What several processes have of the cells, and what they must agree on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tessella.cells.draw import digest
from tessella.cells.joining import Order
from tessella.cells.kinds import Kind
from tessella.cells.system import CellSystem
from tessella.machine import processes
from tessella.machine.arrays import Array


class Tally(NamedTuple):
    """Of all processes: cells that were mapped, columns that filters left, bytes that are kept and
    that were sent to join, and the condition of the worst cell's rows."""

    distinct: int
    columns: int
    bytes: int
    sent: int
    worst: float


def shared_units(kinds: Sequence[Kind]) -> Array | None:
    """Those that all cells with functions of their own have."""
    own = next((kind.own_units for kind in kinds if kind.own_units is not None), np.zeros(0))
    return next((units for units in processes.gathered("units", own) if len(units)), None)


def owned(system: CellSystem, order: Order) -> CellSystem:
    """The system with statements in the cells of this process only."""
    if processes.alone():
        return system
    mine = order.owners == processes.index()
    parts = [(part, mine[part.members]) for part in system.asked]
    return replace(system, asked=tuple(part.of(own) for part, own in parts if own.any()))


def fingerprint(system: CellSystem) -> bytes:
    """Of what all processes must agree on: the cells, and sums of all numbers of the statements."""
    cells, parts = system.cells, (*system.asked, *(p for s in system.sums for p in s.parts))
    tables = [x for part in parts for x in (part.h, *part.symbol.values())]
    sums = np.array([f(x) for x in tables for f in (np.sum, np.size)])
    return digest(*(x.tobytes() for x in (cells.centres, cells.half_widths, sums)))
