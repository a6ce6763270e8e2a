"""The numeric half of NestedQR: fronts factored from the leaves to the root, and solved with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tessella.linalg.block_matrix import BlockMatrix
from tessella.linalg.direct import dense_qr, device_qr
from tessella.linalg.direct.dense_qr import FrontFactor, Leftover
from tessella.linalg.direct.device_qr import DeviceFactors
from tessella.linalg.direct.elimination import Elimination, Front
from tessella.linalg.iterative.iteration import Progress
from tessella.linalg.units import column_scale, in_units
from tessella.machine.arrays import Array
from tessella.machine.device import preferred
from tessella.machine.printing import times
from tessella.machine.threads import in_parallel

GPU_COLUMNS = 192
"""A plan whose largest front has so many columns is worth the way to a GPU."""


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
        b, unit = in_units(b, n_rows)
        x, lost = self.factors.solve(b.reshape(n_rows, -1))
        x = unit * (x * self.scale[:, None])
        return x.reshape(n_columns, *b.shape[1:]), unit * float(np.sqrt(lost))

    def transposed(self, x: Array) -> Array | None:
        """The transpose of `solve`, from several x (columns, k) to (rows, k); None on a device."""
        if not isinstance(self.factors, HostFactors):
            return None
        return self.factors.transposed(x * self.scale[:, None])


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

    def transposed(self, x: Array) -> Array:
        """From unknowns to right-hand sides: the same steps, transposed and in reverse."""
        x, B = x.copy(), np.zeros((self.plan.shape[0], x.shape[1]))
        fitted = []
        for front, f in zip(self.plan.fronts, self.fronts, strict=True):
            own, beyond = f.substitute_back(x[front.columns[f.order[: f.kept]]])
            x[front.columns[front.own :]] += beyond
            fitted.append(own)
        handed: dict[int, Array] = {}
        for i in range(len(self.fronts) - 1, -1, -1):
            front, f = self.plan.fronts[i], self.fronts[i]
            none = np.zeros((f.left_over, x.shape[1]))
            c = f.reduce_back(fitted[i], handed.pop(i, none))
            B[front.rows], start = c[: len(front.rows)], len(front.rows)
            for k in front.children:
                end = start + self.fronts[k].left_over
                handed[k], start = c[start:end], end
        return B


def factor(
    A: BlockMatrix, plan: Elimination, tolerance: float, progress: Progress | None = None
) -> Factorisation:
    """Numeric factorisation along the plan, on a GPU where it pays."""
    scale = column_scale(A)

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
