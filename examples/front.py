"""A steep front: how a tolerance refines where the solution is poor, and only there.

-Laplace(u) = f on the unit square, where u climbs from -1.5 to 1.5 across a quarter circle, in a
front of width 1 / steepness. Equal subdomains that are small enough for the front would be wasted
on the rest. The refinement cuts those that the front runs through, and what it has factored of the
others it uses again.
"""

from pathlib import Path

import numpy as np

import tessella as ts

CENTRE, RADIUS = -0.05, 0.7


def front(steepness):
    def distance(p):
        return np.sqrt((p[:, 0] - CENTRE) ** 2 + (p[:, 1] - CENTRE) ** 2)

    def u(p):
        return np.arctan(steepness * (distance(p) - RADIUS))

    def f(p):
        """-u'' - u' / r, for a function u of the distance r alone."""
        r = distance(p)
        s = steepness * (r - RADIUS)
        slope = steepness / (1 + s**2)
        return 2 * s * slope**2 - slope / r

    return ts.Problem(
        domain=ts.Box(x=(0, 1), y=(0, 1)),
        equation=ts.Equation(-ts.Laplacian(), f),
        conditions=[ts.Dirichlet(u)],
        exact=u,
        name=f"front of width {1 / steepness:.2g}",
    )


def main(steepness=60.0, tol=1e-6):
    solution = ts.solve(front(steepness), tol=tol)
    print(solution)
    tiling = solution.basis.decomposition
    widths = 2 * tiling.half_widths[:, 0]
    even = round(1 / widths.min()) ** 2
    print(f"{tiling.count} subdomains; as small everywhere they would be {even:,}")

    out = Path("out")
    out.mkdir(exist_ok=True)
    solution.plot(out / "front.png")
    print(f"picture: {out / 'front.png'}")
    return solution


if __name__ == "__main__":
    main()
