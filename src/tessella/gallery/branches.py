"""Bratu's problem, -Laplace(u) = lam exp(u): two solutions that meet at a fold."""

from __future__ import annotations

from functools import lru_cache

import jax.numpy as jnp
import numpy as np

from tessella.gallery.reference.bratu import (
    FOLD_LINE,
    FOLD_SQUARE,
    INNER_RADIUS,
    LineBratu,
    SquareBratu,
    disc_bratu,
)
from tessella.gallery.single import single
from tessella.geometry.box import Box
from tessella.geometry.functions import Function
from tessella.machine.arrays import AnyArray, Array, namespace
from tessella.problem.conditions import Dirichlet
from tessella.problem.operator_function import operator
from tessella.problem.operators import D, Laplacian
from tessella.problem.problem import Equation, Problem


def bratu(lam: float = 1.0, branch: float = 1.0) -> Problem:
    """-Laplace(u) = lam exp(u) on the unit square, u = 0 on its boundary, 0 < lam < 6.808.

    `branch` 1 is the small solution, 2 the large one; which is found depends on the start. Known
    from Chebyshev polynomials, to 2e-12 at lam = 1.
    """
    _check(lam, branch, FOLD_SQUARE)
    return Problem(
        domain=Box(x=(0.0, 1.0), y=(0.0, 1.0)),
        equation=Equation(-Laplacian() - operator(lambda d, x: lam * jnp.exp(d()))),
        conditions=[Dirichlet(0.0)],
        exact=_square(lam, branch == 2),
        name="bratu",
        parameters={"lam": lam, "branch": branch},
    )


@lru_cache
def _square(lam: float, upper: bool) -> SquareBratu:
    return SquareBratu(lam, upper)


def bratu_start(lam: float, branch: float) -> Function:
    """The solution of that branch on a disc that is nearly the square."""

    def start(p: Array) -> AnyArray:
        return disc_bratu(lam, branch == 2, INNER_RADIUS, jnp.sum((p - 0.5) ** 2, axis=1))

    return start


def line_start(lam: float, branch: float) -> Function:
    """A parabola of about the height of that branch."""
    height = 0.2 if branch == 1 else 4.0 + np.log(1 / lam)
    return lambda p: 4 * height * p[:, 0] * (1 - p[:, 0])


def bratu_1d(lam: float = 1.0, branch: float = 1.0) -> Problem:
    """-u'' = lam exp(u) on [0, 1], u = 0 at both ends, 0 < lam < 3.514; known exactly."""
    _check(lam, branch, FOLD_LINE)
    return Problem(
        domain=Box(x=(0.0, 1.0)),
        equation=Equation(-D(x=2) - operator(lambda d, x: lam * jnp.exp(d()))),
        conditions=[Dirichlet(0.0)],
        exact=LineBratu(lam, branch == 2),
        name="bratu-1d",
        parameters={"lam": lam, "branch": branch},
    )


def _check(lam: float, branch: float, fold: float) -> None:
    if not 0 < lam < fold:
        raise ValueError(
            f"lam must lie between 0 and {fold:.6g}, got {lam!r}: beyond the fold there is no "
            f"solution"
        )
    if branch not in (1, 2):
        raise ValueError(f"branch must be 1, the small solution, or 2, the large, got {branch!r}")


def forced_bratu(lam: float = 1.0) -> Problem:
    """-Laplace(u) - lam exp(u) = f on the unit square with u = sin(pi x) sin(pi y)."""

    def exact(p: Array) -> Array:
        xp = namespace(p)
        return xp.sin(np.pi * p[:, 0]) * xp.sin(np.pi * p[:, 1])

    def source(p: Array) -> Array:
        u = exact(p)
        return 2 * np.pi**2 * u - lam * namespace(p).exp(u)

    return Problem(
        domain=Box(x=(0.0, 1.0), y=(0.0, 1.0)),
        equation=Equation(-Laplacian() - operator(lambda d, x: lam * jnp.exp(d())), source),
        conditions=[Dirichlet(0.0)],
        exact=exact,
        name="forced-bratu",
        parameters={"lam": lam},
    )


BRATU = single(
    bratu,
    "Bratu's problem -Laplace(u) = lam exp(u) in 2D, two solutions",
    subdomains=4,
    features=150,
    test_grid=(100, 100),
    start=bratu_start,
)
"""Relative L2 error 4e-6, the corners' r^2 log r; 1e-7 on the upper branch."""

BRATU_1D = single(
    bratu_1d,
    "Bratu's problem -u'' = lam exp(u) in 1D, two solutions",
    subdomains=4,
    features=24,
    test_grid=(1_000,),
    start=line_start,
)
"""Relative L2 error 2e-13 on both branches."""

FORCED_BRATU = single(
    forced_bratu,
    "Bratu's equation with a source in 2D",
    subdomains=2,
    features=150,
    test_grid=(100, 100),
)
"""Relative L2 error 3e-11."""
