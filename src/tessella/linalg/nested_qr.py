"""NestedQR: a direct, backward-stable least-squares solver for block-sparse matrices.

Multifrontal QR along an elimination tree (see `dissection`). Working upwards, a node stacks the
rows whose first block it owns on the triangles its children left over, and takes one dense QR of
that front: the rows of its own columns are finished, the rest is handed to the parent. A downward
sweep back-substitutes. No Gramian, no iteration; the residual is the least possible.

A front of m rows and n columns costs about 2 m n^2 - 2/3 n^3 flops and 8 m n bytes; both sums are
known from the pattern alone, before any number is touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from scipy.linalg import lapack

from tessella.domain import Array
from tessella.linalg import dense_qr
from tessella.linalg.block_matrix import BlockMatrix
from tessella.linalg.dense_qr import DenseQR, apply_transpose
from tessella.linalg.elimination import Elimination, Front, eliminate
from tessella.linalg.iteration import History, Monitor, Progress, SolverResult, Stop
from tessella.linalg.threads import side_by_side
from tessella.memory import require


@dataclass(frozen=True)
class NestedQR:
    """Direct least squares by nested-dissection QR.

    tolerance  columns whose part orthogonal to all columns eliminated before them is below this
               fraction of the column are dropped, front by front: the redundancy that overlap
               creates and a local filter cannot see. 1e-13 drops only what rounding has made
               meaningless; larger values regularise. Reported per level in `Factorisation.dropped`.
    leaf       parts of at most this many columns are factored as one front
    """

    tolerance: float = 1e-13
    leaf: int = 192

    name: ClassVar[str] = "nested-qr"
    iterative: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 <= self.tolerance < 1:
            raise ValueError(f"tolerance must lie in [0, 1), got {self.tolerance!r}")
        if 0 < self.tolerance < 1e-16:
            raise ValueError(
                f"tolerance={self.tolerance!r} is below machine precision: use 0 to keep every "
                f"column that is not exactly dependent, or at least 1e-16"
            )
        if self.leaf < 1:
            raise ValueError(f"leaf must be at least 1, got {self.leaf!r}")

    def analyse(self, A: BlockMatrix) -> Elimination:
        """The elimination tree and what factoring along it will cost; looks at the pattern only."""
        return eliminate(A, self.leaf)

    def init(self, A: BlockMatrix) -> Factorisation:
        """Factor once; the result solves for any number of right-hand sides."""
        plan = self.analyse(A)
        require(
            plan.bytes,
            f"the QR of {A.shape[0]:,} x {A.shape[1]:,} (largest front {plan.largest:,} columns)",
            "use rrqr-lsqr, fewer features, or a smaller overlap",
        )
        return factor(A, plan, self.tolerance)

    def solve(
        self,
        state: Factorisation,
        b: Array,
        monitor: Monitor | None = None,
        progress: Progress | None = None,
    ) -> SolverResult:
        x, residual = state.solve(b)
        error = np.zeros(0)
        if monitor is not None:
            error = np.array([float(monitor(jnp.asarray(x)))])
        history = History(np.array([residual]), np.array([np.nan]), error)
        return SolverResult(jnp.asarray(x), 0, Stop.DIRECT, history, residual)


@dataclass(frozen=True)
class FrontFactor:
    """Dense QR of one front.

    The first `kept` of the permuted own columns have the triangle `R` and the coupling `C` to the
    columns of the ancestors. `second` re-triangularises own columns that turned out dependent.
    """

    Q: DenseQR
    order: np.ndarray
    R: Array
    C: Array
    second: tuple[Array, Array] | None

    @property
    def kept(self) -> int:
        return len(self.R)


@dataclass(frozen=True)
class Factorisation:
    """All fronts, ready to solve. `dropped[level]` counts the columns found dependent there."""

    plan: Elimination
    fronts: list[FrontFactor]
    scale: Array
    dropped: dict[int, int]
    reused: int

    def solve(self, b: Array) -> tuple[Array, float]:
        """Least-squares solution and residual norm; b may hold several right-hand sides."""
        n_rows, n_columns = self.plan.shape
        b = np.asarray(b, dtype=np.float64)
        if b.ndim not in (1, 2) or b.shape[0] != n_rows:
            raise ValueError(
                f"the right-hand side has shape {b.shape}, but the factorised matrix has {n_rows} "
                f"rows"
            )
        if not np.all(np.isfinite(b)):
            raise ValueError("the right-hand side contains NaN or infinity")
        B = b.reshape(n_rows, -1)
        x = np.zeros((n_columns, B.shape[1]))
        finished: list[Any] = [None] * len(self.fronts)
        handed: list[Any] = [None] * len(self.fronts)
        lost = float(np.sum(B[self.plan.untouched] ** 2))
        for i, (front, f) in enumerate(zip(self.plan.fronts, self.fronts, strict=True)):
            c = np.concatenate([B[front.rows], *(handed[k] for k in front.children)])
            for k in front.children:
                handed[k] = None
            c, rest = f.Q.transpose_times(c)
            if f.second is not None:
                r = len(f.second[1])
                c[:r] = apply_transpose(*f.second, c[:r])
            finished[i], handed[i] = c[: f.kept], c[f.kept :]
            lost += rest
        lost += float(np.sum(handed[-1] ** 2))
        for i in reversed(range(len(self.fronts))):
            front, f = self.plan.fronts[i], self.fronts[i]
            rest = finished[i] - f.C @ x[front.columns[front.own :]]
            if f.kept:
                own, info = lapack.dtrtrs(f.R, rest)
                assert info == 0
                x[front.columns[f.order[: f.kept]]] = own
        x *= self.scale[:, None]
        return x.reshape(n_columns, *b.shape[1:]), float(np.sqrt(lost))


def factor(A: BlockMatrix, plan: Elimination, tolerance: float) -> Factorisation:
    """Numeric factorisation: the fronts of a level in parallel, from the leaves to the root."""
    blocks = list(A.blocks())
    scale = _column_scale(A)
    fronts: list[Any] = [None] * len(plan.fronts)
    left: list[Any] = [None] * len(plan.fronts)
    seen: dict[Any, tuple[FrontFactor, Array]] = {}
    reused: list[int] = []
    keys: list[Any] = [None] * len(plan.fronts)
    dropped: dict[int, int] = {}
    probe = np.random.default_rng(0).standard_normal(
        max((f.shape[0] for f in plan.fronts), default=1)
    )

    def assemble(front: Front) -> Array:
        rows = len(front.rows) + sum(len(left[k]) for k in front.children)
        G = np.zeros((len(front.columns), rows))  # transposed, as the blocks are stored
        for piece in front.pieces:
            block = blocks[piece.block]
            own = slice(piece.offset, piece.offset + len(block.columns))
            G[own, piece.rows] = block.values.T[:, piece.block_rows] * scale[block.columns, None]
        return G.T

    def make(i: int) -> None:
        front = plan.fronts[i]
        F = assemble(front)
        own_rows = len(front.rows)
        keys[i] = (
            F.shape,
            front.own,
            (probe[:own_rows] @ F[:own_rows]).tobytes(),
            tuple((keys[k], plan.fronts[k].into_parent.tobytes()) for k in front.children),
        )
        keys[i] = hash(keys[i])
        known = seen.get(keys[i])
        if known is not None:
            fronts[i], left[i] = known
            reused.append(i)
            return
        start = own_rows
        for k in front.children:
            F[start : start + len(left[k]), plan.fronts[k].into_parent] = left[k]
            start += len(left[k])
        fronts[i], left[i] = _factor_front(F, front.own, tolerance)
        seen[keys[i]] = fronts[i], left[i]

    for level in plan.levels:
        work = sum(plan.fronts[i].flops for i in level)
        side_by_side(make, sorted(level, key=lambda i: -plan.fronts[i].flops), work)
        for i in level:
            for k in plan.fronts[i].children:
                left[k] = None
        seen.clear()  # it holds the triangles left over, which only the level above needs
    for front, f in zip(plan.fronts, fronts, strict=True):
        missing = front.own - f.kept
        if missing:
            dropped[front.level] = dropped.get(front.level, 0) + missing
    return Factorisation(plan, fronts, scale, dropped, len(reused))


def _factor_front(F: Array, own: int, tolerance: float) -> tuple[FrontFactor, Array]:
    """QR of a front; returns its factor and the rows left over for the parent."""
    m, n = F.shape
    Q, whole = dense_qr.factor(F)
    r = min(m, own)
    R = np.asfortranarray(np.triu(whole[:r, :own]))
    C = whole[:r, own:]
    below = np.triu(whole[r:, own:])
    order = np.arange(own)
    if r == own and _safely_regular(R, tolerance):
        # A view: below its diagonal lie Householder vectors, which dtrtrs does not read.
        return FrontFactor(Q, order, whole[:own, :own], C, None), below
    if r == 0:
        empty = np.zeros((0, 0)), np.zeros((0, n - own))
        return FrontFactor(Q, order, *empty, None), below
    qr2, pivots, tau2, _, info = lapack.dgeqp3(R, lwork=2 * own + (own + 1) * 32)
    assert info == 0
    diagonal = np.abs(np.diag(qr2))
    kept = int(np.count_nonzero(diagonal > max(tolerance, 0.0)))
    second = qr2[:, : len(tau2)], tau2
    C = apply_transpose(*second, np.asfortranarray(C))
    R = np.asfortranarray(np.triu(qr2[:kept, :kept]))
    left = np.concatenate([C[kept:], below])
    return FrontFactor(Q, pivots - 1, R, C[:kept], second), left


def _safely_regular(R: Array, tolerance: float) -> bool:
    """Whether no column of the triangle can be within tolerance of dependence."""
    if len(R) == 0:
        return True
    if np.min(np.abs(np.diag(R))) <= tolerance:
        return False
    reciprocal, info = lapack.dtrcon(R)
    smallest = reciprocal * np.max(np.sum(np.abs(R), axis=0))
    return info == 0 and smallest > 10 * tolerance * len(R)


def _column_scale(A: BlockMatrix) -> Array:
    """1 / norm of every column, so that the tolerance does not depend on units; 1 where zero."""
    squares = np.zeros(A.shape[1])
    for g in A.groups:
        filled = np.arange(g.columns.shape[1]) < g.widths[:, None]
        norms = np.asarray(jnp.einsum("bcm,bcm->bc", g.values, g.values))
        np.add.at(squares, np.asarray(g.columns)[filled], norms[filled])
    if not np.all(np.isfinite(squares)):
        column = int(np.flatnonzero(~np.isfinite(squares))[0])
        raise ValueError(f"column {column} of the matrix contains NaN or infinity")
    return 1.0 / np.sqrt(np.where(squares > 0, squares, 1.0))
