"""Thin layers that few points would miss: at the boundary, and inside."""

from __future__ import annotations

import numpy as np

from tessella.gallery.entry import need_positive
from tessella.gallery.single import single
from tessella.geometry.box import Box
from tessella.machine.arrays import Array, namespace
from tessella.problem.conditions import Dirichlet
from tessella.problem.operators import D, Laplacian
from tessella.problem.problem import Equation, Problem


def advection_diffusion(eps: float = 0.01) -> Problem:
    """-eps Laplace(u) + u_x = f on the unit square, u = 0 on its boundary.

    The solution is X(x) sin(pi y) with -eps X'' + X' = 1: nearly x, and a layer of width eps at the
    outflow x = 1.
    """
    need_positive(eps=eps)

    def profile(x: Array) -> Array:
        xp = namespace(x)
        nothing = xp.exp(-1 / eps)
        return x - (xp.exp((x - 1) / eps) - nothing) / (1 - nothing)

    def exact(p: Array) -> Array:
        xp = namespace(p)
        return profile(p[:, 0]) * xp.sin(np.pi * p[:, 1])

    def source(p: Array) -> Array:
        xp = namespace(p)
        x, y = p[:, 0], p[:, 1]
        return (1 + eps * np.pi**2 * profile(x)) * xp.sin(np.pi * y)

    return Problem(
        domain=Box(x=(0.0, 1.0), y=(0.0, 1.0)),
        equation=Equation(D(x=1) - eps * Laplacian(), source),
        conditions=[Dirichlet(0.0)],
        exact=exact,
        name="advection-diffusion",
        parameters={"eps": eps},
    )


def reaction_diffusion(eps: float = 1e-3) -> Problem:
    """-eps^2 u'' + u = 1 on [0, 1], u = 0 at both ends: 1 inside, and a layer of width eps at each
    end."""
    need_positive(eps=eps)

    def exact(p: Array) -> Array:
        xp = namespace(p)
        x = p[:, 0]
        ends = xp.exp(-x / eps) + xp.exp((x - 1) / eps)
        return 1 - ends / (1 + np.exp(-1 / eps))

    return Problem(
        domain=Box(x=(0.0, 1.0)),
        equation=Equation(1.0 - eps**2 * D(x=2), 1.0),
        conditions=[Dirichlet(0.0)],
        exact=exact,
        name="reaction-diffusion",
        parameters={"eps": eps},
    )


def front(steepness: float = 60.0) -> Problem:
    """-Laplace(u) = f on the unit square with u = arctan(steepness (r - 0.7)), where r is the
    distance from (-0.05, -0.05): a circular front of width 1 / steepness, along no axis."""
    need_positive(steepness=steepness)

    def radius(p: Array) -> Array:
        xp = namespace(p)
        return xp.sqrt((p[:, 0] + 0.05) ** 2 + (p[:, 1] + 0.05) ** 2)

    def exact(p: Array) -> Array:
        xp = namespace(p)
        return xp.arctan(steepness * (radius(p) - 0.7))

    def source(p: Array) -> Array:
        r = radius(p)
        s = steepness * (r - 0.7)
        slope = steepness / (1 + s**2)
        return 2 * s * slope**2 - slope / r

    return Problem(
        domain=Box(x=(0.0, 1.0), y=(0.0, 1.0)),
        equation=Equation(-1.0 * Laplacian(), source),
        conditions=[Dirichlet(exact)],
        exact=exact,
        name="front",
        parameters={"steepness": steepness},
    )


ADVECTION_DIFFUSION = single(
    advection_diffusion,
    "-eps Laplace(u) + u_x = f with a boundary layer of width eps in 2D",
    subdomains=(8, 2),
    features=300,
    test_grid=(200, 50),
    bandwidth=0.7,
)
"""What a tolerance chose, frozen: relative L2 error 2e-8."""

REACTION_DIFFUSION = single(
    reaction_diffusion,
    "-eps^2 u'' + u = 1 with layers of width eps at both ends in 1D",
    subdomains=90,
    features=24,
    test_grid=(3_000,),
)
"""What a tolerance chose, frozen: relative L2 error 2e-12."""

FRONT = single(
    front,
    "-Laplace(u) = f with a steep circular front inside; --tol refines along it",
    subdomains=24,
    features=160,
    test_grid=(201, 201),
)
"""Equal subdomains everywhere: relative L2 error 2e-7."""
