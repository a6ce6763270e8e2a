"""CG on the normal equations A^T A x = A^T b, plain or preconditioned.

It finds LSQR's iterates through A^T A, which costs it accuracy. Chunks, history and stopping are in
`iteration.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import jax

from tessella.linalg.block_matrix import BlockMatrix
from tessella.linalg.iterative.gramian import gramian
from tessella.linalg.iterative.iteration import Iterative, Progress, checked
from tessella.linalg.iterative.loops import Iterate
from tessella.linalg.iterative.meshed import spread
from tessella.linalg.vectors import Vectors
from tessella.machine.arrays import namespace


class _Cg(NamedTuple):
    b: jax.Array
    r: jax.Array
    g: jax.Array
    p: jax.Array
    gamma: jax.Array
    trace: jax.Array
    carried: jax.Array


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["A", "gramian", "preconditioner"],
    meta_fields=[],
)
@dataclass(frozen=True)
class NormalEquations:
    """A^T A x = A^T b: the factor A, and A^T A itself and an approximate inverse where given.

    Both are symmetric, so they are applied by `rmatvec`, which gathers instead of scattering.
    """

    A: BlockMatrix
    gramian: BlockMatrix | None = None
    preconditioner: BlockMatrix | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.A.shape

    @property
    def vectors(self) -> Vectors:
        return self.A.vectors

    def precondition(self, g: jax.Array) -> jax.Array:
        return g if self.preconditioner is None else self.preconditioner.rmatvec(g)


def _cg_begin(system: NormalEquations, b: jax.Array) -> Iterate[_Cg]:
    xp, vectors = namespace(b), system.vectors
    g = system.A.rmatvec(b)
    p = system.precondition(g)
    gamma = vectors.column_dot(g, p)
    zero = xp.zeros(())
    return Iterate(
        xp.zeros_like(g),
        vectors.row_norm(b),
        xp.sqrt(abs(gamma)),
        zero,
        zero,
        gamma == 0,
        _Cg(b, b, g, p, gamma, zero, zero),
    )


def _cg_step(system: NormalEquations, last: Iterate[_Cg]) -> Iterate[_Cg]:
    """The trace of Lanczos' tridiagonal matrix, grown here, is LSQR's squared estimate of |A|."""
    s, vectors, xp = last.inner, system.vectors, namespace(last.x)
    Ap = system.A.matvec(s.p)
    if system.gramian is None:
        q = system.A.rmatvec(Ap)
        curvature = vectors.row_dot(Ap, Ap)
    else:
        q = system.gramian.rmatvec(s.p)
        curvature = vectors.column_dot(s.p, q)
    alpha = xp.where(curvature == 0, 0.0, s.gamma / xp.where(curvature == 0, 1.0, curvature))
    x = last.x + alpha * s.p
    r = s.r - alpha * Ap
    g = s.g - alpha * q
    z = system.precondition(g)
    gamma = vectors.column_dot(g, z)
    beta = gamma / s.gamma
    inverse = xp.where(alpha == 0, 0.0, 1.0 / xp.where(alpha == 0, 1.0, alpha))
    trace = s.trace + inverse + s.carried
    norm_A = xp.sqrt(abs(trace))
    if system.preconditioner is None:
        reach = norm_A * vectors.column_norm(x)
    else:
        reach = vectors.row_norm(s.b - r)
    return Iterate(
        x,
        vectors.row_norm(r),
        xp.sqrt(abs(gamma)),
        norm_A,
        reach,
        (gamma == 0) | (curvature == 0),
        _Cg(s.b, r, g, z + beta * s.p, gamma, trace, beta * inverse),
    )


@dataclass(frozen=True, repr=False)
class OnNormalEquations(Iterative[NormalEquations, _Cg]):
    """Preconditioned conjugate gradients on A^T A x = A^T b."""

    sizes: ClassVar[tuple[float, float]] = (1e-50, 1e50)
    _begin = staticmethod(_cg_begin)
    _step = staticmethod(_cg_step)


@dataclass(frozen=True, repr=False)
class CG(OnNormalEquations):
    """Conjugate gradients on the normal equations A^T A x = A^T b (a baseline of the paper).

    The gradient g = A^T b - A^T A x is updated as g - alpha A^T (A p), as a general CG code does,
    SciPy's among them: the iterates of LSQR at first, then less accurate, since the
    rounding of A^T A stays in g. (The CGLS recurrences, which take g = A^T (b - A x), would be LSQR
    in other letters.) Use LSQR or LSMR unless you compare.

    gramian  form A^T A and multiply by it. That reproduces the paper's errors (oscillator 6.1e-4,
             paper 6.0e-4; False 2.1e-4) and costs the memory of A^T A, which is checked first.

    Other options as for LSQR.

    >>> import tessella as ts
    >>> ts.CG(gramian=True)
    CG(gramian=True)
    >>> ts.CG().sizes  # between these its squares neither over- nor underflow
    (1e-50, 1e+50)
    """

    gramian: bool = False

    name: ClassVar[str] = "cg"

    @property
    def shares(self) -> bool:
        return not self.gramian

    def init(self, A: BlockMatrix, progress: Progress | None = None) -> NormalEquations:
        A = checked(A, self.sizes)
        return NormalEquations(A, gramian(A)) if self.gramian else NormalEquations(spread(A))
