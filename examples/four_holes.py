"""Laplace's equation on a square with four holes, by a tolerance.

    python examples/four_holes.py

The holes are one part of the boundary, because they share a name. The solution is compared with
high-order finite elements at 600 points.
"""

from pathlib import Path

import tessella as ts
from tessella.gallery.reference.four_holes import table


def four_holes() -> ts.Problem:
    square = ts.Box(x=(-0.5, 0.5), y=(-0.5, 0.5))
    domain = square
    for x in (-0.3, 0.3):
        for y in (-0.3, 0.3):
            domain = domain - ts.Ball(x=x, y=y, radius=0.1, name="hole")
    return ts.Problem(
        domain,
        ts.Equation(ts.Laplacian()),
        [ts.Dirichlet(1.0, on=square.walls), ts.Dirichlet(0.0, on="hole")],
        exact=ts.Reference(*table()),
        name="four holes",
    )


def main(tol: float = 1e-6) -> ts.Solution:
    solution = ts.solve(four_holes(), tol=tol)
    print(solution)

    middle, by_a_hole = solution([(0.0, 0.0), (0.3, 0.15)])
    print(f"\nu = {middle:.7f} in the middle, {by_a_hole:.7f} beside a hole")
    flux = solution.apply(ts.D(x=1), [(0.45, 0.3)])[0]
    print(f"du/dx = {flux:.5f} between a hole and the wall")

    picture = Path("out", "four_holes.png")
    picture.parent.mkdir(exist_ok=True)
    solution.plot(picture)
    print(f"picture: {picture}")
    return solution


if __name__ == "__main__":
    main()
