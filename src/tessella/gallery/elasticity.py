"""Plane linear elasticity: the displacement of a loaded beam."""

from __future__ import annotations

from tessella.gallery.entry import need_positive
from tessella.gallery.single import single
from tessella.geometry.box import Box
from tessella.machine.arrays import Array
from tessella.problem.conditions import Condition, Dirichlet
from tessella.problem.operators import D, Field, Normal, Operator
from tessella.problem.problem import Equation, Problem


def plane_stress(youngs: float, poisson: float, u: Field, v: Field) -> dict[str, Operator]:
    """The stresses xx, yy and xy as operators of the displacement (u, v)."""
    stiffness = youngs / (1 - poisson**2)
    shear = youngs / (2 * (1 + poisson))
    strain_x, strain_y = D(x=1) @ u, D(y=1) @ v
    return {
        "xx": stiffness * (strain_x + poisson * strain_y),
        "yy": stiffness * (poisson * strain_x + strain_y),
        "xy": shear * (D(y=1) @ u + D(x=1) @ v),
    }


def beam(length: float = 4.0, poisson: float = 0.3, load: float = 1.0) -> Problem:
    """A beam of height 1 and Young's modulus 1000, loaded at its free end (Timoshenko).

    The clamped end has the displacement of the exact solution, top and bottom are free, and the
    other end carries the parabolic shear traction whose sum is `load`.
    """
    need_positive(length=length)
    if not 0 <= poisson < 0.5:
        raise ValueError(f"poisson must be at least 0 and below 0.5, got {poisson!r}")
    youngs, height = 1000.0, 1.0
    inertia = height**3 / 12
    factor = load / (6 * youngs * inertia)

    def exact_u(points: Array) -> Array:
        x, y = points[:, 0], points[:, 1]
        return -factor * y * ((6 * length - 3 * x) * x + (2 + poisson) * (y**2 - height**2 / 4))

    def exact_v(points: Array) -> Array:
        x, y = points[:, 0], points[:, 1]
        bending = 3 * poisson * y**2 * (length - x) + (3 * length - x) * x**2
        return factor * (bending + (4 + 5 * poisson) * height**2 * x / 4)

    def shear_load(points: Array) -> Array:
        return load / (2 * inertia) * (height**2 / 4 - points[:, 1] ** 2)

    u, v = Field("u"), Field("v")
    stress = plane_stress(youngs, poisson, u, v)
    traction_x = Normal("x") @ stress["xx"] + Normal("y") @ stress["xy"]
    traction_y = Normal("x") @ stress["xy"] + Normal("y") @ stress["yy"]
    free = ("ymin", "ymax")
    conditions: list[Condition] = [
        Dirichlet(exact_u, "xmin", of=u),
        Dirichlet(exact_v, "xmin", of=v),
        Condition(traction_x, 0.0, free, name="free side, along"),
        Condition(traction_y, 0.0, free, name="free side, across"),
        Condition(traction_x, 0.0, "xmax", name="loaded end, along"),
        Condition(traction_y, shear_load, "xmax", name="loaded end, across"),
    ]
    return Problem(
        domain=Box(x=(0.0, length), y=(-height / 2, height / 2)),
        equation=[
            Equation(D(x=1) @ stress["xx"] + D(y=1) @ stress["xy"], name="balance x"),
            Equation(D(x=1) @ stress["xy"] + D(y=1) @ stress["yy"], name="balance y"),
        ],
        conditions=conditions,
        exact={"u": exact_u, "v": exact_v},
        fields=("u", "v"),
        name="beam",
        parameters={"length": length, "poisson": poisson, "load": load},
    )


BEAM = single(
    beam,
    "plane elasticity: a cantilever loaded at its end",
    subdomains=(4, 1),
    features=160,
    test_grid=(160, 40),
    bandwidth=0.7,
)
"""Chosen by hand, after what a tolerance found."""
