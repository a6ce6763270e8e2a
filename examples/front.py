"""A steep front: a tolerance cuts the subdomains that the front runs through, and only those.

-Laplace(u) = f on the unit square, where u climbs from -1.5 to 1.5 across a quarter circle within a
width of 1/60. Subdomains small enough for the front everywhere would be wasted on the rest.
"""

from pathlib import Path

import numpy as np

import tessella as ts

CENTRE, RADIUS, STEEPNESS = -0.05, 0.7, 60.0


def front(p):
    return np.arctan(STEEPNESS * (np.hypot(p[:, 0] - CENTRE, p[:, 1] - CENTRE) - RADIUS))


def source(p):
    """-u'' - u' / r, for a function u of the distance r alone."""
    r = np.hypot(p[:, 0] - CENTRE, p[:, 1] - CENTRE)
    s = STEEPNESS * (r - RADIUS)
    slope = STEEPNESS / (1 + s**2)
    return 2 * s * slope**2 - slope / r


problem = ts.Problem(
    domain=ts.Box(x=(0, 1), y=(0, 1)),
    equation=ts.Equation(-ts.Laplacian(), source),
    conditions=[ts.Dirichlet(front)],
    exact=front,
    name="front",
)
solution = ts.solve(problem, tol=1e-5)
print(solution)
subdomains = solution.basis.decomposition
smallest = 2 * subdomains.half_widths[:, 0].min()
even = round(1 / smallest) ** 2
print(f"{subdomains.count} subdomains; as small everywhere they would be {even:,}")

Path("out").mkdir(exist_ok=True)
solution.plot("out/front.png")  # with the subdomains
assert solution.report.error["l1_normalised"] < 3e-5
assert subdomains.count < even / 2
