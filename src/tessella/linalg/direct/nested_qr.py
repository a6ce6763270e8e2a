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
import scipy.linalg

from tessella.linalg.block_matrix import BlockMatrix
from tessella.linalg.direct.elimination import Elimination, eliminate
from tessella.linalg.direct.factorisation import Factorisation, factor
from tessella.linalg.direct.wide import WideFactorisation, damped
from tessella.linalg.iterative.iteration import History, Monitor, Progress, SolverResult, Stop
from tessella.linalg.units import column_scale
from tessella.machine.arrays import Array, on_device
from tessella.machine.memory import require
from tessella.machine.printing import as_written

SMALLEST_DAMPING = 2.0**-42
"""Of wide systems, above the rounding of a column; see `wide`."""

SOLVED = 1e-10
"""A wide system of full rank has a solution: what leaves more of |b| lacks rank."""

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

    def init(
        self, A: BlockMatrix, progress: Progress | None = None
    ) -> Factorisation | WideFactorisation:
        """Factor once; the result solves for any number of right-hand sides."""
        if A.shape[0] < A.shape[1]:
            mu = max(2 * self.tolerance, SMALLEST_DAMPING)
            tall = damped(A, column_scale(A), mu)
            return WideFactorisation(A, self.factor(tall, progress))
        return self.factor(A, progress)

    def factor(self, A: BlockMatrix, progress: Progress | None = None) -> Factorisation:
        """The same for as many rows as columns or more."""
        plan = self.analyse(A)
        require(
            plan.bytes,
            f"the QR of {A.shape[0]:,} x {A.shape[1]:,} (largest front {plan.largest:,} columns)",
            "use rrqr-lsqr, fewer features, or a smaller overlap",
        )
        return factor(A, plan, self.tolerance, progress)

    def solve(
        self,
        state: Factorisation | WideFactorisation,
        b: Array,
        monitor: Monitor | None = None,
        progress: Progress | None = None,
    ) -> SolverResult:
        x, residual = state.solve(b)
        error = np.zeros(0)
        if monitor is not None:
            error = np.array([float(monitor(on_device(x)))])
        history = History(np.array([residual]), np.array([np.nan]), error)
        short = isinstance(state, WideFactorisation) and residual > SOLVED * scipy.linalg.norm(b)
        stop = Stop.DEFICIENT if short else Stop.DIRECT
        return SolverResult(x, 0, stop, history, residual)
