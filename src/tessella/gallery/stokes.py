"""Slow viscous flow: the Stokes equations for a velocity and a pressure."""

from __future__ import annotations

import numpy as np

from tessella.gallery.entry import need_positive
from tessella.gallery.single import single
from tessella.geometry.box import Box
from tessella.geometry.functions import Function
from tessella.machine.arrays import Array, namespace
from tessella.problem.conditions import Condition, Dirichlet, Measured
from tessella.problem.operators import D, Field, Laplacian
from tessella.problem.problem import Equation, Problem


def stokes(distance: float = 0.3) -> Problem:
    """-Laplace(u, v) + grad p = 0, div (u, v) = 0 on the unit square, the velocity given all round.

    The exact flow is that of a point force outside, `distance` below and left of the corner (0, 0):
    the closer it is, the steeper the flow there. The pressure is pinned at one point.
    """
    need_positive(distance=distance)
    force = np.array([1.0, 0.5])

    def exact(component: str) -> Function:
        def value(points: Array) -> Array:
            xp = namespace(points)
            r = points + distance
            r2 = xp.sum(r**2, axis=1)
            along = r @ force
            if component == "p":
                return along / (2 * np.pi * r2)
            i = "uv".index(component)
            return (r[:, i] * along / r2 - 0.5 * force[i] * xp.log(r2)) / (4 * np.pi)

        return value

    u, v, p = Field("u"), Field("v"), Field("p")
    corner = np.array([[1.0, 1.0]])
    conditions: list[Condition] = [Dirichlet(exact(w.name), of=w) for w in (u, v)]
    conditions.append(Measured(corner, np.asarray(exact("p")(corner)), p, name="pinned pressure"))
    return Problem(
        domain=Box(x=(0.0, 1.0), y=(0.0, 1.0)),
        equation=[
            Equation(-Laplacian() @ u + D(x=1) @ p, name="momentum x"),
            Equation(-Laplacian() @ v + D(y=1) @ p, name="momentum y"),
            Equation(D(x=1) @ u + D(y=1) @ v, name="continuity"),
        ],
        conditions=conditions,
        exact={name: exact(name) for name in ("u", "v", "p")},
        fields=("u", "v", "p"),
        name="stokes",
        parameters={"distance": distance},
    )


STOKES = single(
    stokes,
    "Stokes flow of a point force outside: velocity and pressure",
    subdomains=(4, 4),
    features=200,
    test_grid=(80, 80),
    bandwidth=0.7,
)
"""Chosen by hand, after what a tolerance found."""
