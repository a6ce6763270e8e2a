"""LSQR for the finest level, while the coarser ones are solved exactly in every iteration.

Let A = [C F], the columns of the coarser levels and of the finest, and C = Q R. What C can explain
of a vector is taken away by P = I - Q Q^T, so

    min |C c + F z - b|  =  min over z of |P F z - P b|,  then c = R^-1 Q^T (b - F z).

LSQR iterates on P F, whose Krylov space starts where the coarse levels end: no error they can
represent is left for it to find. P is applied by the nested-dissection QR of C, in both products:
LSQR's u would stay in the range of P by itself, but for rounding, which adds up.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import numpy as np

from tessella.linalg.block_matrix import BlockMatrix
from tessella.linalg.direct.factorisation import Factorisation
from tessella.linalg.direct.nested_qr import NestedQR
from tessella.linalg.direct.wide import WideFactorisation
from tessella.linalg.iterative.iteration import (
    History,
    Iterative,
    Monitor,
    Progress,
    SolverResult,
    Stop,
    checked,
)
from tessella.linalg.iterative.krylov import Lsqr, lsqr_begin, lsqr_step
from tessella.linalg.iterative.shared_coarse import SharedCoarse, shared_coarse
from tessella.linalg.shared_matrix import SharedMatrix
from tessella.linalg.vectors import Vectors
from tessella.machine.arrays import AnyArray, Array, namespace, on_device

ROUNDING = 1e-15
"""What the coarse levels leave of a right-hand side that they explain."""


@dataclass(frozen=True)
class Deflated:
    """P F as an operator on vectors of all columns, zero at those of the coarser levels."""

    fine: BlockMatrix | SharedMatrix
    coarse: BlockMatrix | SharedMatrix | None
    factors: Factorisation | WideFactorisation | SharedCoarse | None

    @property
    def shape(self) -> tuple[int, int]:
        return self.fine.shape

    @property
    def vectors(self) -> Vectors:
        return self.fine.vectors

    def explained(self, b: AnyArray) -> Any:
        """c = R^-1 Q^T b: the least-squares solution in the coarse columns alone."""
        if self.factors is None:
            return namespace(b).zeros(self.shape[1])
        c = self.factors.solve(np.asarray(b))[0]
        return c if self.vectors.shared else on_device(c)

    def left_over(self, b: AnyArray) -> Any:
        """P b."""
        return b if self.coarse is None else b - self.coarse.matvec(self.explained(b))

    def matvec(self, z: AnyArray) -> Any:
        return self.left_over(self.fine.matvec(z))

    def rmatvec(self, u: AnyArray) -> Any:
        return self.fine.rmatvec(self.left_over(u))

    def completed(self, z: AnyArray, b: AnyArray) -> Any:
        """The unknowns of all levels that belong to those of the finest."""
        return z + self.explained(b - self.fine.matvec(z))


@dataclass(frozen=True, repr=False)
class DeflatedLSQR(Iterative[Deflated, Lsqr]):
    """LSQR on the finest level of a `Multilevel` basis, the coarser levels eliminated by NestedQR.

    Iterations do not grow with the number of subdomains if the coarse level grows with it:
    `Multilevel.two(basis)` has a coarse level of a quarter as many subdomains along every axis. Of
    several coarser levels all are eliminated together. On a single level it is LSQR. Options as
    for LSQR, with less patience: an iteration costs more, and the first few do most. Raise
    `patience` to reach the optimum itself; for many digits solve directly.

    >>> import tessella as ts
    >>> boxes = ts.Decomposition(ts.Box(x=(0, 1), y=(0, 1)), 16)
    >>> ts.Multilevel.two(ts.Basis(boxes, ts.RandomFeatures(16)))  # a basis for it
    Multilevel of 4 x 4 + 16 x 16 overlapping subdomains, 16 tanh features each (4,624 columns)
    >>> ts.DeflatedLSQR(patience=100)
    DeflatedLSQR(patience=100)
    """

    max_iterations: int = 1_000
    patience: int = 20

    name: ClassVar[str] = "deflated-lsqr"
    chunk: ClassVar[int] = 1
    compiled: ClassVar[bool] = False
    _begin = staticmethod(lsqr_begin)
    _step = staticmethod(lsqr_step)

    def init(self, A: BlockMatrix, progress: Progress | None = None) -> Deflated:
        """The QR of the coarser levels serves every right-hand side."""
        A = checked(A, self.sizes)
        fine, coarse = (
            A.with_groups(tuple(g for g in A.groups if g.coarse is own)) for own in (False, True)
        )
        if not A.vectors.largest(np.array([float(len(coarse.groups))])):
            return Deflated(A, None, None)
        if isinstance(coarse, SharedMatrix):
            return Deflated(fine, coarse, shared_coarse(coarse, progress))
        factors = NestedQR().init(coarse, progress)
        if A.lookup is not None:
            fine, coarse = fine.with_lookup(), coarse.with_lookup()
        return Deflated(fine, coarse, factors)

    def _solve(
        self, state: Deflated, b: Array, monitor: Monitor | None, progress: Progress | None
    ) -> SolverResult:
        whole = b if state.vectors.shared else on_device(b)
        rest = np.asarray(state.left_over(whole))
        left = float(state.vectors.row_norm(rest))
        if left <= max(self.btol, ROUNDING) * float(state.vectors.row_norm(b)):
            return SolverResult(state.explained(b), 0, Stop.RESIDUAL, History(), left)

        def watch(y: jax.Array) -> jax.Array:
            assert monitor is not None
            return monitor(state.completed(y, whole))

        found = super()._solve(state, rest, watch if monitor else None, progress)
        return dataclasses.replace(found, x=state.completed(found.x, whole))
