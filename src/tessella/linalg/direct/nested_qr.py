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

from dataclasses import dataclass
from typing import ClassVar
from weakref import WeakKeyDictionary

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
from tessella.machine.printing import as_written, times
from tessella.machine.threads import in_parallel

GPU_COLUMNS = 192
"""A plan whose largest front has so many columns is worth the way to a GPU."""


_PLANS: WeakKeyDictionary[BlockMatrix, dict[int, Elimination]] = WeakKeyDictionary()
"""By matrix and size of the leaves."""


@dataclass(frozen=True, repr=False)
class NestedQR:
    """Direct least squares by nested-dissection QR.

    tolerance  columns whose part orthogonal to all columns eliminated before them is below this
               fraction of the column are dropped, front by front: the redundancy that overlap
               creates and a local filter cannot see. 1e-13 drops only what rounding has made
               meaningless; larger values regularise. Reported per level in `Factorisation.dropped`.
    leaf       parts of at most this many columns are factored as one front

    >>> import tessella as ts
    >>> problem = ts.Problem(ts.Box(x=(0, 1)), ts.Equation(ts.D(x=2), 2.0), [ts.Dirichlet(0.0)])
    >>> u = ts.solve(problem, subdomains=2, features=10, solver=ts.NestedQR())
    >>> round(float(u([[0.5]])[0]), 6)
    -0.25
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

    def __repr__(self) -> str:
        return as_written(self)

    def analyse(self, A: BlockMatrix) -> Elimination:
        """The elimination tree and what factoring along it will cost; looks at the pattern only.

        It is kept as long as the matrix, since who asks for the cost factors next.
        """
        plans = _PLANS.setdefault(A, {})
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


@dataclass(frozen=True, repr=False)
class Factorisation:
    """All fronts, ready to solve. `dropped[level]` counts the columns found dependent there."""

    plan: Elimination
    factors: HostFactors | DeviceFactors
    scale: Array
    dropped: dict[int, int]
    reused: int

    def __repr__(self) -> str:
        lost = sum(self.dropped.values())
        return f"Factorisation of {times(self.plan.shape)}: {self.plan}; {lost:,} columns dropped"

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
        finished: list[Array] = []
        handed: dict[int, Array] = {}
        lost = float(np.sum(B[self.plan.untouched] ** 2))
        for i, (front, f) in enumerate(zip(self.plan.fronts, self.fronts, strict=True)):
            c = np.concatenate([B[front.rows], *(handed.pop(k) for k in front.children)])
            own, handed[i], rest = f.reduce(c)
            finished.append(own)
            lost += rest
        lost += sum(float(np.sum(rows**2)) for rows in handed.values())  # the root's
        for front, f in zip(reversed(self.plan.fronts), reversed(self.fronts), strict=True):
            own = f.substitute(finished.pop(), x[front.columns[front.own :]])
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
        climb = _Climb(A, plan, scale, tolerance)
        for number, level in enumerate(plan.levels):
            climb.factor(level)
            report(number)
        fronts = [climb.fronts[i] for i in range(len(plan.fronts))]
        factors, reused = HostFactors(plan, fronts), len(climb.reused)
    dropped: dict[int, int] = {}
    for front, kept in zip(plan.fronts, factors.kept, strict=True):
        missing = front.own - kept
        if missing:
            dropped[front.level] = dropped.get(front.level, 0) + missing
    return Factorisation(plan, factors, scale, dropped, reused)


class _Climb:
    """Where things are while LAPACK factors the fronts, from the leaves to the root.

    left    front -> the rows it hands to its parent, until that has them
    keys    front -> what tells its numbers and its children's from others
    seen    key -> a front of this level that was factored already
    reused  fronts that were equal to one
    """

    def __init__(self, A: BlockMatrix, plan: Elimination, scale: Array, tolerance: float) -> None:
        self.plan, self.scale, self.tolerance = plan, scale, tolerance
        self.blocks = list(A.blocks())
        self.fronts: dict[int, FrontFactor] = {}
        self.left: dict[int, Leftover] = {}
        self.keys: dict[int, int] = {}
        self.seen: dict[int, tuple[FrontFactor, Leftover]] = {}
        self.reused: list[int] = []
        most = max((f.shape[0] for f in plan.fronts), default=1)
        self.probe = np.random.default_rng(0).standard_normal(most)

    def factor(self, level: list[int]) -> None:
        """The fronts of a level, in parallel."""
        work = {i: self.plan.fronts[i].flops for i in level}
        alone = len(level) == 1
        largest_first = sorted(level, key=lambda i: -work[i])
        in_parallel(lambda i: self.make(i, alone), largest_first, sum(work.values()))
        for i in level:
            for k in self.plan.fronts[i].children:
                del self.left[k]
        self.seen.clear()  # it holds the triangles left over, which only the level above needs

    def make(self, i: int, alone: bool) -> None:
        """One front; the first of equal ones is factored."""
        front = self.plan.fronts[i]
        F = self.assemble(front)
        key = self.keys[i] = self.key(front, F)
        if key in self.seen:
            self.fronts[i], self.left[i] = self.seen[key]
            self.reused.append(i)
            return
        begins, start = [front.begins], len(front.rows)
        for k, into in zip(front.children, front.into, strict=True):
            left = self.left[k]
            left.copy_into(F[start:], into)
            begins.append(left.begins(into))
            start += left.rows
        made = dense_qr.factor(F, front.own, self.tolerance, np.concatenate(begins), alone)
        self.seen[key] = self.fronts[i], self.left[i] = made

    def assemble(self, front: Front) -> Array:
        """Its rows of the matrix, with room for those of its children."""
        rows = len(front.rows) + sum(self.left[k].rows for k in front.children)
        G = np.zeros((len(front.columns), rows))  # transposed, as the blocks are stored
        for piece in front.pieces:
            block = self.blocks[piece.block]
            own, scale = slice(piece.offset, piece.offset + len(block.columns)), self.scale
            G[own, piece.rows] = block.values.T[:, piece.block_rows] * scale[block.columns, None]
        return G.T

    def key(self, front: Front, F: Array) -> int:
        rows = len(front.rows)
        return hash(
            (
                F.shape,
                front.own,
                (self.probe[:rows] @ F[:rows]).tobytes(),
                tuple(self.keys[k] for k in front.children),
                tuple(into.tobytes() for into in front.into),
            )
        )


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
