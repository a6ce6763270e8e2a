"""What several processes have of the cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tessella.cells.system.kinds import Kind
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
