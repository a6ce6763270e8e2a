"""What cells are asked, on a device: rows of all statements, and of what crosses their faces."""

from __future__ import annotations

from functools import lru_cache

import jax
import numpy as np

from tessella.cells.cell.draw import Draw, Slot
from tessella.cells.cell.port import Rowed, port_rows
from tessella.cells.cell.rows import Asked
from tessella.cells.cell.space import Space
from tessella.cells.device.grid import Numbers
from tessella.cells.device.maps import Statement
from tessella.cells.system.system import CellSystem
from tessella.geometry.functions import Orders


@lru_cache(maxsize=256)
def _table(draw: Draw, slot: Slot, alpha: Orders, unit: float) -> jax.Array:
    """Derivatives of filtered features on the device, kept there like those on the host."""
    return jax.device_put(draw.table(slot, alpha) / unit)


@lru_cache(maxsize=256)
def _members(numbers: bytes) -> jax.Array:
    return jax.device_put(np.frombuffer(numbers, dtype=np.int64))


def stated(system: CellSystem, space: Space, cells: np.ndarray) -> tuple[Statement, ...]:
    """All statements in some cells, which have these numbers there, on the device; of what was
    there before only the coefficients go again."""
    found, number = [], np.full(system.cells.count, -1)
    number[cells] = np.arange(len(cells))
    for part in heard(system):
        coefficients, tables = [], []
        for f, (draw, unit) in enumerate(zip(space.draws, space.units, strict=True)):
            alphas = [alpha for g, alpha in part.symbol if g == f]
            coefficients.append(tuple(part.symbol[f, alpha] for alpha in alphas))
            tables.append(tuple(_table(draw, part.slot, alpha, unit) for alpha in alphas))
        own = number[part.members]
        members = None if np.array_equal(own, number[cells]) else _members(own.tobytes())
        found.append(Statement(members, tuple(coefficients), tuple(tables)))
    return jax.device_put(tuple(found))


def heard(system: CellSystem) -> list[Asked]:
    """What is asked of this process's cells."""
    return [part for part in system.asked if not part.quiet]


Ported = tuple[tuple[Rowed, ...], tuple[Numbers, ...]]
"""Rows of a cell's ports on the device, below and above across every axis, and how many numbers
cross there; none across an axis with a single cell."""

_PORTED: dict[object, Ported] = {}

MOST = 16
"""Cells whose ports are remembered."""


def ported(system: CellSystem, space: Space) -> Ported:
    """Found again if the features and what crosses the faces are those of before."""
    ends = (0, system.ports.of(system.cells.count - 1)), (1, system.ports.of(0))
    found = [
        next((p for p in ports if (p.axis, p.side) == (axis, side)), None)
        for axis in range(system.problem.domain.dimension)
        for side, ports in ends
    ]
    key = (space.draws, space.units, tuple(port and port.name for port in found))
    if key not in _PORTED:
        while len(_PORTED) >= MOST:
            _PORTED.pop(next(iter(_PORTED)))
        rows = [_none(space) if port is None else port_rows(space, port) for port in found]
        taken = [own.lifted.shape[1] for own in rows]
        numbers = tuple(map(Numbers, taken[::2], taken[1::2]))
        _PORTED[key] = jax.device_put(tuple(rows)), numbers
    return _PORTED[key]


def _none(space: Space) -> Rowed:
    r = space.columns
    return Rowed(np.zeros((0, r)), np.zeros((0, 0)), np.zeros((0, r)))
