"""The last join of all: nothing is left outside but what nobody gives.

Sums over all cells (integrals, measurements of what walls leave open) are further rows of T that
nobody takes: they add up, and the whole solves for them in the least-squares sense together with
its last exchange and with what comes in at ports that were left open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from tessella.cells.maps.maps import Maps
from tessella.cells.order.stage import Stage
from tessella.machine.arrays import Array

SINGULAR = 1e-11
"""A last exchange whose reciprocal condition number is below this has no unique solution."""


@dataclass(frozen=True)
class Whole:
    """The last exchange, with the sums and with what comes in at ports that were left open.

    `rows` are functions of (in_A3, in_1, in_2); square and regular they are solved as they are,
    otherwise in the least-squares sense. A33, A31, B33 and E_b are those of its two parts.
    """

    rows: Array
    weights: Array
    factors: tuple[Array, np.ndarray] | None
    condition: float
    A33: Array
    A31: Array
    B33: Array
    E_b: Array

    @property
    def undetermined(self) -> bool:
        """Whether nothing fixes what the last exchange leaves open."""
        return self.condition > 1 / SINGULAR

    def solve(self, c_a: Array, c_b: Array, sums: Array) -> tuple[Array, Array]:
        """What comes in at the closed ports, A's and then B's, and what comes in outside, if A and
        B give c_a and c_b and the sums of all cells are off by `sums`; of several right-hand sides
        one below the other."""
        right = c_a @ self.B33.T + c_b
        n = right.shape[-1]
        x = self._solved(right, sums - c_a @ self.E_b.T)
        a3, outside = x[..., :n], x[..., n:]
        b3 = c_a + a3 @ self.A33.T + outside[..., : self.A31.shape[1]] @ self.A31.T
        return np.concatenate([a3, b3], axis=-1), outside

    def transposed(self, x: Array, outside: Array) -> tuple[Array, Array, Array]:
        """The transpose of `solve`: from what came in at the closed ports and outside to c_a, c_b
        and the sums."""
        m, n1 = self.B33.shape[0], self.A31.shape[1]
        a3, b3 = x[..., :m], x[..., m:]
        outside = outside.copy()
        outside[..., :n1] += b3 @ self.A31
        right, sums = self._solved_back(np.concatenate([a3 + b3 @ self.A33, outside], axis=-1))
        return b3 + right @ self.B33 - sums @ self.E_b, right, sums

    def _solved_back(self, x: Array) -> tuple[Array, Array]:
        m = self.B33.shape[0]
        if self.factors is not None:
            found = np.asarray(lapack.dgetrs(*self.factors, x.T, trans=1)[0]).T
        elif not self.rows.size:
            found = np.zeros((*x.shape[:-1], len(self.rows)))
        else:
            weight = np.concatenate([np.ones(m), self.weights])
            rows = weight[:, None] * self.rows
            found = weight * np.asarray(scipy.linalg.lstsq(rows.T, x.T, cond=1e-13)[0]).T
        return found[..., :m], found[..., m:]

    def _solved(self, right: Array, sums: Array) -> Array:
        given = np.concatenate([right, sums], axis=-1)
        if self.factors is not None:
            return np.asarray(lapack.dgetrs(*self.factors, given.T)[0]).T
        if not self.rows.size:
            return np.zeros((*given.shape[:-1], self.rows.shape[1]))
        weight = np.concatenate([np.ones(right.shape[-1]), self.weights])
        rows = weight[:, None] * self.rows
        return np.asarray(scipy.linalg.lstsq(rows, (weight * given).T, cond=1e-13)[0]).T


class Halves(NamedTuple):
    """What the last exchange needs of the maps of both halves."""

    A33: Array
    A31: Array
    B33: Array
    B32: Array
    E_a: Array
    E_1: Array
    E_b: Array
    E_2: Array

    @staticmethod
    def of(A: Array, B: Array, stage: Stage) -> Halves:
        """Of both maps with their sums below, columns of closed ports first."""
        at = stage.numbers
        assert stage.children is not None
        (m, n), (a, b) = (len(at.a3_in), len(at.b3_in)), (sum(own.given) for own in stage.children)
        exchange = A[at.a3_out, :m], A[at.a3_out, m:], B[at.b3_out, :n], B[at.b3_out, n:]
        return Halves(*exchange, A[a:, :m], A[a:, m:], B[b:, :n], B[b:, n:])

    @staticmethod
    def of_maps(left: Maps, right: Maps, pairs: np.ndarray, stage: Stage) -> Halves:
        at, (a, b) = stage.numbers, pairs[0].tolist()
        A, B = (np.concatenate([x.T[i], x.E[i]]) for x, i in ((left, a), (right, b)))
        columns = np.concatenate([at.a3_in, at.a1_in]), np.concatenate([at.b3_in, at.b2_in])
        return Halves.of(A[:, columns[0]], B[:, columns[1]], stage)


def join_last(own: Halves, product: Array, weights: Array) -> Whole:
    """The rows of the last exchange and of the sums, as functions of (in_A3, in_1, in_2); `product`
    is B33 A33."""
    exchange = [np.eye(len(product)) - product, -own.B33 @ own.A31, -own.B32]
    sums = [own.E_a + own.E_b @ own.A33, own.E_1 + own.E_b @ own.A31, own.E_2]
    rows = np.block([exchange, sums])
    return Whole(rows, weights, *_factored(rows), own.A33, own.A31, own.B33, own.E_b)


def _factored(rows: Array) -> tuple[tuple[Array, np.ndarray] | None, float]:
    """LU of square, regular rows, and their condition."""
    n = len(rows)
    if rows.shape != (n, n) or n == 0:
        return None, 1.0
    lu, pivots, info = lapack.dgetrf(rows)
    size = float(np.max(np.sum(np.abs(rows), axis=0)))
    share = lapack.dgecon(lu, size)[0] if info == 0 and np.isfinite(size) else 0.0
    condition = 1 / share if share > 0 else np.inf
    return ((lu, pivots) if share > SINGULAR else None), condition
