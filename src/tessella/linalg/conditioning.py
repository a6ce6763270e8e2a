"""Condition numbers and singular spectra: exact when small, estimated from products when large.

Above 1e15 (1e15 for the Gramian as well, so 3e7 for the matrix behind it) a condition number is
rounding: it only says "singular", and differs from one computer to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse

from tessella.linalg.block_kernels import largest_entries
from tessella.linalg.block_matrix import BlockMatrix
from tessella.linalg.iterative.gramian import gramian, pattern
from tessella.linalg.iterative.iteration import checked
from tessella.linalg.iterative.normal_equations import NormalEquations
from tessella.linalg.iterative.schwarz import SchwarzCG, SchwarzSystem
from tessella.machine.arrays import Array, on_device
from tessella.machine.memory import available_bytes, gib, require

DENSE_COLUMNS = 1_500
"""Up to this many columns all singular values are computed."""

SQUARE_COLUMNS = 6_000
"""Up to this many columns the Gramian and its preconditioned form are made dense."""

SQUARE_COPIES = 6
"""Dense matrices of that order held at one time."""

QR_WORK = 1e13
"""Dense QR up to this many rows x columns^2: minutes on two cores."""

Product = Callable[[Array], Array]


@dataclass(frozen=True)
class Condition:
    """A 2-norm condition number, how it was found and how accurate that is."""

    value: float
    method: str


_SINGULAR = Condition(np.inf, "a column of zeros")


def condition_number(A: BlockMatrix) -> Condition:
    """kappa(A), the largest singular value over the smallest; no Gramian is formed.

    Up to 1,500 columns: from all singular values of the dense matrix. Above: A = Q R by a dense QR
    and the extreme singular values of R by Lanczos iterations with R and R^-1 (relative accuracy
    1e-3 while kappa stays below 1e15). Where that would not fit into memory or take many minutes:
    Golub and Kahan's bidiagonalisation, which gives a lower bound; `method` says how close it is.
    """
    rows, columns = _shape(A)
    if _has_zero_column(A):
        return _SINGULAR
    dense_fits = 3 * 8 * rows * columns <= available_bytes()
    if columns <= DENSE_COLUMNS and dense_fits:
        return Condition(_ratio(singular_values(A)), "singular values")
    if dense_fits and rows * columns**2 <= QR_WORK:
        return _by_triangular_factor(_triangular_factor(_tall(A)))
    return golub_kahan(*_products(A), A.shape).condition


def gramian_condition(A: BlockMatrix) -> Condition:
    """kappa(A^T A): of the Gramian formed in double precision when small, else kappa(A)^2.

    Formed, it stays near 1e19 however large kappa(A)^2 is; the paper's tables show such values.
    """
    _, columns = _shape(A)
    if _has_zero_column(A):
        return _SINGULAR
    if columns <= DENSE_COLUMNS:
        return Condition(_ratio(gramian_spectrum(A)), "eigenvalues of the formed Gramian")
    if _square_fits(columns):
        return _by_elimination(gramian(A).to_dense(), "of the formed Gramian")
    root = condition_number(A)
    return Condition(root.value**2, f"square of kappa(A), which is by {root.method}")


def schwarz_condition(A: BlockMatrix, solver: SchwarzCG | None = None) -> Condition:
    """kappa(A_AS^-1 A^T A) in the 2-norm, as the paper reports it, for this preconditioner.

    The product is not symmetric, so this exceeds the ratio of its eigenvalues, which CG sees, by
    decades. From all singular values, from a dense LU, or Golub and Kahan's lower bound, by size.
    """
    _, columns = _shape(A)
    system = (solver or SchwarzCG()).init(A)
    if system.directions is None and _has_zero_column(A):
        return _SINGULAR
    if columns <= DENSE_COLUMNS:
        return Condition(_ratio(_svdvals(_dense_product(system))), "singular values")
    if _square_fits(columns):
        return _by_elimination(_dense_product(system), "of the dense product")
    owned = _owned(system)

    def product(v: Array) -> Array:
        return _precondition(system, _normal(system, _spread(v, owned, columns)))[owned]

    def transposed(u: Array) -> Array:
        return _normal(system, _precondition(system, _spread(u, owned, columns)))[owned]

    return golub_kahan(product, transposed, (len(owned), len(owned))).condition


def singular_values(A: BlockMatrix) -> Array:
    """All singular values, largest first; refused if the dense matrix would not fit."""
    rows, columns = _shape(A)
    require(
        3 * 8 * rows * columns,
        f"the singular values of a {rows:,} x {columns:,} matrix",
        "ask for condition_number, which can do with products, or for a smaller problem",
    )
    dense = _tall(A)
    return _svdvals(_triangular_factor(dense) if len(dense) > 1.2 * dense.shape[1] else dense)


def gramian_spectrum(A: BlockMatrix) -> Array:
    """Singular values of A^T A as formed in double precision, largest first."""
    _, columns = _shape(A)
    _require_square(columns)
    values = scipy.linalg.eigvalsh(gramian(A).to_dense(), overwrite_a=True, check_finite=False)
    return np.sort(np.abs(values))[::-1]


def schwarz_spectrum(A: BlockMatrix, solver: SchwarzCG | None = None) -> Array:
    """Singular values of A_AS^-1 A^T A, largest first."""
    _, columns = _shape(A)
    _require_square(columns)
    return _svdvals(_dense_product((solver or SchwarzCG()).init(A)))


@dataclass(frozen=True)
class Bidiagonalisation:
    """Extreme Ritz values after some steps of Golub and Kahan's process.

    largest <= sigma_max and smallest >= sigma_min always. `accuracy` bounds the distance from
    `smallest` to a singular value, relative to `smallest`; it is 0 when every singular value of the
    matrix was found.
    """

    largest: float
    smallest: float
    steps: int
    accuracy: float
    complete: bool

    @property
    def condition(self) -> Condition:
        value = self.largest / self.smallest if self.smallest > 0 else np.inf
        if self.complete:
            return Condition(value, f"Golub-Kahan, complete after {self.steps:,} steps")
        far = f"converged to {self.accuracy:.1e}" if self.accuracy < 1 else "not converged at all"
        return Condition(
            value,
            f"Golub-Kahan, {self.steps:,} steps: lower bound; the smallest Ritz value had {far}",
        )


def golub_kahan(
    product: Product,
    transposed: Product,
    shape: tuple[int, int],
    tolerance: float = 1e-3,
    max_steps: int = 1_000,
) -> Bidiagonalisation:
    """Singular values from products alone: A V = U B with upper bidiagonal B.

    Both bases are fully reorthogonalised, so Ritz values appear once and kappa is reliable up to
    1e15. Runs until the smallest Ritz value is within `tolerance` of a singular value, or for
    `max_steps` steps, fewer if the bases would take more than half of the free memory. The
    smallest singular value converges last: like LSQR itself, after about as many steps.
    """
    rows, columns = shape
    if rows < columns:
        rows, columns, product, transposed = columns, rows, transposed, product
    each = 8 * (rows + columns)
    limit = int(min(columns, max_steps, available_bytes() // (2 * each)))
    if limit < 1:
        raise MemoryError(f"Golub-Kahan needs {gib(4 * each)} for its first vectors: free memory")
    random = np.random.default_rng(0)
    U, V = np.zeros((limit, rows)), np.zeros((limit + 1, columns))
    alpha, beta = np.zeros(limit), np.zeros(limit)
    V[0] = _orthonormal(random.standard_normal(columns), V[:0])[0]
    look, scale = min(8, limit), 0.0
    for k in range(limit):
        U[k], alpha[k] = _orthonormal(product(V[k]), U[:k])
        scale = max(scale, alpha[k])
        if alpha[k] <= _ROUNDING * scale:
            return Bidiagonalisation(float(_svd(alpha, beta, k + 1)[1][0]), 0.0, k + 1, 0.0, True)
        V[k + 1], beta[k] = _orthonormal(transposed(U[k]), V[: k + 1])
        if beta[k] <= _ROUNDING * scale:
            beta[k] = 0.0
            if k + 1 < columns:
                V[k + 1] = _orthonormal(random.standard_normal(columns), V[: k + 1])[0]
        if k + 1 in (look, limit):
            left, s = _svd(alpha, beta, k + 1)
            accuracy = float(beta[k] * abs(left[-1, -1]) / s[-1])
            done = k + 1 == columns
            if done or k + 1 == limit or 0 < accuracy <= tolerance:
                accuracy = 0.0 if done else accuracy
                return Bidiagonalisation(float(s[0]), float(s[-1]), k + 1, accuracy, done)
            look = min(limit, k + 1 + max(8, (k + 1) // 4))
    raise AssertionError("the last step returns")


_ROUNDING = float(np.finfo(np.float64).eps)


def _orthonormal(x: Array, basis: Array) -> tuple[Array, float]:
    """x made orthogonal to the rows of `basis` (twice) and of length 1, and the length it had."""
    for _ in range(2):
        x = x - basis.T @ (basis @ x)
    size = float(np.linalg.norm(x))
    return x / (size or 1.0), size


def _svd(alpha: Array, beta: Array, k: int) -> tuple[Array, Array]:
    """Left singular vectors and singular values of the k x k bidiagonal matrix."""
    left, s, _ = np.linalg.svd(np.diag(alpha[:k]) + np.diag(beta[: k - 1], 1))
    return left, s


def _products(A: BlockMatrix) -> tuple[Product, Product]:
    return (lambda v: np.asarray(A.matvec(v))), (lambda u: np.asarray(A.rmatvec(u)))


def _normal(system: NormalEquations, v: Array) -> Array:
    """A^T A v."""
    if system.gramian is not None:
        return np.asarray(system.gramian.rmatvec(v))
    return np.asarray(system.A.rmatvec(system.A.matvec(v)))


def _precondition(system: NormalEquations, v: Array) -> Array:
    return np.asarray(system.precondition(on_device(v)))


def _owned(system: SchwarzSystem) -> np.ndarray:
    """The unknowns: all columns, or those that PCA left."""
    if system.directions is None:
        return np.arange(system.shape[1])
    return np.sort(np.concatenate(pattern(system.A).columns))


def _spread(v: Array, where: np.ndarray, size: int) -> Array:
    out = np.zeros(size)
    out[where] = v
    return out


def _dense_product(system: SchwarzSystem) -> Array:
    """A_AS^-1 A^T A of the unknowns."""
    assert system.preconditioner is not None
    G = system.gramian or gramian(system.A)
    pick = np.ix_(*2 * [_owned(system)])
    return system.preconditioner.to_dense()[pick] @ G.to_dense()[pick]


def _shape(A: BlockMatrix) -> tuple[int, int]:
    if A.shape[1] == 0:
        raise ValueError("the matrix has no columns: every feature was filtered out; lower sigma")
    return checked(A).shape


def _has_zero_column(A: BlockMatrix) -> bool:
    largest = np.zeros(A.shape[1])
    for g in A.groups:
        np.maximum.at(largest, np.asarray(g.columns), largest_entries(g.values, 2))
    return A.shape[0] >= A.shape[1] and bool(np.any(largest == 0))


def _square_fits(columns: int) -> bool:
    return columns <= SQUARE_COLUMNS and SQUARE_COPIES * 8 * columns**2 <= available_bytes()


def _require_square(columns: int) -> None:
    require(
        SQUARE_COPIES * 8 * columns**2,
        f"the spectrum of a dense Gramian of order {columns:,}",
        "ask for its condition number, which can do with products, or for a smaller problem",
    )


def _svdvals(dense: Array) -> Array:
    return scipy.linalg.svdvals(dense, overwrite_a=True, check_finite=False)


def _ratio(s: Array) -> float:
    return float(s[0] / s[-1]) if s[-1] > 0 else np.inf


def _tall(A: BlockMatrix) -> Array:
    dense = A.to_dense()
    return dense if dense.shape[0] >= dense.shape[1] else dense.T


def _triangular_factor(dense: Array) -> Array:
    (R,) = scipy.linalg.qr(dense, mode="r", overwrite_a=True, check_finite=False)
    return np.asfortranarray(R[: R.shape[1]])


def _by_triangular_factor(R: Array) -> Condition:
    if np.min(np.abs(np.diag(R))) == 0:
        return Condition(np.inf, "QR: a zero on the diagonal of R")

    def inverse(x: Array, trans: int) -> Array:
        return scipy.linalg.solve_triangular(R, x, trans=trans, check_finite=False)

    value = _largest(R.shape, lambda x: R @ x, lambda x: R.T @ x) * _largest(
        R.shape, lambda x: inverse(x, 0), lambda x: inverse(x, 1)
    )
    return Condition(value, "QR and Lanczos, relative accuracy 1e-3")


def _by_elimination(X: Array, what: str) -> Condition:
    """kappa of a square matrix from X and the solves of its LU factorisation."""
    largest = _largest(X.shape, lambda x: X @ x, lambda x: X.T @ x)
    lu, pivots, info = scipy.linalg.lapack.dgetrf(X, overwrite_a=True)
    if info > 0:
        return Condition(np.inf, f"LU {what}: a zero pivot")

    def inverse(x: Array, trans: int) -> Array:
        return scipy.linalg.lu_solve((lu, pivots), x, trans=trans, check_finite=False)

    value = largest * _largest(X.shape, lambda x: inverse(x, 0), lambda x: inverse(x, 1))
    return Condition(value, f"LU and Lanczos {what}, relative accuracy 1e-3 below 1e15")


def _largest(shape: tuple[int, int], product: Product, transposed: Product) -> float:
    """The largest singular value, to 1e-4."""
    operator = scipy.sparse.linalg.LinearOperator(
        shape, matvec=product, rmatvec=transposed, dtype=np.float64
    )
    start = np.random.default_rng(0).standard_normal(min(shape))
    return float(
        scipy.sparse.linalg.svds(
            operator, k=1, tol=1e-4, v0=start, return_singular_vectors=False, solver="arpack"
        )[0]
    )
