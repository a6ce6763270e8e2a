"""Flows: Burgers' equation, and the steady Navier-Stokes equations."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tessella.gallery.entry import need_positive
from tessella.gallery.reference.cavity import LidCavity, lid_corners
from tessella.gallery.reference.cole_hopf import ColeHopf
from tessella.gallery.reference.cylinder import CENTRE, CHANNEL, MEAN, RADIUS
from tessella.gallery.single import single
from tessella.geometry.box import Box
from tessella.geometry.functions import Function
from tessella.geometry.shapes import Ball
from tessella.machine.arrays import Array, namespace
from tessella.problem.conditions import Condition, Dirichlet, Initial, Measured, Neumann
from tessella.problem.operator_function import Derivatives, operator
from tessella.problem.operators import D, Field, Laplacian
from tessella.problem.problem import Equation, Problem


def burgers(nu: float = 0.01 / np.pi) -> Problem:
    """u_t + u u_x = nu u_xx on [-1, 1] x [0, 1], u = -sin(pi x) at t = 0 and 0 at both ends.

    A front of width 4 nu forms at x = 0 by t = 1 / pi. Known exactly by Cole and Hopf's
    transformation.
    """
    need_positive(nu=nu)

    def initial(p: Array) -> Array:
        return -namespace(p).sin(np.pi * p[:, 0])

    return Problem(
        domain=Box(x=(-1.0, 1.0), t=(0.0, 1.0)),
        equation=Equation(lambda d, x: d(t=1) + d() * d(x=1) - nu * d(x=2)),
        conditions=[Dirichlet(0.0), Initial(initial)],
        exact=ColeHopf(nu),
        name="burgers",
        parameters={"nu": nu},
    )


def steady_burgers(nu: float = 0.1) -> Problem:
    """u u' - nu u'' = f on [0, 1], u = sin(2 pi x)."""
    need_positive(nu=nu)

    def exact(p: Array) -> Array:
        return namespace(p).sin(2 * np.pi * p[:, 0])

    def force(p: Array) -> Array:
        xp, k = namespace(p), 2 * np.pi
        return exact(p) * (k * xp.cos(k * p[:, 0]) + nu * k**2)

    return Problem(
        domain=Box(x=(0.0, 1.0)),
        equation=Equation(lambda d, x: d() * d(x=1) - nu * d(x=2), force),
        conditions=[Dirichlet(0.0)],
        exact=exact,
        name="steady-burgers",
        parameters={"nu": nu},
    )


def navier_stokes(nu: float) -> list[Equation]:
    """The steady equations of a velocity u, v and a pressure p."""
    u, v, p = Field("u"), Field("v"), Field("p")
    carried_u = operator(lambda d, x: d("u") * d("u", x=1) + d("v") * d("u", y=1))
    carried_v = operator(lambda d, x: d("u") * d("v", x=1) + d("v") * d("v", y=1))
    viscous = -nu * Laplacian()
    return [
        Equation(carried_u + D(x=1) @ p + viscous @ u, name="momentum x"),
        Equation(carried_v + D(y=1) @ p + viscous @ v, name="momentum y"),
        Equation(D(x=1) @ u + D(y=1) @ v, name="continuity"),
    ]


def kovasznay(Re: float = 40.0) -> Problem:
    """Steady Navier-Stokes behind a grid (Kovasznay 1948), on [-0.5, 1] x [-0.5, 1.5]:

        u = 1 - exp(q x) cos(2 pi y),  v = q exp(q x) sin(2 pi y) / (2 pi),  p = -exp(2 q x) / 2,

    q = Re / 2 - sqrt(Re^2 / 4 + 4 pi^2). The velocity is given all round, the pressure at a point.
    """
    need_positive(Re=Re)
    q = Re / 2 - np.sqrt(Re**2 / 4 + 4 * np.pi**2)

    def exact(component: str) -> Function:
        def value(points: Array) -> Array:
            xp, k = namespace(points), 2 * np.pi
            grown, y = xp.exp(q * points[:, 0]), points[:, 1]
            if component == "p":
                return -(grown**2) / 2
            return 1 - grown * xp.cos(k * y) if component == "u" else q / k * grown * xp.sin(k * y)

        return value

    u, v, p = Field("u"), Field("v"), Field("p")
    corner = np.array([[1.0, 1.5]])
    conditions: list[Condition] = [Dirichlet(exact(w.name), of=w) for w in (u, v)]
    conditions.append(Measured(corner, np.asarray(exact("p")(corner)), p, name="pinned pressure"))
    return Problem(
        domain=Box(x=(-0.5, 1.0), y=(-0.5, 1.5)),
        equation=navier_stokes(1 / Re),
        conditions=conditions,
        exact={name: exact(name) for name in ("u", "v", "p")},
        fields=("u", "v", "p"),
        name="kovasznay",
        parameters={"Re": Re},
    )


def cylinder(nu: float = 1e-3) -> Problem:
    """Steady Navier-Stokes around a cylinder in a channel (Schaefer and Turek 1996, their 2D-1).

    A parabola of mean 0.2 comes in, walls and cylinder are at rest, and at the outlet the stress
    nu du/dx - p vanishes: Re = 20 with nu = 1e-3. The cylinder is not quite in the middle. Drag,
    lift and the pressure difference across it are known: `reference.cylinder`.
    """
    need_positive(nu=nu)
    (length, height), disc = CHANNEL, Ball(**CENTRE, radius=RADIUS, name="cylinder")

    def inflow(points: Array) -> Array:
        y = points[:, 1]
        return 6 * MEAN * y * (height - y) / height**2

    u, v, p = Field("u"), Field("v"), Field("p")
    still = ("ymin", "ymax", "cylinder")
    return Problem(
        domain=Box(x=(0.0, length), y=(0.0, height)) - disc,
        equation=navier_stokes(nu),
        conditions=[
            Dirichlet(inflow, on="xmin", of=u),
            Dirichlet(0.0, on=still, of=u),
            Dirichlet(0.0, on=("xmin", *still), of=v),
            Condition(nu * D(x=1) @ u - p, on="xmax", name="outlet along x"),
            Condition(D(x=1) @ v, on="xmax", name="outlet along y"),
        ],
        fields=("u", "v", "p"),
        name="cylinder",
        parameters={"nu": nu},
    )


@lru_cache
def lid_cavity(Re: float) -> LidCavity:
    """The reference of a Reynolds number, computed once."""
    return LidCavity(Re)


def cavity(Re: float = 100.0) -> Problem:
    """Flow in a square cavity whose lid y = 1 moves to the right, by its stream function.

    The velocity jumps where the lid meets a wall. Stokes flow between the two is known and taken
    out at both corners: the unknown w is what is left, psi = w + S with S from
    `reference.cavity.lid_corners`, and u = psi_y, v = -psi_x. Its fourth derivatives grow like
    1 / r^2 towards both corners, so the equation is stated times their squared distances r^2. Known
    from Chebyshev polynomials; `reference.cavity.EXTREMA` has the velocities on the centre lines.
    """
    need_positive(Re=Re)

    def momentum(d: Derivatives, x: Array) -> Array:
        S = lid_corners(x[:, 0], x[:, 1])
        a, b = x[:, 0], 1 - x[:, 1]
        near = (a**2 + b**2) * ((1 - a) ** 2 + b**2)
        psi_x, psi_y = d(x=1) + S.x, d(y=1) + S.y
        vorticity_x = d(x=3) + d(x=1, y=2) + S.vorticity_x
        vorticity_y = d(x=2, y=1) + d(y=3) + S.vorticity_y
        viscous = d(x=4) + 2 * d(x=2, y=2) + d(y=4)
        return near * (viscous - Re * (psi_y * vorticity_x - psi_x * vorticity_y))

    def wall(slope: str, sign: float, lid: float = 0.0) -> Function:
        """The outward slope of w: S takes its part of it."""
        return lambda p: lid - sign * getattr(lid_corners(*p.T), slope)

    return Problem(
        domain=Box(x=(0.0, 1.0), y=(0.0, 1.0)),
        equation=Equation(momentum),
        conditions=[
            Dirichlet(lambda p: -lid_corners(*p.T).psi),
            Neumann(wall("x", -1.0), on="xmin", name="left wall"),
            Neumann(wall("x", 1.0), on="xmax", name="right wall"),
            Neumann(wall("y", -1.0), on="ymin", name="bottom"),
            Neumann(wall("y", 1.0, lid=1.0), on="ymax", name="lid"),
        ],
        exact=lid_cavity(Re).without_corners,
        name="cavity",
        parameters={"Re": Re},
    )


BURGERS = single(
    burgers,
    "Burgers' equation in (1+1)D: a front forms",
    slabs=40,
    subdomains=(64, 1),
    features=120,
    test_grid=(256, 101),
)
"""Relative L2 error 4e-6 with equal cells; a tolerance makes them small at the front."""

STEADY_BURGERS = single(
    steady_burgers,
    "steady Burgers' equation in 1D",
    subdomains=4,
    features=24,
    test_grid=(1_000,),
)
"""Relative L2 error 6e-12."""

KOVASZNAY = single(
    kovasznay,
    "steady Navier-Stokes: flow behind a grid",
    subdomains=2,
    features=170,
    test_grid=(80, 80),
)
"""Relative L2 error 4e-11."""

CAVITY = single(
    cavity,
    "steady Navier-Stokes: a cavity under a moving lid, by its stream function",
    subdomains=8,
    features=200,
    test_grid=(101, 101),
)
"""Relative L2 error 1e-5 at Re = 100; 16 cells a side have 4e-5 at Re = 1,000."""

CYLINDER = single(
    cylinder,
    "steady Navier-Stokes: a cylinder in a channel",
    subdomains=(
        (0.0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.55, 0.75, 1.0, 1.4, 1.8, 2.2),
        (0.0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.41),
    ),
    features=200,
    test_grid=(111, 42),
)
"""Drag, lift and pressure difference to 2e-7, 7e-6 and 3e-6 of themselves."""
