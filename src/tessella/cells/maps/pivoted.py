"""Cells that filter their own features: cut ones, and those with functions of their own.

Their rows may be as badly conditioned as the threshold of the filter allows, and their unknowns as
large. So maps are made of y = R a, which is as small as the data: O R^-1 is solved for from the
left, where nothing cancels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from tessella.cells.cell.port import Rowed, port_rows
from tessella.cells.cell.rows import Asked
from tessella.cells.maps.maps import Sharing, flat, times_all
from tessella.cells.maps.shelf import size_in_bytes
from tessella.cells.system.kinds import Kind
from tessella.linalg.lapack import Reflections, pivoted_qr, qr
from tessella.machine.arrays import Array

LOOSE = 1e8
"""Condition from which a whole cell is hardly determined by what comes in."""

CUT_SIGMA, WAVE_SIGMA = 1e-13, 1e-9
"""Least threshold of the filter of single cells, whose columns have unit length or less; and of cut
ones where waves travel, in which what is hardly determined would grow from slab to slab of time: in
6 x 6 cells on a disc with 1e-13 if slivers are cells of their own, in no trial since they are not
(`slivers`)."""


class Fit(NamedTuple):
    """The rows of a cell as M[:, kept] = Q R, Q first the reflections of all rows, then those of
    their triangle, and its map: T (out, in), E (sums, in), X (in, y); outputs and sums of y.

    `asked` is how many rows are those of statements.
    """

    rows: Reflections
    triangle: Reflections
    R: Array
    kept: np.ndarray
    T: Array
    E: Array
    X: Array
    out: Array
    sums: Array
    asked: int
    columns: int
    condition: float

    def y(self, h: Array) -> Array:
        """Q^T of right-hand sides (count, rows)."""
        n = self.triangle.packed.shape[1]
        return self.triangle.turned(self.rows.turned(h)[:, :n])[:, : len(self.kept)]

    def values(self, y: Array) -> Array:
        """Q y: what the rows that statements ask for make of it, (count, rows)."""
        n, height = self.triangle.packed.shape[1], self.rows.packed.shape[1]
        small = self.triangle.turned(_extended(y, n), back=True)
        return self.rows.turned(_extended(small, height), back=True)[:, : self.asked]


def _extended(x: Array, width: int) -> Array:
    found = np.zeros((len(x), width))
    found[:, : x.shape[1]] = x
    return found


@dataclass(frozen=True, eq=False)
class Pivoted:
    """A kind that is mapped by itself; answers what a `Family` does."""

    number: int
    kind: Kind
    fit: Fit

    @property
    def numbers(self) -> np.ndarray:
        return np.array([self.number])

    @property
    def cells(self) -> np.ndarray:
        return self.kind.members

    @property
    def columns(self) -> int:
        """Those that the filter has left."""
        return len(self.fit.kept)

    @property
    def T(self) -> Array:
        return self.fit.T[None]

    @property
    def E(self) -> Array:
        return self.fit.E[None]

    @property
    def condition(self) -> Array:
        return np.array([self.fit.condition])

    @property
    def sharing(self) -> Sharing:
        return Sharing(np.zeros(len(self.cells), dtype=np.int64), 1)

    @property
    def loose(self) -> bool:
        """Whether a whole cell is not determined by its equation, conditions and incoming data."""
        if self.kind.own is not None or not self.kind.space.filtered:
            return False
        return len(self.fit.kept) < self.fit.columns or self.fit.condition > LOOSE

    @property
    def once(self) -> bool:
        """It needs no M^T h of its cells."""
        return True

    @property
    def bytes(self) -> int:
        return size_in_bytes(self.fit)

    def kept(self, i: int) -> Fit:
        return self.fit

    def start(self, b: Array, asked: Sequence[Asked], h: Sequence[Array]) -> Array:
        height, several = self.fit.rows.packed.shape[1], b.shape[1:-1]
        rows = np.zeros((len(self.cells), *several, height))
        for row, j in zip(rows, self.cells.tolist(), strict=True):
            own = [h[n][asked[n].at(j)] for n, _ in self.kind.asked]
            row[..., : self.fit.asked] = np.concatenate(own, axis=-1) if own else 0.0
        return self.fit.y(flat(rows)).reshape(*rows.shape[:-1], len(self.fit.kept))

    def given(self, y: Array) -> Array:
        return times_all(y, self.fit.out.T)

    def summed(self, y: Array) -> Array:
        return times_all(y, self.fit.sums.T)

    def total(self, rows: Array) -> Array:
        own = rows[self.cells, ..., : self.fit.columns]
        assert self.kind.sums is not None
        return np.asarray(times_all(own, self.kind.sums.T).sum(axis=0))

    def put_values(self, y: Array, asked: Sequence[Asked], values: Sequence[Array]) -> None:
        """Put what the rows of all statements make of y among those of other cells."""
        rows, start = self.fit.values(flat(y)).reshape(*y.shape[:-1], self.fit.asked), 0
        for number, _ in self.kind.asked:
            part, end = asked[number], start + len(asked[number].slot)
            at = [part.at(j) for j in self.cells.tolist()]
            values[number][at] = rows[..., start:end]
            start = end

    def taking(self, y: Array, taken: Array) -> Array:
        return np.asarray(y + times_all(taken, self.fit.X))

    def unknowns(self, y: Array) -> Array:
        found = np.zeros((*y.shape[:-1], self.fit.columns))
        if len(self.fit.kept):
            solved = lapack.dtrtrs(self.fit.R, flat(y).T)[0].T
            found[..., self.fit.kept] = solved.reshape(y.shape)
        return found

    # --- the same transposed, last step first

    def of_unknowns(self, rows: Array) -> Array:
        own = rows[self.cells][..., self.fit.kept]
        if not len(self.fit.kept):
            return own
        return np.asarray(lapack.dtrtrs(self.fit.R, flat(own).T, trans=1)[0]).T.reshape(own.shape)

    def of_taking(self, y: Array) -> Array:
        return times_all(y, self.fit.X.T)

    def of_given(self, y: Array, given: Array, summed: Array) -> Array:
        return np.asarray(y + times_all(given, self.fit.out) + times_all(summed, self.fit.sums))


def threshold(kind: Kind, waves: bool) -> float:
    """The least that a kind needs; `waves` travel where an equation is of second order in time."""
    cut = kind.own is None and not kind.space.filtered
    return WAVE_SIGMA if cut and waves else CUT_SIGMA


def fitted(kind: Kind, asked: Sequence[Asked], sigma: float) -> Fit:
    """The map by a QR of all rows and a pivoted one of its triangle."""
    made = [port_rows(kind.space, port) for port in kind.ports]
    M, out, top = _rows(kind, asked, made)
    columns, height = M.shape
    rows = qr(M)
    triangle, pivots = pivoted_qr(np.ascontiguousarray(rows.R.T))
    R = triangle.R
    size = np.abs(np.diag(R))
    rank = int(np.count_nonzero(size > sigma * size[0])) if len(size) and size[0] > 0 else 0
    kept = pivots[:rank]
    R = np.asfortranarray(R[:rank, :rank])
    triangle = Reflections(triangle.packed[:rank], triangle.scales[:rank])
    lifted = np.zeros((sum(one.lifted.shape[1] for one in made), height))
    row, column = top, 0
    for one in made:
        n, m = one.lifted.shape
        lifted[column : column + m, row : row + n] = one.lifted.T
        row, column = row + n, column + m
    sums = np.zeros((0, columns)) if kind.sums is None else kind.sums
    out, sums = (divided(x[:, kept], R) for x in (out, sums))
    condition = float(size[0] / size[rank - 1]) if rank else np.inf
    none = np.zeros((0, 0))
    fit = Fit(rows, triangle, R, kept, none, none, none, out, sums, top, columns, condition)
    X = fit.y(lifted)
    return fit._replace(X=X, T=out @ X.T, E=sums @ X.T)


def _rows(kind: Kind, asked: Sequence[Asked], made: Sequence[Rowed]) -> tuple[Array, Array, int]:
    """All rows of a kind, transposed (columns, rows), what goes out (out, columns), and how many of
    the rows statements ask for."""
    space, parts = kind.space, [(asked[number], at) for number, at in kind.asked]
    top = sum(len(part.slot) for part, _ in parts)
    height = top + sum(len(one.rows) for one in made)
    r = space.columns
    extra = 0 if kind.own is None else kind.own.shape[1]
    M, start = np.empty((r + extra, height)), 0
    for part, at in parts:
        end = start + len(part.slot)
        own = {key: c[at] for key, c in part.symbol.items()}
        space.combined(part.slot, own, M[:r, start:end])
        start = end
    for one in made:
        M[:r, start : start + len(one.rows)] = one.rows.T
        start += len(one.rows)
    out = np.concatenate([np.zeros((0, r)), *(one.out for one in made)])
    if kind.own is not None:
        M[r:] = kind.own[:height].T
        out = np.concatenate([out, kind.own[height:]], axis=1)
    return M, out, top


def divided(rows: Array, R: Array) -> Array:
    """rows R^-1."""
    if not rows.size:
        return np.zeros((len(rows), len(R)))
    return np.ascontiguousarray(lapack.dtrtrs(R, np.asfortranarray(rows.T), trans=1)[0].T)
