"""The flow around a cylinder in a channel: what is known of it, and how it is read off a solution.

Schaefer and Turek's benchmark 2D-1 (1996), with the digits that later computations have added.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tessella.problem.operators import D, Field, Normal, Operator
from tessella.problem.statement import Applied

CHANNEL = 2.2, 0.41
"""Its length and height."""

CENTRE = {"x": 0.2, "y": 0.2}
RADIUS = 0.05
MEAN = 0.2
"""Of the velocity that comes in."""


class Measured(NamedTuple):
    """Coefficients of drag and lift, and how much higher the pressure is in front."""

    drag: float
    lift: float
    pressure: float


KNOWN = Measured(5.57953523384, 0.010618948146, 0.11752016697)
"""At nu = 1e-3."""


def measured(flow: Applied, nu: float = 1e-3, points: int = 400) -> Measured:
    """Forces by the stress on the cylinder, at equal angles."""
    angle = 2 * np.pi * (np.arange(points) + 0.5) / points
    normals = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    middle = np.array([CENTRE["x"], CENTRE["y"]])
    x = middle + RADIUS * normals
    force = [2 * np.pi * np.mean(flow.apply(own, x, normals)) for own in stresses(nu)]
    drag, lift = (own / MEAN**2 for own in force)
    ends = middle + RADIUS * np.array([[-1.0, 0.0], [1.0, 0.0]])
    front, back = flow.apply(Field("p"), ends)
    return Measured(float(drag), float(lift), float(front - back))


def stresses(nu: float) -> tuple[Operator, Operator]:
    """Along x and along y, on what the normals point away from."""
    u, v, p = Field("u"), Field("v"), Field("p")
    shear = nu * (D(y=1) @ u + D(x=1) @ v)
    along_x, along_y = 2 * nu * D(x=1) @ u - p, 2 * nu * D(y=1) @ v - p
    return (
        Normal("x") @ along_x + Normal("y") @ shear,
        Normal("x") @ shear + Normal("y") @ along_y,
    )
