"""Elasticity, a system of two unknowns: how far does a loaded beam bend?

Plane stress in a beam of length 4 and height 1, held at its left end and pulled down at its right
one, top and bottom free. By Timoshenko and Goodier the tip moves by -P L^3 / (3 E I) - (4 + 5 nu) P
L / (2 E); the second term is what shear adds.
"""

from pathlib import Path

import tessella as ts

LENGTH, YOUNGS, POISSON, LOAD = 4.0, 1000.0, 0.3, 1.0
u, v = ts.Field("u"), ts.Field("v")  # displacement along and across the beam

stiffness, shear = YOUNGS / (1 - POISSON**2), YOUNGS / (2 * (1 + POISSON))
strain_x, strain_y = ts.D(x=1) @ u, ts.D(y=1) @ v
xx = stiffness * (strain_x + POISSON * strain_y)
yy = stiffness * (POISSON * strain_x + strain_y)
xy = shear * (ts.D(y=1) @ u + ts.D(x=1) @ v)
along = ts.Normal("x") @ xx + ts.Normal("y") @ xy  # traction
across = ts.Normal("x") @ xy + ts.Normal("y") @ yy


def pull(p):  # parabolic, so that it agrees with the free edges; its sum is the load
    return -6 * LOAD * (0.25 - p[:, 1] ** 2)


def held_along(p):  # Timoshenko's way to hold the left end, which has no singular corners
    return 2 * LOAD / YOUNGS * (2 + POISSON) * p[:, 1] * (p[:, 1] ** 2 - 0.25)


def held_across(p):
    return -6 * LOAD / YOUNGS * POISSON * LENGTH * p[:, 1] ** 2


problem = ts.Problem(
    domain=ts.Box(x=(0, LENGTH), y=(-0.5, 0.5)),
    equation=[
        ts.Equation(ts.D(x=1) @ xx + ts.D(y=1) @ xy, name="balance along"),
        ts.Equation(ts.D(x=1) @ xy + ts.D(y=1) @ yy, name="balance across"),
    ],
    conditions=[
        ts.Dirichlet(held_along, on="xmin", of=u),
        ts.Dirichlet(held_across, on="xmin", of=v),
        ts.Condition(along, 0.0, on=("ymin", "ymax", "xmax"), name="free, along"),
        ts.Condition(across, 0.0, on=("ymin", "ymax"), name="free, across"),
        ts.Condition(across, pull, on="xmax", name="load"),
    ],
    name="beam",
)
solution = ts.solve(problem, tol=1e-7)
tip = solution["v"]([(LENGTH, 0.0)])[0]
slender = -LOAD * LENGTH**3 / (3 * YOUNGS / 12)
exactly = slender - (4 + 5 * POISSON) * LOAD * LENGTH / (2 * YOUNGS)
print(f"the tip moves by {tip:.8f}, exactly {exactly:.8f}; a slender beam's by {slender:.8f}")

Path("out").mkdir(exist_ok=True)
solution.plot("out/beam.png")
assert abs(tip / exactly - 1) < 1e-6
