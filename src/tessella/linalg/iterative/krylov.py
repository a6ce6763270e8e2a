"""LSQR and LSMR: min |A x - b| from products with A and A^T, by a bidiagonal matrix.

Both search the same Krylov space, as CG does (`normal_equations`). LSQR picks its smallest residual
|b - A x|, LSMR its smallest |A^T (b - A x)|. What they share, chunks, history and stopping, is in
`iteration.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import numpy as np

from tessella.linalg.block_matrix import BlockMatrix
from tessella.linalg.iterative.iteration import Iterative, Progress, checked
from tessella.linalg.iterative.loops import Iterate
from tessella.linalg.iterative.meshed import spread
from tessella.linalg.row_matrix import RowMatrix, by_rows
from tessella.linalg.shared_matrix import SharedMatrix
from tessella.linalg.vectors import Vectors
from tessella.machine.arrays import namespace


class Products(Protocol):
    """A matrix as these methods know it."""

    def matvec(self, v: jax.Array, /) -> jax.Array: ...

    def rmatvec(self, u: jax.Array, /) -> jax.Array: ...

    @property
    def vectors(self) -> Vectors: ...


class _Bidiagonal(NamedTuple):
    """Golub and Kahan: A V = U B with lower bidiagonal B; alpha and beta are its newest entries.

    u and v are the newest columns of U and V times beta and alpha: who uses them divides, so that
    no pass over them is spent on scaling. `begun` is what of A v is on its way already.
    """

    u: jax.Array
    v: jax.Array
    alpha: jax.Array
    begun: Callable[[], Any] | None
    beta: jax.Array
    norm_A: jax.Array


class _Length(NamedTuple):
    """Paige and Saunders' estimate of |x| from the bidiagonal's entries, section 5.2."""

    c: jax.Array
    s: jax.Array
    z: jax.Array
    squares: jax.Array


class Lsqr(NamedTuple):
    process: _Bidiagonal
    w: jax.Array
    rhobar: jax.Array
    phibar: jax.Array
    length: _Length


class _Lsmr(NamedTuple):
    process: _Bidiagonal
    h: jax.Array
    hbar: jax.Array
    alphabar: jax.Array
    rho: jax.Array
    rhobar: jax.Array
    cbar: jax.Array
    sbar: jax.Array
    zeta: jax.Array
    zetabar: jax.Array
    betadd: jax.Array
    betad: jax.Array
    rhod: jax.Array
    tautilde: jax.Array
    thetatilde: jax.Array


def _inverse(size: jax.Array) -> jax.Array:
    """1 / size, and 0 of 0: nothing divided by its length stays nothing."""
    xp = namespace(size)
    return xp.where(size > 0, 1.0 / xp.where(size > 0, size, 1.0), 0.0)


def _rotation(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(c, s, r) with c a + s b = r = |(a, b)| and s a = c b."""
    xp = namespace(a)
    r = xp.hypot(a, b)
    size = xp.where(r > 0, r, 1.0)
    return a / size, b / size, r


def _bidiagonal_begin(A: Products, b: jax.Array) -> _Bidiagonal:
    beta = A.vectors.row_norm(b)
    v = A.rmatvec(b) * _inverse(beta)
    return _Bidiagonal(b, v, *_measured(A, v), beta, namespace(b).zeros(()))


def _bidiagonal_step(A: Products, s: _Bidiagonal) -> _Bidiagonal:
    """A sum over processes is on its way while there is other work."""
    over_alpha = _inverse(s.alpha)
    u, back = _onwards(A, s, over_alpha)
    coming = A.vectors.coming_row_norm(u)
    found = back()
    beta = coming()
    norm_A = namespace(beta).sqrt(s.norm_A**2 + s.alpha**2 + beta**2)
    v = found * _inverse(beta) - (beta * over_alpha) * s.v
    return _Bidiagonal(u, v, *_measured(A, v), beta, norm_A)


def _onwards(
    A: Products, s: _Bidiagonal, over_alpha: jax.Array
) -> tuple[jax.Array, Callable[[], jax.Array]]:
    """The next u, and how to find A^T u."""
    less = s.alpha * _inverse(s.beta)
    if isinstance(A, RowMatrix):
        found: Any = A.onwards(np.asarray(s.v), np.asarray(s.u), over_alpha, less, s.begun)
        return found
    forward: Any = A.matvec(s.v) if s.begun is None else s.begun()
    u = forward * over_alpha - less * s.u
    return u, partial(A.rmatvec, u)


def _measured(A: Products, v: Any) -> tuple[jax.Array, Callable[[], Any] | None]:
    """|v|, and what of A v can be on its way until that is known."""
    coming = A.vectors.coming_column_norm(v)
    begun: Any = A.begun(v) if isinstance(A, RowMatrix | SharedMatrix) else None
    return coming(), begun


def lsqr_begin(A: Products, b: jax.Array) -> Iterate[Lsqr]:
    s = _bidiagonal_begin(A, b)
    xp = namespace(b)
    zero = xp.zeros(())
    length = _Length(-xp.ones(()), zero, zero, zero)
    inner = Lsqr(s, s.v * _inverse(s.alpha), s.alpha, s.beta, length)
    return Iterate(xp.zeros_like(s.v), s.beta, s.alpha * s.beta, zero, zero, s.alpha == 0, inner)


def lsqr_step(A: Products, last: Iterate[Lsqr]) -> Iterate[Lsqr]:
    t = last.inner
    s = _bidiagonal_step(A, t.process)
    c, sine, rho = _rotation(t.rhobar, s.beta)
    theta, phi = sine * s.alpha, c * t.phibar
    x = last.x + (phi / rho) * t.w
    w = s.v * _inverse(s.alpha) - (theta / rho) * t.w
    phibar = sine * t.phibar
    normal = phibar * s.alpha * abs(c)
    length, norm_x = _lengthened(t.length, rho, theta, phi)
    inner = Lsqr(s, w, -c * s.alpha, phibar, length)
    return Iterate(x, phibar, normal, s.norm_A, s.norm_A * norm_x, s.alpha == 0, inner)


def _lengthened(
    t: _Length, rho: jax.Array, theta: jax.Array, phi: jax.Array
) -> tuple[_Length, jax.Array]:
    """The estimate after one more iteration, and |x|."""
    gammabar = -t.c * rho
    rest = phi - t.s * rho * t.z
    norm_x = namespace(rest).sqrt(t.squares + (rest / gammabar) ** 2)
    c, s, gamma = _rotation(gammabar, theta)
    z = rest / gamma
    return _Length(c, s, z, t.squares + z**2), norm_x


def _lsmr_begin(A: Products, b: jax.Array) -> Iterate[_Lsmr]:
    s = _bidiagonal_begin(A, b)
    xp = namespace(b)
    x = xp.zeros_like(s.v)
    zero, one = xp.zeros(()), xp.ones(())
    inner = _Lsmr(
        process=s,
        h=s.v * _inverse(s.alpha),
        hbar=x,
        alphabar=s.alpha,
        rho=one,
        rhobar=one,
        cbar=one,
        sbar=zero,
        zeta=zero,
        zetabar=s.alpha * s.beta,
        betadd=s.beta,
        betad=zero,
        rhod=one,
        tautilde=zero,
        thetatilde=zero,
    )
    return Iterate(x, s.beta, s.alpha * s.beta, zero, zero, s.alpha == 0, inner)


def _lsmr_step(A: Products, last: Iterate[_Lsmr]) -> Iterate[_Lsmr]:
    """Fong and Saunders (2011), sections 2 and 5, with their names; no damping."""
    t = last.inner
    s = _bidiagonal_step(A, t.process)

    c, sine, rho = _rotation(t.alphabar, s.beta)
    theta = sine * s.alpha
    thetabar = t.sbar * rho
    cbar, sbar, rhobar = _rotation(t.cbar * rho, theta)
    zeta, zetabar = cbar * t.zetabar, -sbar * t.zetabar

    hbar = t.h - (thetabar * rho / (t.rho * t.rhobar)) * t.hbar
    x = last.x + (zeta / (rho * rhobar)) * hbar
    h = s.v * _inverse(s.alpha) - (theta / rho) * t.h

    betahat, betadd = c * t.betadd, -sine * t.betadd
    ctilde, stilde, rhotilde = _rotation(t.rhod, thetabar)
    thetatilde, rhod = stilde * rhobar, ctilde * rhobar
    betad = -stilde * t.betad + ctilde * betahat
    tautilde = (t.zeta - t.thetatilde * t.tautilde) / rhotilde
    taud = (zeta - thetatilde * tautilde) / rhod
    residual = namespace(betad).hypot(betad - taud, betadd)

    inner = _Lsmr(
        process=s,
        h=h,
        hbar=hbar,
        alphabar=c * s.alpha,
        rho=rho,
        rhobar=rhobar,
        cbar=cbar,
        sbar=sbar,
        zeta=zeta,
        zetabar=zetabar,
        betadd=betadd,
        betad=betad,
        rhod=rhod,
        tautilde=tautilde,
        thetatilde=thetatilde,
    )
    reach = s.norm_A * A.vectors.column_norm(x)
    return Iterate(x, residual, abs(zetabar), s.norm_A, reach, s.alpha == 0, inner)


@dataclass(frozen=True, repr=False)
class LSQR(Iterative[BlockMatrix, Lsqr]):
    """LSQR of Paige and Saunders (1982).

    max_iterations  most iterations
    atol, btol      stop when |A^T r| <= atol |A| |r| (a least-squares optimum), or when
                    |r| <= btol |b| + atol |A| |x| (the system is compatible and solved).
                    Collocation systems are rarely compatible, so atol decides. Both 0 forces
                    every iteration, as the paper does.
    stagnation      stop when the residual fell by less than this fraction over `patience`
                    iterations; checked every 100 iterations, never when atol = btol = 0
    track_every     measure the error every so many iterations when the exact solution is known

    With dependent or zero columns it finds the solution of smallest norm.

    >>> import tessella as ts
    >>> ts.LSQR(atol=1e-8)  # as in ts.solve(problem, subdomains=8, features=100, solver=...)
    LSQR(atol=1e-08)
    >>> ts.LSQR(max_iterations=500, atol=0, btol=0).forced
    True
    """

    name: ClassVar[str] = "lsqr"
    _begin = staticmethod(lsqr_begin)
    _step = staticmethod(lsqr_step)

    def init(self, A: BlockMatrix, progress: Progress | None = None) -> BlockMatrix:
        """LSQR reuses nothing between right-hand sides but the matrix itself."""
        return by_rows(spread(checked(A, self.sizes)))


@dataclass(frozen=True, repr=False)
class LSMR(Iterative[BlockMatrix, _Lsmr]):
    """LSMR of Fong and Saunders (2011): |A^T r| falls at every iteration, |r| nearly so.

    Choose it when the run is to be stopped early by atol: LSQR's |A^T r| jumps about, LSMR's does
    not. At equal iterations its residual is slightly above LSQR's. Options as for LSQR.

    >>> import tessella as ts
    >>> ts.LSMR(atol=1e-6, max_iterations=2_000)
    LSMR(max_iterations=2000, atol=1e-06)
    """

    name: ClassVar[str] = "lsmr"
    _begin = staticmethod(_lsmr_begin)
    _step = staticmethod(_lsmr_step)

    def init(self, A: BlockMatrix, progress: Progress | None = None) -> BlockMatrix:
        """LSMR reuses nothing between right-hand sides but the matrix itself."""
        return by_rows(spread(checked(A, self.sizes)))
