"""Right-hand sides and columns brought near one by powers of two, which rounds nothing.

Solvers square what they are given: beyond 1e154 squares overflow, below 1e-162 they vanish, and a
vanished residual passes for convergence.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tessella.linalg.block_kernels import largest_entries, scaled_columns, squared_sums
from tessella.linalg.block_matrix import BlockMatrix
from tessella.linalg.vectors import WHOLE
from tessella.machine.arrays import Array

LOW, HIGH = 1e-50, 1e50
"""Between them nothing needs a unit."""

NOTHING = 2.0**-1000
"""A column of smaller numbers counts as zero."""


def in_units(
    b: Array, rows: int, largest: Callable[[Array], float] = WHOLE.largest
) -> tuple[Array, float]:
    """b / unit and the unit, 1 if b is of moderate size; refuses another length, NaN, infinity.
    `largest` finds the largest entry where others have parts of b."""
    b = np.asarray(b, dtype=np.float64)
    if b.ndim not in (1, 2) or len(b) != rows:
        raise ValueError(f"the right-hand side has shape {b.shape}, but the matrix has {rows} rows")
    if not np.all(np.isfinite(b)):
        raise ValueError("the right-hand side contains NaN or infinity")
    unit = float(_units(np.array(largest(b))))
    return (b, 1.0) if unit == 1 else (b / unit, unit)


def _units(sizes: Array) -> Array:
    """The power of two at or below each size; 1 where that is moderate or zero."""
    extreme = (sizes > 0) & ((sizes < LOW) | (sizes > HIGH))
    return np.ldexp(1.0, np.where(extreme, np.frexp(sizes)[1] - 1, 0))


def column_scale(A: BlockMatrix) -> Array:
    """1 / length of every column, 1 where it is zero."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squares = _squares(A, None)
    moderate = (squares > LOW) & (squares < HIGH)
    if np.all(moderate[np.concatenate(A.pattern()[1])]):
        return 1.0 / np.sqrt(np.where(moderate, squares, 1.0))
    largest = np.zeros(A.shape[1])
    for g in A.groups:
        np.maximum.at(largest, np.asarray(g.columns), largest_entries(g.values, 2))
    if not np.all(np.isfinite(largest)):
        column = int(np.flatnonzero(~np.isfinite(largest))[0])
        raise ValueError(f"column {column} of the matrix contains NaN or infinity")
    factors = 1.0 / _units(np.where(largest < NOTHING, 0.0, largest))
    squares = np.where(largest < NOTHING, 0.0, _squares(A, factors))
    return factors / np.sqrt(np.where(squares > 0, squares, 1.0))


def _squares(A: BlockMatrix, factors: Array | None) -> Array:
    """Squared length of every column, times its factor if given."""
    squares = np.zeros(A.shape[1])
    for g in A.groups:
        values = g.values if factors is None else scaled_columns(g.values, g.columns, factors)
        filled = np.arange(g.columns.shape[1]) < g.widths[:, None]
        np.add.at(squares, np.asarray(g.columns)[filled], squared_sums(values, 2)[filled])
    return squares
