"""Dense QR of one front by LAPACK, and what becomes of its triangle.

The rows of a front begin late: its children hand over triangles, and a row of the matrix touches
few of the front's columns. Ordered by where they begin, the rows make a staircase. A panel of
columns meets only the rows that have begun, so the QR of two triangles on top of each other costs a
fifth of that of a full matrix of their size.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from tessella.machine.arrays import Array
from tessella.machine.threads import CORES, in_parallel, single_threaded_blas


@dataclass(frozen=True)
class Householder:
    """F = Q R with Q as LAPACK's reflectors; `qr` holds R in its upper triangle."""

    qr: Array
    tau: Array

    def transpose_times(self, c: Array) -> tuple[Array, float]:
        """The part of Q^T c along Q's columns, and the squared norm of the rest of c."""
        size = len(self.tau)
        if size == 0 or c.shape[1] == 0:
            return c[:size], float(np.sum(c[size:] ** 2))
        out = apply_transpose(self.qr[:, :size], self.tau, c)
        return out[:size], float(np.sum(out[size:] ** 2))

    def times(self, c: Array) -> Array:
        """Q c along its first columns."""
        return apply(self.qr[:, : len(self.tau)], self.tau, _filled(c, len(self.qr)))


class Step(NamedTuple):
    """A panel: its columns, and the rows that have begun by its end and are not finished."""

    start: int
    stop: int
    end: int

    def flops(self, width: int) -> float:
        """Of its reflectors on all columns from it on."""
        return 4.0 * (self.end - self.start) * (self.stop - self.start) * (width - self.start)


@dataclass(frozen=True)
class Staircase:
    """The same panel by panel: I - V T V^T for each, V below the diagonal of `qr`.

    `order` sorts the front's rows by where they begin.
    """

    order: np.ndarray
    qr: Array
    steps: list[Step]
    T: list[Array]

    def transpose_times(self, c: Array) -> tuple[Array, float]:
        out, size = c[self.order], min(self.qr.shape)
        for step, T in zip(self.steps, self.T, strict=True):
            V = _reflectors(self.qr[step.start : step.end, step.start : step.stop])
            _turn(V, T, out[step.start : step.end])
        return out[:size], float(np.sum(out[size:] ** 2))

    def times(self, c: Array) -> Array:
        out = _filled(c, len(self.qr))
        for step, T in zip(reversed(self.steps), reversed(self.T), strict=True):
            V = _reflectors(self.qr[step.start : step.end, step.start : step.stop])
            own = out[step.start : step.end]
            own -= V @ (T @ (V.T @ own))
        found = np.empty_like(out)
        found[self.order] = out
        return found


def _filled(c: Array, rows: int) -> Array:
    """With zeros below."""
    return np.concatenate([c, np.zeros((rows - len(c), c.shape[1]))])


def _reflectors(qr: Array) -> Array:
    V = np.tril(qr, -1)
    np.fill_diagonal(V, 1.0)
    return V


def _turn(V: Array, T: Array, c: Array) -> None:
    """c <- (I - V T V^T)^T c."""
    c -= V @ (T.T @ (V.T @ c))


def _turn_on_all_cores(V: Array, T: Array, c: Array) -> None:
    """The same, the columns shared out: BLAS's own threads gain little on such narrow products."""
    edges = np.linspace(0, c.shape[1], CORES + 1).astype(int)
    pieces = [c[:, a:b] for a, b in pairwise(edges)]
    in_parallel(lambda own: _turn(V, T, own), pieces, 4.0 * V.size * c.shape[1])


@dataclass(frozen=True)
class FrontFactor:
    """Dense QR of one front.

    The first `kept` of the permuted own columns have the triangle `R` and the coupling `C` to the
    columns of the ancestors. `second` re-triangularises own columns that turned out dependent.
    """

    Q: Householder | Staircase
    order: np.ndarray
    R: Array
    C: Array
    second: tuple[Array, Array] | None

    @property
    def kept(self) -> int:
        return len(self.R)

    @property
    def left_over(self) -> int:
        """How many rows the parent gets."""
        return min(self.Q.qr.shape) - self.kept

    def reduce(self, c: Array) -> tuple[Array, Array, float]:
        """Q^T c: what its own columns fit, what the parent gets, and the squares of the rest."""
        c, rest = self.Q.transpose_times(c)
        if self.second is not None:
            r = len(self.second[1])
            c[:r] = apply_transpose(*self.second, c[:r])
        return c[: self.kept], c[self.kept :], rest

    def substitute(self, fitted: Array, beyond: Array) -> Array:
        """The kept own unknowns, given those of the ancestors."""
        rest = fitted - self.C @ beyond
        if not self.kept:
            return rest
        own, info = lapack.dtrtrs(self.R, rest)
        assert info == 0
        return own

    def substitute_back(self, own: Array) -> tuple[Array, Array]:
        """The transpose of `substitute`: to what was fitted, and to the ancestors' unknowns."""
        if not self.kept:
            return own, np.zeros((self.C.shape[1], own.shape[1]))
        fitted, info = lapack.dtrtrs(self.R, own, trans=1)
        assert info == 0
        return fitted, -self.C.T @ fitted

    def reduce_back(self, fitted: Array, handed: Array) -> Array:
        """The transpose of `reduce`: Q of what its own columns fit and what the parent got."""
        c = np.concatenate([fitted, handed])
        if self.second is not None:
            r = len(self.second[1])
            c[:r] = apply(*self.second, c[:r])
        return self.Q.times(c)


@dataclass(frozen=True)
class Leftover:
    """Rows that a front hands to its parent: full ones, and then a triangle.

    The triangle is a view into the front's factor, which keeps Householder vectors below it: a copy
    of all triangles of a level would be a quarter of all memory.
    """

    full: Array
    triangle: Array

    @property
    def rows(self) -> int:
        return len(self.full) + len(self.triangle)

    def copy_into(self, F: Array, columns: np.ndarray) -> None:
        F[: len(self.full), columns] = self.full
        F[len(self.full) : self.rows, columns] = np.triu(self.triangle)

    def begins(self, columns: np.ndarray) -> np.ndarray:
        """The first of the parent's columns that each row has, of those it is copied into."""
        if not len(columns):
            return np.zeros(self.rows, dtype=np.int64)
        return np.concatenate(
            [np.repeat(columns[:1], len(self.full)), columns[: len(self.triangle)]]
        )


PANEL, LEAST, WORTH = 128, 6, 0.7
"""Columns of a panel, panels from which on they are worth it, and the part of a plain QR's flops
that they must undercut: a quarter less time in three dimensions, none on smaller fronts."""


def factor(
    F: Array,
    own: int,
    tolerance: float,
    begins: np.ndarray | None = None,
    alone: bool = False,
) -> tuple[FrontFactor, Leftover]:
    """QR of a front, which is overwritten; its factor and the rows left over for the parent.

    `begins` has the first column of every row that may not be zero; `alone`, it has all cores.
    """
    m, n = F.shape
    size = min(m, n)
    if size == 0:
        return finish(Householder(F, np.zeros(0)), np.zeros((0, n)), own, tolerance)
    if begins is not None and n >= LEAST * PANEL:
        steps = _steps(begins, m, n)
        plain = sum(Step(start, stop, m).flops(n) for start, stop, _ in steps)
        if sum(step.flops(n) for step in steps) < WORTH * plain:
            Q = _by_panels(F, steps, np.argsort(begins, kind="stable"), alone)
            return finish(Q, Q.qr[:size], own, tolerance)
    qr, tau, _, info = lapack.dgeqrf(F, lwork=64 * n, overwrite_a=1)
    assert info == 0
    return finish(Householder(qr, tau), qr[:size], own, tolerance)


def _steps(begins: np.ndarray, m: int, n: int) -> list[Step]:
    found = []
    for start in range(0, min(m, n), PANEL):
        stop = min(start + PANEL, m, n)
        begun = int(np.count_nonzero(begins < stop))
        found.append(Step(start, stop, max(begun, stop)))
    return found


def _by_panels(F: Array, steps: list[Step], order: np.ndarray, alone: bool) -> Staircase:
    F = F.T[:, order].T
    turn, found = _turn_on_all_cores if alone else _turn, []
    for start, stop, end in steps:
        with single_threaded_blas():
            panel, T, info = lapack.dgeqrt(stop - start, F[start:end, start:stop])
        assert info == 0
        F[start:end, start:stop] = panel
        turn(_reflectors(panel), T, F[start:end, stop:])
        found.append(T)
    return Staircase(order, F, steps, found)


def finish(
    Q: Householder | Staircase, whole: Array, own: int, tolerance: float
) -> tuple[FrontFactor, Leftover]:
    """Split the triangle of a front (whatever lies below its diagonal) after its own columns."""
    n = whole.shape[1]
    r = min(len(whole), own)
    C = whole[:r, own:]
    below = whole[r:, own:]
    order = np.arange(own)
    nothing = np.zeros((0, n - own))
    # Below the diagonal of `whole` lie Householder vectors, which dtrtrs and dtrcon do not read.
    if r == own and _safely_regular(whole[:own, :own], tolerance):
        return FrontFactor(Q, order, whole[:own, :own], C, None), Leftover(nothing, below)
    if r == 0:
        return FrontFactor(Q, order, np.zeros((0, 0)), nothing, None), Leftover(nothing, below)
    R = np.asfortranarray(np.triu(whole[:r, :own]))
    qr2, pivots, tau2, _, info = lapack.dgeqp3(R, lwork=2 * own + (own + 1) * 32)
    assert info == 0
    diagonal = np.abs(np.diag(qr2))
    kept = int(np.count_nonzero(diagonal > max(tolerance, 0.0)))
    second = qr2[:, : len(tau2)], tau2
    C = apply_transpose(*second, np.asfortranarray(C))
    R = np.asfortranarray(np.triu(qr2[:kept, :kept]))
    return FrontFactor(Q, pivots - 1, R, C[:kept], second), Leftover(C[kept:], below)


def _safely_regular(R: Array, tolerance: float) -> bool:
    """Whether no column of the triangle can be within tolerance of dependence."""
    if len(R) == 0:
        return True
    if np.min(np.abs(np.diag(R))) <= tolerance:
        return False
    reciprocal, info = lapack.dtrcon(R)
    smallest = reciprocal * np.max(np.sum(np.abs(np.triu(R)), axis=0))
    return info == 0 and smallest > 10 * tolerance * len(R)


def apply(qr: Array, tau: Array, c: Array) -> Array:
    """Q c for a Q in Householder form."""
    return _turned("N", qr, tau, c)


def apply_transpose(qr: Array, tau: Array, c: Array) -> Array:
    """Q^T c for a Q in Householder form."""
    return _turned("T", qr, tau, c)


def _turned(how: str, qr: Array, tau: Array, c: Array) -> Array:
    if c.shape[1] == 0 or not len(tau):
        return c
    out, _, info = lapack.dormqr("L", how, qr, tau, np.asfortranarray(c), 64 * max(c.shape))
    assert info == 0
    return out
