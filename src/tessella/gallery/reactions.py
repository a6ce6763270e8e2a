"""Reactions: sources that are powers of the unknown, steady and in time."""

from __future__ import annotations

import math
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf

from tessella.gallery.entry import need_positive
from tessella.gallery.reference.fourier import table
from tessella.gallery.reference.gray_scott import DIFFUSION, FEED, RATE, REMOVAL, GrayScott, start
from tessella.gallery.single import single
from tessella.geometry.box import Box
from tessella.machine.arrays import Array, namespace
from tessella.problem.conditions import Dirichlet, Initial, Periodic
from tessella.problem.operator_function import operator
from tessella.problem.operators import D, Field, Laplacian
from tessella.problem.problem import Equation, Problem
from tessella.problem.reference import Reference

SQUARE = Box(x=(0.0, 1.0), y=(0.0, 1.0))


def cubic_poisson(n: float = 1.0) -> Problem:
    """-Laplace(u) + u^3 = f on the unit square, u = sin(n pi x) sin(n pi y)."""
    if n != int(n) or n < 1:
        raise ValueError(f"n must be a whole number >= 1, got {n!r}")

    def exact(p: Array) -> Array:
        xp = namespace(p)
        return xp.sin(n * np.pi * p[:, 0]) * xp.sin(n * np.pi * p[:, 1])

    def source(p: Array) -> Array:
        u = exact(p)
        return 2 * (n * np.pi) ** 2 * u + u**3

    return Problem(
        domain=SQUARE,
        equation=Equation(-Laplacian() + operator(lambda d, x: d() ** 3), source),
        conditions=[Dirichlet(0.0)],
        exact=exact,
        name="cubic-poisson",
        parameters={"n": n},
    )


def quadratic_poisson() -> Problem:
    """-Laplace(u) + u^2 = f on the unit square, its boundary values given.

    The solution has four waves along each axis: -(g_1(x) g_1(y) + g_2(x) g_2(y)) / 2 with
    g_m(s) = 1.5 cos(m pi s + 2 pi / 5) + 2 cos(2 m pi s - pi / 5), an example of pyRFM.
    """

    def wave(s: Array, m: int, order: int = 0) -> Array:
        xp, k = namespace(s), m * np.pi
        slow, fast = xp.cos(k * s + 0.4 * np.pi), xp.cos(2 * k * s - 0.2 * np.pi)
        return 1.5 * (-(k**2)) ** order * slow + 2 * (-4 * k**2) ** order * fast

    def exact(p: Array) -> Array:
        x, y = p[:, 0], p[:, 1]
        return -0.5 * (wave(x, 1) * wave(y, 1) + wave(x, 2) * wave(y, 2))

    def source(p: Array) -> Array:
        x, y = p[:, 0], p[:, 1]
        bent = (wave(x, m, 1) * wave(y, m) + wave(x, m) * wave(y, m, 1) for m in (1, 2))
        return 0.5 * sum(bent) + exact(p) ** 2

    return Problem(
        domain=SQUARE,
        equation=Equation(-Laplacian() + operator(lambda d, x: d() ** 2), source),
        conditions=[Dirichlet(exact)],
        exact=exact,
        name="quadratic-poisson",
    )


def nonlinear_helmholtz(k: float = 3.0, strength: float = 0.5) -> Problem:
    """Laplace(u) + k^2 u + strength u^3 = f on the unit square, u = sin(k x) sin(k y): a medium
    whose refraction grows with the field (Kerr)."""
    need_positive(k=k)

    def exact(p: Array) -> Array:
        xp = namespace(p)
        return xp.sin(k * p[:, 0]) * xp.sin(k * p[:, 1])

    def source(p: Array) -> Array:
        u = exact(p)
        return -(k**2) * u + strength * u**3

    return Problem(
        domain=SQUARE,
        equation=Equation(Laplacian() + k**2 + operator(lambda d, x: strength * d() ** 3), source),
        conditions=[Dirichlet(exact)],
        exact=exact,
        name="nonlinear-helmholtz",
        parameters={"k": k, "strength": strength},
    )


def allen_cahn() -> Problem:
    """u_t = 1e-4 u_xx + 5 (u - u^3) on [-1, 1] x [0, 1], periodic, u = x^2 cos(pi x) at t = 0.

    Fronts of width 0.01 form at once and stand. The initial values have a kink where the ends meet,
    which diffusion rounds: there u_xx has no bound as t tends to 0, and `rounded_kink` is what it
    looks like. The solution is known from Fourier series at the points of a table, to 3e-12.
    """

    def initial(p: Array) -> Array:
        xp = namespace(p)
        return p[:, 0] ** 2 * xp.cos(np.pi * p[:, 0])

    return Problem(
        domain=Box(x=(-1.0, 1.0), t=(0.0, 1.0)),
        equation=Equation(lambda d, x: d(t=1) - 1e-4 * d(x=2) - 5 * (d() - d() ** 3)),
        conditions=[Periodic("x"), Initial(initial)],
        exact=Reference(*table("allen_cahn")),
        name="allen-cahn",
    )


def rounded_kink(p: jax.Array) -> jax.Array:
    """What Allen-Cahn's kink becomes, with s the distance from where the ends meet: the heat kernel
    of |s|, fading as the reaction lets it near u = -1. As `enrichment` of the first slab of time it
    takes the error there from 1e-3 to 1e-9; later the solution is smooth without it."""
    s = 1 - jnp.abs(p[:, 0])
    width = jnp.sqrt(4e-4 * (p[:, 1] + 1e-13))
    heat = s * erf(s / width) + width / math.sqrt(math.pi) * jnp.exp(-((s / width) ** 2))
    return jnp.exp(-10 * p[:, 1]) * heat


@lru_cache
def _gray_scott() -> GrayScott:
    return GrayScott()


def gray_scott() -> Problem:
    """u_t = 0.02 u_xx + 4 (1 - u) - 100 u v^2, v_t = 0.01 v_xx - 10 v + 100 u v^2, periodic on
    [-1, 1]: v feeds on u, and a bump of it splits in two. Known from Fourier series, to 1e-12."""
    u, v = Field("u"), Field("v")
    eaten = operator(lambda d, x: RATE * d("u") * d("v") ** 2)
    known = _gray_scott()
    return Problem(
        domain=Box(x=(-1.0, 1.0), t=(0.0, 1.0)),
        equation=[
            Equation((D(t=1) - DIFFUSION[0] * D(x=2) + FEED) @ u + eaten, FEED, name="food"),
            Equation((D(t=1) - DIFFUSION[1] * D(x=2) + REMOVAL) @ v - eaten, name="eater"),
        ],
        conditions=[
            Periodic("x"),
            Initial(lambda p: start(p[:, 0])[0], of=u),
            Initial(lambda p: start(p[:, 0])[1], of=v),
        ],
        exact={"u": known.u, "v": known.v},
        fields=("u", "v"),
        name="gray-scott",
    )


CUBIC_POISSON = single(
    cubic_poisson,
    "-Laplace(u) + u^3 = f in 2D",
    subdomains=2,
    features=150,
    test_grid=(100, 100),
)
"""Relative L2 error 3e-11."""

QUADRATIC_POISSON = single(
    quadratic_poisson,
    "-Laplace(u) + u^2 = f in 2D, four waves",
    subdomains=4,
    features=150,
    test_grid=(100, 100),
)
"""Relative L2 error 4e-11."""

NONLINEAR_HELMHOLTZ = single(
    nonlinear_helmholtz,
    "Helmholtz in a medium whose refraction grows with the field",
    subdomains=2,
    features=150,
    test_grid=(100, 100),
)
"""Relative L2 error 3e-11."""

ALLEN_CAHN = single(
    allen_cahn,
    "Allen-Cahn: fronts of width 0.01 in (1+1)D",
    slabs=20,
    subdomains=(60, 1),
    features=100,
    test_grid=(160, 51),
)
"""Relative L2 error 1e-5, all of it at the kink; with `rounded_kink` 2e-8."""

GRAY_SCOTT = single(
    gray_scott,
    "Gray-Scott reaction in (1+1)D: a bump that splits",
    slabs=20,
    subdomains=(16, 1),
    features=120,
    test_grid=(160, 51),
)
"""Relative L2 error 9e-8."""
