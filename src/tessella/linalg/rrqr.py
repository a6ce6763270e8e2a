"""Local rank-revealing QR: which columns of each block to keep, and its triangular factor.

The paper's Algorithm 1: M_j Pi_j = Q_j [R_j *; 0 T_j], keep the columns of R_j.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.linalg import lapack, solve_triangular

from tessella.linalg.block_matrix import BlockMatrix, Group
from tessella.linalg.preconditioners import (
    Preconditioner,
    TriangularBlocks,
    TriangularGroup,
    Unpreconditioned,
)
from tessella.machine.arguments import check_flag, is_number
from tessella.machine.arrays import Array, on_device
from tessella.machine.printing import as_written
from tessella.machine.threads import chunks, in_parallel


class Factor(NamedTuple):
    """values[:, kept] = Q R, with orthonormal Q and upper triangular R."""

    Q: Array
    R: Array
    kept: np.ndarray


@dataclass(frozen=True, repr=False)
class Filtered:
    """The filtered system: Q = M_hat S^-1 has M's pattern and orthonormal columns per block.

    The columns keep their numbers in M; those not in `kept` are zero in Q.
    """

    Q: BlockMatrix
    preconditioner: Preconditioner
    kept: np.ndarray

    def __repr__(self) -> str:
        return f"Filtered: {len(self.kept):,} columns kept of {self.Q!r}"


@dataclass(frozen=True)
class Unfiltered:
    """Keep every feature and solve for the coefficients themselves.

    >>> import tessella as ts
    >>> problem = ts.Problem(ts.Box(x=(0, 1)), ts.Equation(ts.D(x=2), 2.0), [ts.Dirichlet(0.0)])
    >>> plain = ts.solve(problem, subdomains=2, features=10, filter=ts.Unfiltered())
    >>> plain.report.columns_kept, plain.report.columns
    (22, 22)
    """

    prefix: ClassVar[str] = ""

    def apply(self, M: BlockMatrix, scales: Array | None = None) -> Filtered:
        n = M.shape[1]
        return Filtered(M, Unpreconditioned(), np.arange(n))


@dataclass(frozen=True, repr=False)
class RRQR:
    """Filter every block by column-pivoted QR, keeping |R_ii| > sigma |R_11| (the paper's rule).

    sigma   0 keeps every column that is not exactly dependent; 1e-8 is the paper's baseline.
            Smaller keeps more features (accuracy), larger drops more (conditioning, speed).
    strong  swap columns until the factorisation is strong in the sense of Gu and Eisenstat (1996):
            |R_11^-1 R_12| <= f entrywise, so the kept columns span the block nearly as well as the
            singular vectors would; rarely different from plain pivoting, and slower.
    patch   filter and factor patches of `patch` blocks along every axis as one, level by level. The
            paper's preconditioner (1) ignores the coupling of overlapping neighbours; inside a
            patch it is resolved exactly, at the price of larger blocks.

    >>> import tessella as ts
    >>> import numpy as np
    >>> block = np.array([[2, 1, 0], [0, 1e-12, 0], [0, 0, 3.0]])
    >>> ts.RRQR(1e-8).factor(block).kept.tolist()  # the second is half the first
    [2, 0]
    """

    prefix: ClassVar[str] = "rrqr-"

    sigma: float = 1e-8
    strong: bool = False
    f: float = 2.0
    patch: int = 1

    def __post_init__(self) -> None:
        if not (isinstance(self.sigma, Real) and 0 <= self.sigma < 1):
            raise ValueError(
                f"sigma must lie in [0, 1), got {self.sigma!r}: it is a threshold relative to the "
                f"largest column of a block; 0 keeps everything, 1e-8 is the paper's choice"
            )
        check_flag(self.strong, "strong")
        if not (isinstance(self.f, Real) and self.f >= 1):
            raise ValueError(f"f must be at least 1, got {self.f!r} (2 is usual)")
        if not (is_number(self.patch) and self.patch == int(self.patch) and self.patch >= 1):
            raise ValueError(f"patch must be a whole number >= 1, got {self.patch!r}")

    def __repr__(self) -> str:
        return as_written(self)

    def apply(self, M: BlockMatrix, scales: Array | None = None) -> Filtered:
        """Filter all blocks; `scales` (n,) says in which units the columns are compared."""
        if self.patch > 1:
            M = M.merge(_patches(M, self.patch))
        factored = [_factor_group(self, g, scales) for g in M.groups]
        kept = np.sort(
            np.concatenate(
                [
                    np.asarray(g.columns)[b, own]
                    for g, (_, _, local) in zip(M.groups, factored, strict=True)
                    for b, own in enumerate(local)
                ]
            )
        )
        made = [_filtered_group(g, *f) for g, f in zip(M.groups, factored, strict=True)]
        return Filtered(
            BlockMatrix(tuple(q for q, _ in made), M.shape),
            TriangularBlocks(tuple(t for _, t in made), M.shape[1]),
            kept,
        )

    def factor(self, block: Array, scales: Array | None = None) -> Factor:
        """Rank-revealing QR of one (m, C) block.

        With `scales` columns are judged as if multiplied by them; the factors are the block's own.
        """
        m, C = block.shape
        if m == 0 or C == 0:
            return Factor(np.zeros((m, 0)), np.zeros((0, 0)), np.zeros(0, dtype=int))
        if scales is not None:
            Q, R, kept = self.factor(block * scales)
            return Factor(Q, R / scales[kept], kept)
        qr, pivots, tau = _pivoted(block)
        order = pivots - 1
        R = np.triu(qr[: min(m, C)])
        rank = self.rank(R)
        if self.strong and 0 < rank < C:
            order = order[strong_order(R, rank, self.f)]
            qr, tau = _plain(block[:, order[:rank]])
            R = np.triu(qr[:rank])
        Q = _orthonormal(qr[:, :rank], tau[:rank])
        return Factor(Q, R[:rank, :rank], order[:rank])

    def rank(self, R: Array) -> int:
        diagonal = np.abs(np.diag(R))
        if not np.all(np.isfinite(diagonal)):
            raise FloatingPointError("a block of the matrix contains NaN or infinity")
        return int(np.count_nonzero(diagonal > self.sigma * diagonal[0]))


def strong_order(R: Array, k: int, f: float) -> np.ndarray:
    """Column order in which [R_11 R_12; 0 R_22] (split after k) is a strong RRQR.

    Gu and Eisenstat, Algorithm 4: while some rho_ij = sqrt((R_11^-1 R_12)_ij^2 +
    (gamma_j(R_22) omega_i(R_11))^2) exceeds f, exchange columns i and k + j. Every exchange grows
    det(R_11) by rho_ij, so it ends.
    """
    order = np.arange(R.shape[1])
    while True:
        R11, R12, R22 = R[:k, :k], R[:k, k:], R[k:, k:]
        inverse = solve_triangular(R11, np.eye(k))
        omega = np.linalg.norm(inverse, axis=1)
        gamma = np.linalg.norm(R22, axis=0)
        rho = np.hypot(inverse @ R12, omega[:, None] * gamma[None, :])
        i, j = np.unravel_index(np.argmax(rho), rho.shape)
        if rho[i, j] <= f:
            return order
        swap = np.arange(R.shape[1])
        swap[[i, k + j]] = swap[[k + j, i]]
        order = order[swap]
        R = np.asarray(np.linalg.qr(R[:, swap], mode="r"))


def _pivoted(block: Array) -> tuple[Array, np.ndarray, Array]:
    C = block.shape[1]
    qr, pivots, tau, _, info = lapack.dgeqp3(block, lwork=2 * C + (C + 1) * 32)
    assert info == 0
    return qr, pivots, tau


def _plain(block: Array) -> tuple[Array, Array]:
    qr, tau, _, info = lapack.dgeqrf(block, lwork=32 * block.shape[1])
    assert info == 0
    return qr, tau


def _orthonormal(qr: Array, tau: Array) -> Array:
    if not len(tau):
        return np.zeros((qr.shape[0], 0))
    Q, _, info = lapack.dorgqr(qr, tau, lwork=32 * len(tau))
    assert info == 0
    return Q


def _factor_group(
    rule: RRQR, group: Group, scales: Array | None
) -> tuple[Array, list[Array], list[np.ndarray]]:
    """Q of every block, padded like the group, and the lists of R and kept columns."""
    values, columns = np.asarray(group.values), np.asarray(group.columns)
    Q = np.zeros(values.shape)

    def piece(blocks: range) -> list[tuple[Array, np.ndarray]]:
        found = []
        for b in blocks:
            width = group.widths[b]
            own = None if scales is None else scales[columns[b, :width]]
            factor = rule.factor(values[b, :width, : group.heights[b]].T, own)
            Q[b, : len(factor.kept), : group.heights[b]] = factor.Q.T
            found.append((factor.R, factor.kept))
        return found

    found = [item for part in in_parallel(piece, chunks(len(values))) for item in part]
    return Q, [R for R, _ in found], [kept for _, kept in found]


def _filtered_group(
    group: Group, values: Array, factors: list[Array], local_kept: list[np.ndarray]
) -> tuple[Group, TriangularGroup]:
    ranks = np.array([len(k) for k in local_kept])
    B, C = len(ranks), _padded_width(int(ranks.max(initial=0)), values.shape[1])
    R = np.tile(np.eye(C), (B, 1, 1))
    columns = np.zeros((B, C), dtype=np.int32)
    own = np.asarray(group.columns)
    for b, (factor, k) in enumerate(zip(factors, local_kept, strict=True)):
        R[b, : len(k), : len(k)] = factor
        columns[b, : len(k)] = own[b, k]
    filled = np.arange(C) < ranks[:, None]
    return (
        group._replace(values=on_device(values[:, :C]), columns=on_device(columns), widths=ranks),
        TriangularGroup(on_device(R), on_device(columns), on_device(filled)),
    )


def _patches(M: BlockMatrix, size: int) -> np.ndarray:
    """Label of the patch each block belongs to: `size` neighbours of one level along every axis."""
    positions, levels = M.positions(), M.levels()
    if positions is None:
        raise ValueError("patches need blocks with positions: use patch=1 for this matrix")
    label = np.zeros(len(levels), dtype=np.int64)
    for level in np.unique(levels):
        members = np.flatnonzero(levels == level)
        local = np.zeros(len(members), dtype=np.int64)
        for x in positions[members].T:
            place = np.unique(x, return_inverse=True)[1] // size
            local = local * (int(place.max()) + 1) + place
        label[members] = local + label.max() + 1
    return label


def _padded_width(rank: int, width: int) -> int:
    """Widths in steps of an eighth, so that another seed rarely compiles another shape."""
    step = max(1, width // 8)
    return min(width, max(1, -(-rank // step) * step))
