"""Condition numbers: by singular values when small, by QR and Lanczos when large."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import LinearOperator, svds

from tessella.domain import Array
from tessella.linalg.block_matrix import BlockMatrix
from tessella.memory import require

DENSE_COLUMNS = 1_500
"""Up to this many columns all singular values are computed."""


@dataclass(frozen=True)
class Condition:
    """A 2-norm condition number and how it was found. Above 1e15 it only says "singular"."""

    value: float
    method: str


def condition_number(A: BlockMatrix) -> Condition:
    """kappa(A) = sigma_max / sigma_min of a matrix with at least as many rows as columns.

    Up to 1,500 columns from the singular values of the dense matrix. Above, A = Q R by a dense QR
    and the extreme singular values of R by Lanczos iterations with R and R^-1 (relative accuracy
    1e-3, as long as kappa stays below 1e15); no Gramian is formed in either.
    """
    rows, columns = A.shape
    if columns == 0:
        raise ValueError("the matrix has no columns: every feature was filtered out; lower sigma")
    require(
        3 * 8 * rows * columns,
        f"the condition number of a {rows:,} x {columns:,} matrix",
        "ask for it on a smaller problem",
    )
    if columns <= DENSE_COLUMNS:
        s = singular_values(A)
        return Condition(float(s[0] / s[-1]) if s[-1] > 0 else np.inf, "singular values")
    R = _triangular_factor(A.to_dense())
    if np.min(np.abs(np.diag(R))) == 0:
        return Condition(np.inf, "QR")
    largest = _largest(LinearOperator(R.shape, matvec=lambda x: R @ x, rmatvec=lambda x: R.T @ x))
    inverse = LinearOperator(
        R.shape,
        matvec=lambda x: scipy.linalg.solve_triangular(R, x, check_finite=False),
        rmatvec=lambda x: scipy.linalg.solve_triangular(R, x, trans=1, check_finite=False),
    )
    return Condition(largest * _largest(inverse), "QR and Lanczos, relative accuracy 1e-3")


def singular_values(A: BlockMatrix) -> Array:
    """All singular values, largest first."""
    dense = A.to_dense()
    if dense.shape[0] > 1.2 * dense.shape[1]:
        dense = _triangular_factor(dense)
    return scipy.linalg.svdvals(dense, overwrite_a=True)


def _triangular_factor(dense: Array) -> Array:
    (R,) = scipy.linalg.qr(dense, mode="r", overwrite_a=True, check_finite=False)
    return np.asfortranarray(R[: R.shape[1]])


def _largest(operator: LinearOperator) -> float:
    start = np.random.default_rng(0).standard_normal(min(operator.shape))
    return float(
        svds(operator, k=1, tol=1e-4, v0=start, return_singular_vectors=False, solver="arpack")[0]
    )
