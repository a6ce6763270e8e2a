"""Laplace's equation on domains that are no boxes: a square with four holes, and an L."""

from __future__ import annotations

import math
from functools import reduce
from operator import sub

import numpy as np

from tessella.features.enrichment import Corner
from tessella.gallery.reference.four_holes import CENTRES, RADIUS, table
from tessella.gallery.single import single
from tessella.geometry.box import Box
from tessella.geometry.domain import Domain
from tessella.geometry.shapes import Ball
from tessella.machine.arrays import Array
from tessella.problem.conditions import Dirichlet
from tessella.problem.operators import Laplacian
from tessella.problem.problem import Equation, Problem
from tessella.problem.reference import Reference


def four_holes() -> Problem:
    """Laplace(u) = 0 on a unit square without four discs, u = 1 outside and 0 on the discs.

    The solution is known at the points of a table, from finite elements of high order.
    """
    square = Box(x=(-0.5, 0.5), y=(-0.5, 0.5))
    discs: list[Domain] = [Ball(x=x, y=y, radius=RADIUS, name="hole") for x, y in CENTRES]
    return Problem(
        domain=reduce(sub, discs, square),
        equation=Equation(Laplacian()),
        conditions=[Dirichlet(1.0, on=square.walls), Dirichlet(0.0, on="hole")],
        exact=Reference(*table()),
        name="four-holes",
    )


def l_shape() -> Problem:
    """Laplace(u) = 0 on (-1, 1)^2 without its lower right quadrant, u = r^(2/3) sin(2 theta / 3).

    The second derivatives at the inner corner are not square-integrable, so their mean square
    cannot be made small: with smooth features alone the error stays at some percent. The singular
    function is its enrichment.
    """

    def exact(points: Array) -> Array:
        x, y = points[:, 0], points[:, 1]
        theta = np.mod(np.arctan2(y, x), 2 * np.pi)
        return np.asarray((x**2 + y**2) ** (1 / 3) * np.sin(2 * theta / 3))

    square, quadrant = Box(x=(-1.0, 1.0), y=(-1.0, 1.0)), Box(x=(0.0, 1.0), y=(-1.0, 0.0))
    return Problem(
        domain=square - quadrant.named("corner"),
        equation=Equation(Laplacian()),
        conditions=[Dirichlet(exact, on=square.walls), Dirichlet(0.0, on="corner")],
        exact=exact,
        name="l-shape",
    )


FOUR_HOLES = single(
    four_holes,
    "Laplace(u) = 0 on a square with four holes",
    subdomains=10,
    features=200,
    test_grid=(101, 101),
)
"""Relative L2 error 2e-10."""

L_SHAPE = single(
    l_shape,
    "Laplace(u) = 0 on an L, singular at its inner corner",
    subdomains=4,
    features=64,
    test_grid=(101, 101),
    enriched=1,
    enrichment=lambda: [Corner(1.5 * math.pi)],
)
"""Its singular function as enrichment: error 1e-15, without it 5 percent."""
