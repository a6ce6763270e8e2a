"""Numbers that all processes must have alike, but for rounding: a function has other last digits on
another processor, or with other points beside those that it is asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tessella.machine import processes
from tessella.machine.arrays import Array

ROUNDING = 1e-9
"""Part of a table's largest number by which numbers of two processes may differ."""


def differing(tables: Sequence[Array]) -> int | None:
    """A process with other numbers than process 0, the same one for all who ask."""
    lengths = [table.size for table in tables if table.size]
    own = [np.ravel(table).astype(np.float64) for table in tables if table.size]
    first, *others = processes.gathered("the problem", np.concatenate([np.zeros(0), *own]))
    starts = np.cumsum([0, *lengths])[:-1]
    for number, theirs in enumerate(others, 1):
        if theirs.shape != first.shape:
            return number
        largest = np.maximum(np.abs(first), np.abs(theirs))
        size = np.repeat(np.maximum.reduceat(largest, starts) if lengths else largest, lengths)
        if not np.all(np.abs(theirs - first) <= ROUNDING * size):
            return number
    return None


def refuse(other: int | None) -> None:
    """Say that it has other numbers, if one has."""
    if other is not None:
        raise ValueError(
            f"processes 0 and {other} differ in the problem: all processes must state the same "
            f"problem with the same numbers"
        )
