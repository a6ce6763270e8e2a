"""Slopes that are not small: minimal surfaces, the p-Laplacian, a rubber block."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from tessella.gallery.entry import need_positive
from tessella.gallery.single import single
from tessella.geometry.box import Box
from tessella.geometry.functions import Function
from tessella.machine.arrays import Array, namespace
from tessella.problem.conditions import Condition, Dirichlet
from tessella.problem.operator_function import Derivatives
from tessella.problem.problem import Equation, Problem


def minimal_surface(reach: float = 1.2) -> Problem:
    """(1 + u_y^2) u_xx - 2 u_x u_y u_xy + (1 + u_x^2) u_yy = 0 on [-reach, reach]^2: Scherk's
    surface u = log(cos x / cos y), whose slopes grow without bound as `reach` nears pi / 2."""
    if not 0 < reach < np.pi / 2:
        raise ValueError(f"reach must lie between 0 and pi / 2, got {reach!r}")

    def exact(p: Array) -> Array:
        xp = namespace(p)
        return xp.log(xp.cos(p[:, 0]) / xp.cos(p[:, 1]))

    def curvature(d: Derivatives, x: Array) -> Array:
        u_x, u_y = d(x=1), d(y=1)
        bent = (1 + u_y**2) * d(x=2) - 2 * u_x * u_y * d(x=1, y=1)
        return bent + (1 + u_x**2) * d(y=2)

    return Problem(
        domain=Box(x=(-reach, reach), y=(-reach, reach)),
        equation=Equation(curvature),
        conditions=[Dirichlet(exact)],
        exact=exact,
        name="minimal-surface",
        parameters={"reach": reach},
    )


def p_laplace(p: float = 3.0) -> Problem:
    """div(|grad u|^(p - 2) grad u) = 0 on [0.5, 1.5]^2, u = r^((p - 2) / (p - 1)), r from the
    origin, where its slope is singular.

    Stated times |grad u|^(4 - p). Where slopes vanish it is no equation at all, so a start must
    have some: 0 has none.
    """
    if not p > 2:
        raise ValueError(f"p must be larger than 2, got {p!r}")

    def exact(points: Array) -> Array:
        xp = namespace(points)
        return xp.sum(points**2, axis=1) ** ((p - 2) / (2 * p - 2))

    def stretched(d: Derivatives, x: Array) -> Array:
        u_x, u_y, square = d(x=1), d(y=1), d(x=1) ** 2 + d(y=1) ** 2
        along = u_x**2 * d(x=2) + 2 * u_x * u_y * d(x=1, y=1) + u_y**2 * d(y=2)
        return square * (d(x=2) + d(y=2)) + (p - 2) * along

    return Problem(
        domain=Box(x=(0.5, 1.5), y=(0.5, 1.5)),
        equation=Equation(stretched),
        conditions=[Dirichlet(exact)],
        exact=exact,
        name="p-laplace",
        parameters={"p": p},
    )


def slope_start(p: float) -> Function:
    """x + y: a start whose slope vanishes nowhere."""
    return lambda points: points[:, 0] + points[:, 1]


def neo_hookean(stretch: float = 0.2, lame: float = 1.0) -> Problem:
    """A neo-Hookean block [0, 2] x [0, 1] in plane strain, clamped at its left end and loaded:
    div P + b = 0 with P = F^T^-1 (lame log(det F) - 1) + F, F = 1 + grad (u, v), shear modulus 1.

    The displacement u = stretch sin(pi x / 4) cos(y), v = stretch x^2 sin(y + 1) / 4 is made a
    solution by the load b and the tractions P n on the other sides.
    """
    need_positive(lame=lame)

    def displaced(points: Array, name: str, x: int = 0, y: int = 0) -> Array:
        """A derivative of the displacement."""
        xp, a = namespace(points), np.pi / 4
        if name == "u":
            along = a**x * xp.sin(a * points[:, 0] + x * np.pi / 2)
            return stretch * along * xp.cos(points[:, 1] + y * np.pi / 2)
        along = (points[:, 0] ** 2, 2 * points[:, 0], 2.0)[x]
        return stretch / 4 * along * xp.sin(points[:, 1] + 1 + y * np.pi / 2)

    def exact(name: str) -> Function:
        return lambda points: displaced(points, name)

    def traction(i: int, j: int, sign: float) -> Function:
        return lambda points: sign * _stress(_gradient(partial(displaced, points)), lame)[i][j]

    def load(i: int) -> Function:
        return lambda points: -_divergence(partial(displaced, points), lame)[i]

    def balance(i: int) -> Any:
        return lambda d, x: -_divergence(d, lame)[i]

    def pulled(i: int, j: int, sign: float) -> Any:
        return lambda d, x: sign * _stress(_gradient(d), lame)[i][j]

    sides = {"xmax": (0, 1.0), "ymin": (1, -1.0), "ymax": (1, 1.0)}
    conditions: list[Condition] = [
        Condition(lambda d, x, name=name: d(name), exact(name), "xmin", name=f"clamped {name}")
        for name in ("u", "v")
    ]
    conditions += [
        Condition(pulled(i, j, sign), traction(i, j, sign), side, name=f"{side} {'xy'[i]}")
        for (side, (j, sign)), i in product(sides.items(), (0, 1))
    ]
    return Problem(
        domain=Box(x=(0.0, 2.0), y=(0.0, 1.0)),
        equation=[Equation(balance(i), load(i), name=f"balance {'xy'[i]}") for i in (0, 1)],
        conditions=conditions,
        exact={name: exact(name) for name in ("u", "v")},
        fields=("u", "v"),
        name="neo-hookean",
        parameters={"stretch": stretch, "lame": lame},
    )


Matrix = list[list[Any]]
"""Two by two, every entry an array of values at points."""


def _gradient(d: Callable[..., Any]) -> Matrix:
    """F = 1 + grad (u, v)."""
    return [[1 + d("u", x=1), d("u", y=1)], [d("v", x=1), 1 + d("v", y=1)]]


def _inverse(F: Matrix) -> tuple[Matrix, Any]:
    """The inverse of F, and log(det F)."""
    (a, b), (c, e) = F
    J = a * e - b * c
    return [[e / J, -b / J], [-c / J, a / J]], namespace(J).log(J)


def _stress(F: Matrix, lame: float) -> Matrix:
    """P, force per undeformed area (Piola and Kirchhoff's first)."""
    G, log = _inverse(F)
    return [[F[i][j] + (lame * log - 1) * G[j][i] for j in (0, 1)] for i in (0, 1)]


def _divergence(d: Callable[..., Any], lame: float) -> list[Any]:
    """div P by the chain rule: dP_ij/dF_kl times the second derivative jl of the displacement k."""
    G, log = _inverse(_gradient(d))
    orders = (({"x": 2}, {"x": 1, "y": 1}), ({"x": 1, "y": 1}, {"y": 2}))
    total: list[Any] = [0.0, 0.0]
    for i, j, k, m in product((0, 1), repeat=4):
        stiffness = (1 - lame * log) * G[j][k] * G[m][i] + lame * G[j][i] * G[m][k]
        stiffness = stiffness + float(i == k and j == m)
        total[i] = total[i] + stiffness * d("uv"[k], **orders[j][m])
    return total


MINIMAL_SURFACE = single(
    minimal_surface,
    "minimal surface in 2D: Scherk's",
    subdomains=4,
    features=220,
    test_grid=(100, 100),
)
"""Relative L2 error 7e-11."""

P_LAPLACE = single(
    p_laplace,
    "p-Laplace in 2D",
    subdomains=2,
    features=150,
    test_grid=(100, 100),
    start=slope_start,
)
"""Relative L2 error 7e-12."""

NEO_HOOKEAN = single(
    neo_hookean,
    "a block of rubber, stretched far: nonlinear elasticity",
    subdomains=(2, 1),
    features=150,
    test_grid=(100, 50),
)
"""Relative L2 error 3e-9."""
