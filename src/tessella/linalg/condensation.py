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


class Condensed(NamedTuple):
    """One block after elimination, for M right-hand sides.

    a[kept] = R^-1 (z - C t), while t is asked to satisfy triangle t = g; `lost` is the squared
    residual that no t can remove.
    """

    kept: np.ndarray
    R: Array
    C: Array
    z: Array
    triangle: Array
    g: Array
    lost: Array


def condense(A: Array, E: Array, h: Array, rule: RRQR, scales: Array | None = None) -> Condensed:
    """Eliminate the own columns of one block; A is (m, n), E is (c, n), h is (m, M).

    `scales` (n,) are the units in which the filter compares the own columns.

    The rows without shared unknowns are compressed to a triangle first, so that the shared ones,
    which fill in, meet few rows.
    """
    n, c, M = A.shape[1], E.shape[0], h.shape[1]
    R_A, h_A, lost = _triangle(A, h)
    k = len(R_A)
    reflectors, tau = _qr(np.concatenate([R_A, E]))
    rhs = np.zeros((k + c, c + M), order="F")
    rhs[k + np.arange(c), np.arange(c)] = -1.0
    rhs[:k, c:] = h_A
    rhs = _transpose_times(reflectors, tau, rhs)
    own = min(n, k + c)
    R, top, rest = np.triu(reflectors[:own]), rhs[:own], rhs[own:]
    kept, z = np.arange(n), top
    if not (own == n and _keeps_all(R if scales is None else R * scales, rule.sigma)):
        factor = rule.factor(R, scales)
        kept, R, z = factor.kept, factor.R, factor.Q.T @ top
        if len(kept) < own:
            rest = np.concatenate([top - factor.Q @ z, rest])
    triangle, g, more = _triangle(rest[:, :c], rest[:, c:])
    return Condensed(kept, R, z[:, :c], z[:, c:], triangle, g, lost + more)


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


def _triangle(A: Array, h: Array) -> tuple[Array, Array, Array]:
    """R, Q^T h, and the squared norm of the part of h outside the range of Q."""
    k = min(A.shape)
    if k == 0:
        return np.zeros((0, A.shape[1])), np.zeros((0, h.shape[1])), np.sum(h**2, axis=0)
    qr, tau = _qr(A)
    turned = _transpose_times(qr, tau, np.asfortranarray(h))
    return np.triu(qr[:k]), turned[:k], np.sum(turned[k:] ** 2, axis=0)


def _qr(A: Array) -> tuple[Array, Array]:
    qr, tau, _, info = lapack.dgeqrf(A, lwork=64 * A.shape[1])
    assert info == 0
    return qr, tau


def _transpose_times(qr: Array, tau: Array, c: Array) -> Array:
    if not len(tau) or c.shape[1] == 0:
        return c
    out, _, info = lapack.dormqr("L", "T", qr[:, : len(tau)], tau, c, 64 * max(c.shape))
    assert info == 0
    return out
