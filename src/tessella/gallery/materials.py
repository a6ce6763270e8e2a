"""Coefficients that jump: two materials and what passes between them."""

from __future__ import annotations

from tessella.gallery.entry import need_positive
from tessella.gallery.single import single
from tessella.geometry.box import Box
from tessella.geometry.divided import Divided
from tessella.geometry.shapes import Ball
from tessella.machine.arrays import Array, namespace
from tessella.problem.conditions import Dirichlet
from tessella.problem.operators import Laplacian
from tessella.problem.problem import Equation, Problem
from tessella.problem.transmission import Transmission

RADIUS = 0.5


def inclusion(contrast: float = 10.0) -> Problem:
    """div(k grad u) = 0 on [-1, 1]^2 with k = `contrast` in a disc and 1 around it.

    A uniform field is bent by the disc: u = x - c x / r^2 outside and a multiple of x inside.
    Temperature and heat flux are continuous, the temperature's slope is not.
    """
    need_positive(contrast=contrast)
    bend = (contrast - 1) / (contrast + 1)

    def exact(p: Array) -> Array:
        xp = namespace(p)
        r2 = xp.maximum(p[:, 0] ** 2 + p[:, 1] ** 2, RADIUS**2)
        return p[:, 0] * (1 - bend * RADIUS**2 / r2)

    box = Box(x=(-1.0, 1.0), y=(-1.0, 1.0))
    return Problem(
        domain=Divided(box, core=Ball(x=0.0, y=0.0, radius=RADIUS)),
        equation=[
            Equation(contrast * Laplacian(), name="core", where="core"),
            Equation(Laplacian(), name="rest", where="rest"),
        ],
        conditions=[Dirichlet(exact), *Transmission("core", "rest", flux=(contrast, 1.0))],
        exact=exact,
        name="inclusion",
        parameters={"contrast": contrast},
    )


INCLUSION = single(
    inclusion,
    "a disc of another material in a square: div(k grad u) = 0, k jumps",
    subdomains=8,
    features=180,
    test_grid=(81, 81),
)
"""A field of its own in each material."""
