"""Waves in space: Helmholtz's equation, and Airy's on a long interval."""

from __future__ import annotations

import numpy as np
import scipy

from tessella.gallery.entry import need_positive
from tessella.gallery.single import single
from tessella.geometry.box import Box
from tessella.machine.arrays import Array, namespace
from tessella.problem.conditions import Dirichlet
from tessella.problem.operators import D, Identity, Laplacian
from tessella.problem.problem import Equation, Problem

DIRECTIONS = (0.3, 1.1, 2.5)
"""Angles of the plane waves that make up the exact solution of Helmholtz's equation."""


def helmholtz(k: float = 20.0) -> Problem:
    """Laplace(u) + k^2 u = 0 on the unit square with the values of three plane waves around it.

    Where k^2 is an eigenvalue pi^2 (m^2 + n^2) the boundary does not determine the solution; such k
    are refused.
    """
    need_positive(k=k)
    m = np.arange(1, int(k / np.pi) + 2)
    nearest = np.min(np.abs(1 - k**2 / (np.pi**2 * np.add.outer(m**2, m**2))))
    if nearest < 1e-3:
        raise ValueError(
            f"k={k:g} is a resonance of the unit square: k^2 is within {nearest:.0e} of an "
            f"eigenvalue pi^2 (m^2 + n^2); move k by a percent"
        )

    def exact(p: Array) -> Array:
        xp = namespace(p)
        x, y = p[:, 0], p[:, 1]
        return sum(xp.sin(k * (np.cos(a) * x + np.sin(a) * y) + a) for a in DIRECTIONS)

    return Problem(
        domain=Box(x=(0.0, 1.0), y=(0.0, 1.0)),
        equation=Equation(Laplacian() + k**2),
        conditions=[Dirichlet(exact)],
        exact=exact,
        name="helmholtz",
        parameters={"k": k},
    )


def airy(L: float = 30.0) -> Problem:
    """u'' = x u on [-L, 5] with the values of Ai at both ends: waves that shorten to the left, and
    decay to the right."""
    need_positive(L=L)
    here, other = scipy.special.airy(-L)[0], scipy.special.airy(-L)[2]
    if abs(here) < 0.05 * np.hypot(here, other):
        raise ValueError(
            f"L={L:g} is near a zero of Ai, where the ends determine the solution badly: move L by "
            f"{0.5 / np.sqrt(L):.1g}"
        )

    def exact(p: Array) -> Array:
        return np.asarray(scipy.special.airy(p[:, 0])[0])

    def position(p: Array) -> Array:
        return p[:, 0]

    return Problem(
        domain=Box(x=(-L, 5.0)),
        equation=Equation(D(x=2) - position * Identity()),
        conditions=[Dirichlet(exact)],
        exact=exact,
        name="airy",
        parameters={"L": L},
    )


HELMHOLTZ = single(
    helmholtz,
    "Laplace(u) + k^2 u = 0 with plane waves around a square, in 2D",
    subdomains=3,
    features=160,
    test_grid=(100, 100),
)
"""What a tolerance chose, frozen: relative L2 error 5e-11."""

AIRY = single(
    airy,
    "Airy's equation u'' = x u on the long interval [-L, 5] in 1D",
    subdomains=13,
    features=16,
    test_grid=(1_000,),
    bandwidth=1.4,
)
"""What a tolerance chose, frozen: relative L2 error 6e-9."""
