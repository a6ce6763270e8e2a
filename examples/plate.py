"""A clamped square plate under uniform load: a fourth-order equation without an exact solution.

Laplace^2 w = 1 on the unit square, w = dw/dn = 0 on its boundary. Handbooks give the deflection in
the middle, 0.001265319087, and the bending moment in the middle of an edge, 0.0513338 (both for
unit load, side and stiffness; Taylor and Govindjee 2004, Timoshenko and Woinowsky-Krieger 1959).
"""

from pathlib import Path

import numpy as np

import tessella as ts

DEFLECTION, MOMENT, POISSON_RATIO = 0.001265319087, 0.0513338, 0.3

problem = ts.Problem(
    domain=ts.Box(x=(0, 1), y=(0, 1)),
    equation=ts.Equation(ts.Laplacian() @ ts.Laplacian(), 1.0),
    conditions=[ts.Dirichlet(0.0), ts.Neumann(0.0)],
    name="clamped plate",
)


def main(tol=1e-5):
    solution = ts.solve(problem, tol=tol)
    print(solution)

    middle, edge = np.array([[0.5, 0.5]]), np.array([[0.0, 0.5]])
    deflection = float(solution(middle)[0])
    moment = float(solution.apply(ts.D(x=2) + POISSON_RATIO * ts.D(y=2), edge)[0])
    for name, value, handbook in (
        ("deflection in the middle", deflection, DEFLECTION),
        ("moment at an edge", moment, MOMENT),
    ):
        off = abs(value / handbook - 1)
        print(f"  {name}: {value:.10f}, handbook {handbook:.10f}, relative difference {off:.1e}")

    out = Path("out")
    out.mkdir(exist_ok=True)
    solution.plot(out / "plate.png")
    print(f"  picture: {out / 'plate.png'}")
    return deflection, moment


if __name__ == "__main__":
    main()
