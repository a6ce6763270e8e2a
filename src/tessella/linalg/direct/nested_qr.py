"""NestedQR: a direct, backward-stable least-squares solver for block-sparse matrices.

Multifrontal QR along an elimination tree (see `dissection`). Working upwards, a node stacks the
rows whose first block it owns on the triangles its children left over, and takes one dense QR of
that front: the rows of its own columns are finished, the rest is handed to the parent. A downward
sweep back-substitutes. No Gramian, no iteration; the residual is the least possible.

A front of m rows and n columns costs at most about 2 m n^2 - 2/3 n^3 flops (its rows begin late,
see `dense_qr`) and 8 m n bytes; both sums are known from the pattern alone, before any number is
touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tessella.linalg.block_kernels import squared_sums
from tessella.linalg.block_matrix import BlockMatrix
from tessella.linalg.direct import dense_qr, device_qr
from tessella.linalg.direct.dense_qr import FrontFactor, Leftover
from tessella.linalg.direct.device_qr import DeviceFactors
from tessella.linalg.direct.elimination import Elimination, Front, eliminate
from tessella.linalg.iterative.iteration import History, Monitor, Progress, SolverResult, Stop
from tessella.machine.arrays import Array, on_device
from tessella.machine.device import preferred
from tessella.machine.memory import require
from tessella.machine.threads import in_parallel

GPU_COLUMNS = 192
"""A plan whose largest front has so many columns is worth the way to a GPU."""


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
        """The elimination tree and what factoring along it will cost; looks at the pattern only.

        The matrix keeps it, since who asks for the cost factors next.
        """
        plans: dict[int, Elimination] = A.__dict__.setdefault("_plans", {})
        if self.leaf not in plans:
            plans[self.leaf] = eliminate(A, self.leaf)
        return plans[self.leaf]

    def init(self, A: BlockMatrix, progress: Progress | None = None) -> Factorisation:
        """Factor once; the result solves for any number of right-hand sides."""
        plan = self.analyse(A)
        require(
            plan.bytes,
            f"the QR of {A.shape[0]:,} x {A.shape[1]:,} (largest front {plan.largest:,} columns)",
            "use rrqr-lsqr, fewer features, or a smaller overlap",
        )
        return factor(A, plan, self.tolerance, progress)

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
            error = np.array([float(monitor(on_device(x)))])
        history = History(np.array([residual]), np.array([np.nan]), error)
        return SolverResult(x, 0, Stop.DIRECT, history, residual)


@dataclass(frozen=True)
class Factorisation:
    """All fronts, ready to solve. `dropped[level]` counts the columns found dependent there."""

    plan: Elimination
    factors: HostFactors | DeviceFactors
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
        x, lost = self.factors.solve(b.reshape(n_rows, -1))
        x = x * self.scale[:, None]
        return x.reshape(n_columns, *b.shape[1:]), float(np.sqrt(lost))


@dataclass(frozen=True)
class HostFactors:
    """The fronts factored by LAPACK."""

    plan: Elimination
    fronts: list[FrontFactor]

    @property
    def kept(self) -> list[int]:
        """How many of its own columns every front kept."""
        return [f.kept for f in self.fronts]

    def solve(self, B: Array) -> tuple[Array, float]:
        """Least-squares solutions for the columns of B, and the squared norm of all residuals."""
        x = np.zeros((self.plan.shape[1], B.shape[1]))
        finished: list[Any] = [None] * len(self.fronts)
        handed: list[Any] = [None] * len(self.fronts)
        lost = float(np.sum(B[self.plan.untouched] ** 2))
        for i, (front, f) in enumerate(zip(self.plan.fronts, self.fronts, strict=True)):
            c = np.concatenate([B[front.rows], *(handed[k] for k in front.children)])
            for k in front.children:
                handed[k] = None
            finished[i], handed[i], rest = f.reduce(c)
            lost += rest
        lost += float(np.sum(handed[-1] ** 2))
        for i in reversed(range(len(self.fronts))):
            front, f = self.plan.fronts[i], self.fronts[i]
            own = f.substitute(finished[i], x[front.columns[front.own :]])
            x[front.columns[f.order[: f.kept]]] = own
        return x, lost


def factor(
    A: BlockMatrix, plan: Elimination, tolerance: float, progress: Progress | None = None
) -> Factorisation:
    """Numeric factorisation along the plan, on a GPU where it pays."""
    scale = _column_scale(A)

    def report(level: int) -> None:
        if progress:
            done = sum(len(fronts) for fronts in plan.levels[: level + 1])
            progress(done, len(plan.fronts), 1.0)

    factors: HostFactors | DeviceFactors
    if preferred().batches and plan.largest >= GPU_COLUMNS:
        factors, reused = device_qr.factor_fronts(A, plan, scale, tolerance, report), 0
    else:
        fronts, reused = _factor_fronts(A, plan, scale, tolerance, report)
        factors = HostFactors(plan, fronts)
    dropped: dict[int, int] = {}
    for front, kept in zip(plan.fronts, factors.kept, strict=True):
        missing = front.own - kept
        if missing:
            dropped[front.level] = dropped.get(front.level, 0) + missing
    return Factorisation(plan, factors, scale, dropped, reused)


def _factor_fronts(
    A: BlockMatrix,
    plan: Elimination,
    scale: Array,
    tolerance: float,
    report: Callable[[int], None],
) -> tuple[list[Any], int]:
    """The fronts of a level in parallel, from the leaves to the root; and how many were reused."""
    blocks = list(A.blocks())
    fronts: list[Any] = [None] * len(plan.fronts)
    left: list[Any] = [None] * len(plan.fronts)
    seen: dict[Any, tuple[FrontFactor, Leftover]] = {}
    reused: list[int] = []
    keys: list[Any] = [None] * len(plan.fronts)
    probe = np.random.default_rng(0).standard_normal(
        max((f.shape[0] for f in plan.fronts), default=1)
    )

    single = {level[0] for level in plan.levels if len(level) == 1}

    def assemble(front: Front) -> Array:
        rows = len(front.rows) + sum(left[k].rows for k in front.children)
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
        begins, start = [front.begins], own_rows
        for k in front.children:
            left[k].copy_into(F[start:], plan.fronts[k].into_parent)
            begins.append(left[k].begins(plan.fronts[k].into_parent))
            start += left[k].rows
        fronts[i], left[i] = dense_qr.factor(
            F, front.own, tolerance, np.concatenate(begins), alone=i in single
        )
        seen[keys[i]] = fronts[i], left[i]

    for number, level in enumerate(plan.levels):
        work = sum(plan.fronts[i].flops for i in level)
        in_parallel(make, sorted(level, key=lambda i: -plan.fronts[i].flops), work)
        for i in level:
            for k in plan.fronts[i].children:
                left[k] = None
        seen.clear()  # it holds the triangles left over, which only the level above needs
        report(number)
    return fronts, len(reused)


def _column_scale(A: BlockMatrix) -> Array:
    """1 / norm of every column, so that the tolerance does not depend on units; 1 where zero."""
    squares = np.zeros(A.shape[1])
    for g in A.groups:
        filled = np.arange(g.columns.shape[1]) < g.widths[:, None]
        norms = squared_sums(g.values, 2)
        np.add.at(squares, np.asarray(g.columns)[filled], norms[filled])
    if not np.all(np.isfinite(squares)):
        column = int(np.flatnonzero(~np.isfinite(squares))[0])
        raise ValueError(f"column {column} of the matrix contains NaN or infinity")
    return 1.0 / np.sqrt(np.where(squares > 0, squares, 1.0))
