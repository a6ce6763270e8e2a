"""Fourth order: the clamped plate."""

from __future__ import annotations

import numpy as np

from tessella.gallery.single import single
from tessella.geometry.box import Box
from tessella.machine.arrays import Array, namespace
from tessella.problem.conditions import Dirichlet, Neumann
from tessella.problem.operators import Laplacian
from tessella.problem.problem import Equation, Problem


def plate(n: float = 2.0) -> Problem:
    """Laplace^2(u) = f on the unit square, u = du/dn = 0 on its boundary (a clamped plate).

    The solution is sin^2(pi x) sin^2(n pi y).
    """
    if n != int(n) or n < 1:
        raise ValueError(f"n must be a whole number >= 1, got {n!r}")
    k, q = 2 * np.pi, 2 * np.pi * n

    def exact(p: Array) -> Array:
        xp = namespace(p)
        return (xp.sin(k * p[:, 0] / 2) * xp.sin(q * p[:, 1] / 2)) ** 2

    def load(p: Array) -> Array:
        xp = namespace(p)
        a, b = xp.cos(k * p[:, 0]), xp.cos(q * p[:, 1])
        return (2 * k**2 * q**2 * a * b - k**4 * a * (1 - b) - q**4 * b * (1 - a)) / 4

    return Problem(
        domain=Box(x=(0.0, 1.0), y=(0.0, 1.0)),
        equation=Equation(Laplacian() @ Laplacian(), load),
        conditions=[Dirichlet(0.0), Neumann(0.0)],
        exact=exact,
        name="plate",
        parameters={"n": n},
    )


PLATE = single(
    plate,
    "clamped plate Laplace^2(u) = f in 2D, fourth order",
    subdomains=2,
    features=220,
    test_grid=(100, 100),
)
"""What a tolerance chose, frozen: relative L2 error 8e-11."""
