"""Cells that are mapped together: what they answer to right-hand sides and to what comes in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tessella.cells.cell.rows import Asked
from tessella.cells.maps.maps import Sharing, flat, times_all
from tessella.linalg.lapack import solve_cholesky_rows
from tessella.machine.arrays import Array
from tessella.machine.threads import SMALL, in_parallel

FROM_MEMORY = 8.0
"""So many flops take as long as one whose numbers come from memory."""


class Factor(NamedTuple):
    """What is kept of one kind of a family."""

    L: Array
    X: Array
    T: Array
    E: Array
    condition: float


@dataclass(frozen=True, eq=False)
class Family:
    """Kinds of whole cells with the same features, which take and give as much as each other and
    are mapped together.

    numbers    of the kinds
    cells      all their members, kind by kind; `starts` tells where those of each begin
    L          Cholesky factors of M^T M, (n, r, r); none of it if cells have answered already
    X          from what comes in to the unknowns, (n, r, in)
    T, E       what goes out (n, out, in), and what comes to the sums (n, sums, in)
    out, sums  the same of the unknowns, (out, r) or of each its own (n, out, r), and (n, sums, r)
    _answered  what they answer to the only data that they are for, (n, r)
    """

    numbers: np.ndarray
    cells: np.ndarray
    starts: np.ndarray
    L: Array
    X: Array
    T: Array
    E: Array
    out: Array
    sums: Array
    condition: Array
    _answered: Array | None = None

    @property
    def columns(self) -> int:
        return self.X.shape[1]

    @property
    def once(self) -> bool:
        """Whether they are for the data that were known when they were mapped, and no others."""
        return self._answered is not None

    @property
    def bytes(self) -> int:
        answered = 0 if self._answered is None else self._answered.nbytes
        return answered + sum(x.nbytes for x in (self.L, self.X, self.T, self.E))

    @cached_property
    def sharing(self) -> Sharing:
        n = len(self.numbers)
        return Sharing(np.repeat(np.arange(n), np.diff(self.starts)), n)

    def start(self, b: Array, asked: Sequence[Asked], h: Sequence[Array]) -> Array:
        """What the cells answer to their right-hand sides M^T h if nothing comes in, (cells, r), or
        (cells, k, r) for several of them."""
        if self._answered is not None:
            return self._answered
        return self._solved(np.ascontiguousarray(b[self.cells, ..., : self.columns]))

    def _solved(self, found: Array) -> Array:
        """(M^T M)^-1 of every cell, in place."""
        several, y = math.prod(found.shape[1:-1]), flat(found)
        work, n = FROM_MEMORY * 4.0 * self.columns**2 * len(y), len(self.numbers)
        halves = [range(n // 2), range(n // 2, n)] if work > SMALL else [range(n)]

        def solve(kinds: range) -> None:
            starts = several * self.starts[kinds.start : kinds.stop + 1]
            own = y[starts[0] : starts[-1]]
            solve_cholesky_rows(self.L[kinds.start : kinds.stop], own, starts - starts[0])

        in_parallel(solve, halves, work)
        return y.reshape(found.shape)

    def given(self, y: Array) -> Array:
        if self.out.ndim == 2:
            return times_all(y, self.out.T)
        return self.sharing.times(self.out, y)

    def summed(self, y: Array) -> Array:
        return self.sharing.times(self.sums, y)

    def total(self, rows: Array) -> Array:
        """The cells' parts of the sums, given the unknowns of all cells."""
        return np.asarray(self.summed(rows[self.cells, ..., : self.columns]).sum(axis=0))

    def taking(self, y: Array, taken: Array) -> Array:
        """The same when this comes in."""
        return y + self.sharing.times(self.X, taken)

    def unknowns(self, y: Array) -> Array:
        return y

    # --- the same transposed, last step first

    def of_unknowns(self, rows: Array) -> Array:
        return np.ascontiguousarray(rows[self.cells, ..., : self.columns])

    def of_taking(self, y: Array) -> Array:
        return self.sharing.times(self.X.transpose(0, 2, 1), y)

    def of_given(self, y: Array, given: Array, summed: Array) -> Array:
        """y with what comes of outputs and sums."""
        if self.out.ndim == 2:
            y = y + times_all(given, self.out)
        else:
            y = y + self.sharing.times(self.out.transpose(0, 2, 1), given)
        return y + self.sharing.times(self.sums.transpose(0, 2, 1), summed)

    def put_unknowns(self, y: Array, rows: Array) -> None:
        """Put the unknowns of which M makes what comes of right-hand sides."""
        rows[self.cells, ..., : self.columns] = self._solved(y)

    def kept(self, i: int) -> Factor:
        """A copy of what belongs to one kind."""
        L, X, T, E = (x[i].copy() for x in (self.L, self.X, self.T, self.E))
        return Factor(L, X, T, E, float(self.condition[i]))
