"""Laplace's equation on domains that are no boxes: a square with four holes, and an L."""

from __future__ import annotations

import dataclasses
import math
from functools import reduce
from operator import sub

import numpy as np

from tessella.features.enrichment import Corner
from tessella.gallery.entry import Entry, Preset, side_by_side
from tessella.gallery.reference.four_holes import CENTRES, RADIUS, table
from tessella.geometry.box import Box
from tessella.geometry.domain import Domain
from tessella.geometry.shapes import Ball
from tessella.machine.arrays import Array
from tessella.problem.conditions import Dirichlet
from tessella.problem.operators import Laplacian
from tessella.problem.problem import Equation, Problem, Reference


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


def _counts(_: tuple[int, ...]) -> tuple[int, ...]:
    return (101, 101)


FOUR_HOLES = Entry(
    "four-holes",
    "Laplace(u) = 0 on a square with four holes",
    {"best": Preset({}, side_by_side(10, 200, 2), four_holes, _counts, "error 2e-10 relative L2")},
)

L_SHAPE = Entry(
    "l-shape",
    "Laplace(u) = 0 on an L, singular at its inner corner",
    {
        "best": Preset(
            {},
            dataclasses.replace(side_by_side(4, 64, 2), enriched=1),
            l_shape,
            _counts,
            "its singular function as enrichment: error 1e-15, without it 5 percent",
            enrichment=lambda: [Corner(1.5 * math.pi)],
        )
    },
)
