"""Elimination of columns that only their own block's rows touch.

A block has columns a of its own and shares the unknowns t with others, and its rows ask

    A a       = h       (the first rows),
    E a - t   = 0       (one row for each shared unknown)

in the least-squares sense. The own columns are filtered by the rank-revealing QR of all these rows
and eliminated; what is left over is a triangle on t alone, with a right-hand side. The triangles of
all blocks make up a least-squares problem for the shared unknowns with the same minimiser, and a
follows from t by one back-substitution. Orthogonal transformations only; no Gramian.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from tessella.domain import Array
from tessella.linalg.rrqr import RRQR

Factors = tuple[Array, Array]
"""LAPACK's QR: reflectors below the triangle, and their factors tau."""


class Turns(NamedTuple):
    """The orthogonal transformations of one elimination, in their order.

    `free` and `own` are the QR factors of the rows without shared unknowns and of the own columns,
    `filter` is the orthonormal Q of the filter where it was needed (see `condense`), `rest` are the
    QR factors of what is left over.
    """

    free: Factors
    own: Factors
    filter: Array | None
    rest: Factors

    def apply(self, h: Array, shared: int) -> tuple[Array, Array, Array]:
        """z, g and the squared residual lost, for right-hand sides h of the first rows."""
        top, lost = _split(self.free, h)
        zero = np.zeros((shared, h.shape[1]))
        turned = _transpose_times(*self.own, np.asfortranarray(np.concatenate([top, zero])))
        z, rest = _filtered(self.filter, turned, self.own[0].shape[1])
        g, more = _split(self.rest, rest)
        return z, g, lost + more


class Condensed(NamedTuple):
    """One block after elimination, for M right-hand sides.

    a[kept] = R^-1 (z - C t), while t is asked to satisfy triangle t = g; `lost` is the squared
    residual that no t can remove. `turns` are there if they were asked for.
    """

    kept: np.ndarray
    R: Array
    C: Array
    z: Array
    triangle: Array
    g: Array
    lost: Array
    turns: Turns | None = None

    def renewed(self, h: Array) -> Condensed:
        """The same block with other right-hand sides: no factorisation, only its turns."""
        assert self.turns is not None
        z, g, lost = self.turns.apply(h, self.C.shape[1])
        return self._replace(z=z, g=g, lost=lost)


def condense(
    A: Array,
    E: Array,
    h: Array,
    rule: RRQR,
    scales: Array | None = None,
    keep: bool = False,
) -> Condensed:
    """Eliminate the own columns of one block; A is (m, n), E is (c, n), h is (m, M).

    `scales` (n,) are the units in which the filter compares the own columns.

    The rows without shared unknowns are compressed to a triangle first, so that the shared ones,
    which fill in, meet few rows. `keep` holds on to the transformations, for `renewed`; they take
    about as much memory as A.
    """
    n, c = A.shape[1], E.shape[0]
    free = _qr(A)
    R_A = np.triu(free[0][: len(free[1])])
    k = len(R_A)
    own = _qr(np.concatenate([R_A, E]))
    minus = np.zeros((k + c, c), order="F")
    minus[k + np.arange(c), np.arange(c)] = -1.0
    minus = _transpose_times(*own, minus)
    R, kept, Q = np.triu(own[0][:n]), np.arange(n), None
    if not (len(R) == n and _keeps_all(R if scales is None else R * scales, rule.sigma)):
        factor = rule.factor(R, scales)
        kept, R, Q = factor.kept, factor.R, factor.Q
    C, left = _filtered(Q, minus, n)
    rest = _qr(left)
    turns = Turns(free, own, Q, rest)
    z, g, lost = turns.apply(h, c)
    triangle = np.triu(rest[0][: len(rest[1])])
    return Condensed(kept, R, C, z, triangle, g, lost, turns if keep else None)


def _filtered(Q: Array | None, turned: Array, n: int) -> tuple[Array, Array]:
    """What the kept columns explain of turned right-hand sides, and what is left over.

    Without a filter the first n rows belong to the columns; with one the kept columns explain
    Q Q^T of them.
    """
    top, rest = turned[:n], turned[n:]
    if Q is None:
        return top, rest
    z = Q.T @ top
    return z, np.concatenate([top - Q @ z, rest]) if Q.shape[1] < len(top) else rest


def _keeps_all(R: Array, sigma: float) -> bool:
    """Whether the filter would surely keep every column, so that pivoting can be left out.

    The pivoted diagonal is nowhere below the smallest singular value, and begins with the longest
    column; LAPACK's estimate of the former is a bound up to a small factor.
    """
    reciprocal, info = lapack.dtrcon(R)
    smallest = reciprocal * np.max(np.sum(np.abs(R), axis=0)) / math.sqrt(max(len(R), 1))
    return info == 0 and smallest > 10 * sigma * float(np.max(np.linalg.norm(R, axis=0)))


def condensation_flops(m: int, n: int, c: int) -> float:
    """Floating-point operations of `condense` for m rows, n own columns and c shared unknowns."""
    first = _qr_flops(m, n)
    second = _qr_flops(n + c, n) + 4.0 * (n + c) * n * c - 2.0 * n * n * c
    return first + second + 4 / 3 * n**3 + 2.0 * n * n * c + _qr_flops(c, c)


def _qr_flops(m: int, n: int) -> float:
    k = min(m, n)
    return 4.0 * m * n * k - 2.0 * (m + n) * k**2 + 4 / 3 * k**3


def _split(factors: Factors, h: Array) -> tuple[Array, Array]:
    """Q^T h, and the squared norm of the part of h outside the range of Q."""
    turned = _transpose_times(*factors, np.asfortranarray(h))
    k = len(factors[1])
    return turned[:k], np.sum(turned[k:] ** 2, axis=0)


def _qr(A: Array) -> Factors:
    if min(A.shape) == 0:
        return np.asarray(A), np.zeros(0)
    qr, tau, _, info = lapack.dgeqrf(A, lwork=64 * A.shape[1])
    assert info == 0
    return qr, tau


def _transpose_times(qr: Array, tau: Array, c: Array) -> Array:
    if not len(tau) or c.shape[1] == 0:
        return c
    out, _, info = lapack.dormqr("L", "T", qr[:, : len(tau)], tau, c, 64 * max(c.shape))
    assert info == 0
    return out
