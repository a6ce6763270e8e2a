"""Diffusion: a variable coefficient, three dimensions, heat, and heat at two scales."""

from __future__ import annotations

import numpy as np

from tessella.gallery.entry import need_positive
from tessella.gallery.single import single
from tessella.geometry.box import Box
from tessella.machine.arrays import Array, namespace
from tessella.problem.conditions import Dirichlet, Initial, Neumann
from tessella.problem.operators import D, Laplacian
from tessella.problem.problem import Equation, Problem


def variable_poisson(contrast: float = 0.8) -> Problem:
    """-div(a grad u) = f on the unit square with a = 1 + contrast sin(2 pi x) sin(pi y).

    The solution is u = exp(x) sin(2 pi x) cos(3 y); its values are given on the boundary.
    """
    if not abs(contrast) < 1:
        raise ValueError(
            f"contrast must lie between -1 and 1, got {contrast!r}: beyond, the coefficient "
            f"vanishes somewhere and the problem is no longer elliptic"
        )

    def a(p: Array) -> Array:
        xp = namespace(p)
        return 1 + contrast * xp.sin(2 * np.pi * p[:, 0]) * xp.sin(np.pi * p[:, 1])

    def exact(p: Array) -> Array:
        xp = namespace(p)
        x, y = p[:, 0], p[:, 1]
        return xp.exp(x) * xp.sin(2 * np.pi * x) * xp.cos(3 * y)

    def source(p: Array) -> Array:
        x, y = p[:, 0], p[:, 1]
        k = 2 * np.pi
        e, s, c = np.exp(x), np.sin(k * x), np.cos(k * x)
        u_x, u_y = e * (s + k * c) * np.cos(3 * y), -3 * e * s * np.sin(3 * y)
        laplacian = e * ((1 - k**2 - 9) * s + 2 * k * c) * np.cos(3 * y)
        a_x = contrast * k * c * np.sin(np.pi * y)
        a_y = contrast * np.pi * s * np.cos(np.pi * y)
        value = 1 + contrast * s * np.sin(np.pi * y)
        return -(value * laplacian + a_x * u_x + a_y * u_y)

    divergence = D(x=1) @ (a * D(x=1)) + D(y=1) @ (a * D(y=1))
    return Problem(
        domain=Box(x=(0.0, 1.0), y=(0.0, 1.0)),
        equation=Equation(-divergence, source),
        conditions=[Dirichlet(exact)],
        exact=exact,
        name="variable-poisson",
        parameters={"contrast": contrast},
    )


def poisson_3d(n: float = 2.0) -> Problem:
    """-Laplace(u) = f on the unit cube, u = 0 on its boundary: sin(n pi x) sin(n pi y) sin(n pi z),
    plus sin(pi x) sin(pi y) sin(pi z)."""
    if n != int(n) or n < 1:
        raise ValueError(f"n must be a whole number >= 1, got {n!r}")

    def waves(p: Array, k: float) -> Array:
        xp = namespace(p)
        return xp.prod(xp.sin(k * np.pi * p), axis=1)

    def exact(p: Array) -> Array:
        return waves(p, 1) + waves(p, n)

    def source(p: Array) -> Array:
        return 3 * np.pi**2 * (waves(p, 1) + n**2 * waves(p, n))

    return Problem(
        domain=Box(x=(0.0, 1.0), y=(0.0, 1.0), z=(0.0, 1.0)),
        equation=Equation(-Laplacian(), source),
        conditions=[Dirichlet(0.0)],
        exact=exact,
        name="poisson-3d",
        parameters={"n": n},
    )


def heat(alpha: float = 0.1, T: float = 1.0) -> Problem:
    """u_t = alpha u_xx on [0, 1] x [0, T] with insulated ends: three decaying cosines."""
    need_positive(alpha=alpha, T=T)
    modes = ((0, 0.5), (1, 0.5), (4, 0.25))

    def exact(p: Array) -> Array:
        xp = namespace(p)
        x, t = p[:, 0], p[:, 1]
        k = np.pi
        return sum(a * xp.cos(m * k * x) * xp.exp(-alpha * (m * k) ** 2 * t) for m, a in modes)

    return Problem(
        domain=Box(x=(0.0, 1.0), t=(0.0, T)),
        equation=Equation(D(t=1) - alpha * D(x=2)),
        conditions=[Neumann(0.0), Initial(exact)],
        exact=exact,
        name="heat",
        parameters={"alpha": alpha, "T": T},
    )


def anisotropic_heat(T: float = 5.0) -> Problem:
    """u_t = u_xx / (500 pi)^2 + u_yy / pi^2 on [0, 1]^2 x [0, T], u = 0 on the walls.

    Starts as sin(20 pi x) sin(pi y) and decays like exp(-(400 / 500^2 + 1) t): twenty times as
    many waves along x as along y, and diffusion that is 250,000 times slower.
    """
    need_positive(T=T)
    slow, fast = 1 / (500 * np.pi) ** 2, 1 / np.pi**2
    rate = (20 * np.pi) ** 2 * slow + np.pi**2 * fast

    def exact(p: Array) -> Array:
        xp = namespace(p)
        x, y, t = p[:, 0], p[:, 1], p[:, 2]
        return xp.sin(20 * np.pi * x) * xp.sin(np.pi * y) * xp.exp(-rate * t)

    return Problem(
        domain=Box(x=(0.0, 1.0), y=(0.0, 1.0), t=(0.0, T)),
        equation=Equation(D(t=1) - slow * D(x=2) - fast * D(y=2)),
        conditions=[Dirichlet(0.0), Initial(exact)],
        exact=exact,
        name="anisotropic-heat",
        parameters={"T": T},
    )


VARIABLE_POISSON = single(
    variable_poisson,
    "-div(a grad u) = f with a smooth coefficient a in 2D",
    subdomains=2,
    features=125,
    test_grid=(100, 100),
    bandwidth=0.7,
)
"""What a tolerance chose, frozen: relative L2 error 3e-11."""

POISSON_3D = single(
    poisson_3d,
    "-Laplace(u) = f on a cube, n half-waves per axis, in 3D",
    subdomains=2,
    features=600,
    test_grid=(23, 23, 23),
)
"""What a tolerance chose, frozen: relative L2 error 6e-6."""

HEAT = single(
    heat,
    "heat equation u_t = alpha u_xx between insulated ends, in (1+1)D",
    subdomains=2,
    features=200,
    test_grid=(100, 100),
)
"""What a tolerance chose, frozen: relative L2 error 2e-9."""

ANISOTROPIC_HEAT = single(
    anisotropic_heat,
    "heat equation with 20 half-waves along x and one along y, in (2+1)D",
    subdomains=(16, 1, 2),
    features=520,
    test_grid=(127, 23, 11),
)
"""What a tolerance chose, frozen: relative L2 error 2e-6."""
