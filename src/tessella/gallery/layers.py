"""Thin layers that few points would miss: at the boundary, and inside."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessella.gallery.entry import Entry, Preset, fixed, need_positive, side_by_side
from tessella.geometry.box import Box
from tessella.machine.arrays import namespace
from tessella.problem.conditions import Dirichlet
from tessella.problem.operators import D, Laplacian
from tessella.problem.problem import Equation, Problem


def advection_diffusion(eps: float = 0.01) -> Problem:
    """-eps Laplace(u) + u_x = f on the unit square, u = 0 on its boundary.

    The solution is X(x) sin(pi y) with -eps X'' + X' = 1: nearly x, and a layer of width eps at the
    outflow x = 1.
    """
    need_positive(eps=eps)

    def profile(x: Any) -> Any:
        xp = namespace(x)
        nothing = xp.exp(-1 / eps)
        return x - (xp.exp((x - 1) / eps) - nothing) / (1 - nothing)

    def exact(p: Any) -> Any:
        xp = namespace(p)
        return profile(p[:, 0]) * xp.sin(np.pi * p[:, 1])

    def source(p: Any) -> Any:
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

    def exact(p: Any) -> Any:
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

    def radius(p: Any) -> Any:
        xp = namespace(p)
        return xp.sqrt((p[:, 0] + 0.05) ** 2 + (p[:, 1] + 0.05) ** 2)

    def exact(p: Any) -> Any:
        xp = namespace(p)
        return xp.arctan(steepness * (radius(p) - 0.7))

    def source(p: Any) -> Any:
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


ADVECTION_DIFFUSION = Entry(
    "advection-diffusion",
    "-eps Laplace(u) + u_x = f with a boundary layer of width eps in 2D",
    {
        "best": Preset(
            {"eps": 0.01},
            side_by_side((8, 2), 300, 2, bandwidth=0.7),
            advection_diffusion,
            fixed(200, 50),
            "what a tolerance chose, frozen: relative L2 error 2e-8",
        )
    },
)

REACTION_DIFFUSION = Entry(
    "reaction-diffusion",
    "-eps^2 u'' + u = 1 with layers of width eps at both ends in 1D",
    {
        "best": Preset(
            {"eps": 1e-3},
            side_by_side(90, 24, 1),
            reaction_diffusion,
            fixed(3_000),
            "what a tolerance chose, frozen: relative L2 error 2e-12",
        )
    },
)

FRONT = Entry(
    "front",
    "-Laplace(u) = f with a steep circular front inside; --tol refines along it",
    {
        "best": Preset(
            {"steepness": 60.0},
            side_by_side(24, 160, 2),
            front,
            fixed(201, 201),
            "equal subdomains everywhere: relative L2 error 2e-7",
        )
    },
)
