"""Waves that steepen and disperse: solitons, chaos, a breather."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from tessella.gallery.entry import need_positive
from tessella.gallery.reference.fourier import table
from tessella.gallery.single import single
from tessella.geometry.box import Box
from tessella.machine.arrays import Array, namespace
from tessella.problem.conditions import Dirichlet, Initial, InitialVelocity, Periodic
from tessella.problem.problem import Equation, Problem
from tessella.problem.reference import Reference


def korteweg_de_vries() -> Problem:
    """u_t + u u_x + 0.022^2 u_xxx = 0 on [-1, 1] x [0, 1], periodic, u = cos(pi x) at t = 0.

    It steepens and falls apart into eight solitons (Zabusky and Kruskal 1965). Known from Fourier
    series at the points of a table, to 5e-11.
    """

    def initial(p: Array) -> Array:
        return namespace(p).cos(np.pi * p[:, 0])

    return Problem(
        domain=Box(x=(-1.0, 1.0), t=(0.0, 1.0)),
        equation=Equation(lambda d, x: d(t=1) + d() * d(x=1) + 0.022**2 * d(x=3)),
        conditions=[Periodic("x"), Initial(initial)],
        exact=Reference(*table("korteweg_de_vries")),
        name="korteweg-de-vries",
    )


def kuramoto_sivashinsky() -> Problem:
    """u_t + 100/16 u u_x + 100/16^2 u_xx + 100/16^4 u_xxxx = 0 on [0, 2 pi] x [0, 1], periodic,
    u = cos(x) (1 + sin(x)) at t = 0.

    Long waves grow, short ones are damped, and it turns chaotic: errors grow a thousand times. The
    solution is known from Fourier series at the points of a table, to 2e-9.
    """

    def initial(p: Array) -> Array:
        xp, x = namespace(p), p[:, 0]
        return xp.cos(x) * (1 + xp.sin(x))

    return Problem(
        domain=Box(x=(0.0, 2 * np.pi), t=(0.0, 1.0)),
        equation=Equation(
            lambda d, x: (
                d(t=1) + 100 / 16 * d() * d(x=1) + 100 / 16**2 * d(x=2) + 100 / 16**4 * d(x=4)
            )
        ),
        conditions=[Periodic("x"), Initial(initial)],
        exact=Reference(*table("kuramoto_sivashinsky")),
        name="kuramoto-sivashinsky",
    )


def sine_gordon(omega: float = 0.6, T: float = 6.0) -> Problem:
    """u_tt - u_xx + sin(u) = 0 on [-8, 8] x [0, T]: a breather, which swings omega times in 2 pi
    and stays where it is,

        u = 4 arctan(eta sin(omega t) / (omega cosh(eta x))),  eta = sqrt(1 - omega^2).
    """
    need_positive(T=T)
    if not 0 < omega < 1:
        raise ValueError(f"omega must lie between 0 and 1, got {omega!r}")
    eta = np.sqrt(1 - omega**2)

    def exact(p: Array) -> Array:
        xp = namespace(p)
        swing = xp.sin(omega * p[:, 1]) / omega
        return 4 * xp.arctan(eta * swing / xp.cosh(eta * p[:, 0]))

    def velocity(p: Array) -> Array:
        return 4 * eta / namespace(p).cosh(eta * p[:, 0])

    return Problem(
        domain=Box(x=(-8.0, 8.0), t=(0.0, T)),
        equation=Equation(lambda d, x: d(t=2) - d(x=2) + jnp.sin(d())),
        conditions=[Dirichlet(exact), Initial(0.0), InitialVelocity(velocity)],
        exact=exact,
        name="sine-gordon",
        parameters={"omega": omega, "T": T},
    )


KORTEWEG_DE_VRIES = single(
    korteweg_de_vries,
    "Korteweg-de Vries in (1+1)D: a wave falls apart into solitons",
    slabs=80,
    subdomains=(32, 1),
    features=150,
    test_grid=(160, 51),
)
"""Relative L2 error 6e-8."""

KURAMOTO_SIVASHINSKY = single(
    kuramoto_sivashinsky,
    "Kuramoto-Sivashinsky in (1+1)D: chaos",
    slabs=150,
    subdomains=(32, 1),
    features=150,
    test_grid=(160, 51),
)
"""Relative L2 error 1e-5."""

SINE_GORDON = single(
    sine_gordon,
    "sine-Gordon in (1+1)D: a breather",
    subdomains=(8, 4),
    features=200,
    test_grid=(100, 100),
)
"""Relative L2 error 3e-10."""
