"""How far does a loaded beam bend? Plane elasticity: a system of two unknowns.

    python examples/beam.py

A beam of height 1 is held at its left end and pulled down at its right one; top and bottom are
free. Slender-beam theory says P L^3 / (3 E I); the difference is what shear adds. The solver knows
no exact solution: the error it reports is an estimate.
"""

from pathlib import Path

import tessella as ts

LENGTH, YOUNGS, POISSON, LOAD = 4.0, 1000.0, 0.3, 1.0
u, v = ts.Field("u"), ts.Field("v")  # displacement along and across the beam


def beam() -> ts.Problem:
    stiffness, shear = YOUNGS / (1 - POISSON**2), YOUNGS / (2 * (1 + POISSON))
    strain_x, strain_y = ts.D(x=1) @ u, ts.D(y=1) @ v
    xx = stiffness * (strain_x + POISSON * strain_y)
    yy = stiffness * (POISSON * strain_x + strain_y)
    xy = shear * (ts.D(y=1) @ u + ts.D(x=1) @ v)
    along = ts.Normal("x") @ xx + ts.Normal("y") @ xy  # traction
    across = ts.Normal("x") @ xy + ts.Normal("y") @ yy

    def pull(points):  # parabolic, so that it agrees with the free edges; its sum is the load
        return -6 * LOAD * (0.25 - points[:, 1] ** 2)

    # Timoshenko's way to hold the left end, which has no singular corners.
    def held_along(points):
        y = points[:, 1]
        return 2 * LOAD / YOUNGS * (2 + POISSON) * y * (y**2 - 0.25)

    def held_across(points):
        return -6 * LOAD / YOUNGS * POISSON * LENGTH * points[:, 1] ** 2

    return ts.Problem(
        ts.Box(x=(0, LENGTH), y=(-0.5, 0.5)),
        [
            ts.Equation(ts.D(x=1) @ xx + ts.D(y=1) @ xy, name="balance along"),
            ts.Equation(ts.D(x=1) @ xy + ts.D(y=1) @ yy, name="balance across"),
        ],
        [
            ts.Dirichlet(held_along, on="xmin", of=u),
            ts.Dirichlet(held_across, on="xmin", of=v),
            ts.Condition(along, 0.0, on=("ymin", "ymax", "xmax"), name="free, along"),
            ts.Condition(across, 0.0, on=("ymin", "ymax"), name="free, across"),
            ts.Condition(across, pull, on="xmax", name="load"),
        ],
        name="beam",
    )


def main(tol: float = 1e-7) -> float:
    solution = ts.solve(beam(), tol=tol)
    print(solution)
    tip = float(solution["v"]([(LENGTH, 0.0)])[0])
    slender = -LOAD * LENGTH**3 / (3 * YOUNGS / 12)
    print(f"\nthe tip moves by {tip:.7f}; slender-beam theory says {slender:.7f}")
    picture = Path("out", "beam.png")
    picture.parent.mkdir(exist_ok=True)
    solution.plot(picture)
    print(f"picture: {picture}")
    return tip


if __name__ == "__main__":
    main()
