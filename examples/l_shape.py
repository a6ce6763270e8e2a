"""A reentrant corner: its own functions make up for what smooth features miss.

-Laplace(u) = 1 on an L, (-1, 1)^2 without a quadrant, u = 0 around it. At the inner corner u is
like r^(2/3). Its energy, the integral of u, is known from the literature on adaptive finite
elements: 0.214075802.
"""

import math

import tessella as ts

ENERGY = 0.214075802

square, quadrant = ts.Box(x=(-1, 1), y=(-1, 1)), ts.Box(x=(0, 1), y=(-1, 0))
problem = ts.Problem(
    domain=square - quadrant,
    equation=ts.Equation(-ts.Laplacian(), 1.0),
    conditions=[ts.Dirichlet(0.0)],
    name="L",
)
# Terms r^(2k/3) sin(2k theta / 3) of the corner, for theta from 0 to 3 pi / 2. Those with a whole
# exponent are smooth, and features have them already.
off = {}
for terms in ((), (1, 2), (1, 2, 4)):
    corner = [ts.Corner(1.5 * math.pi, exponent=2 * k / 3) for k in terms]
    solution = ts.solve(
        problem,
        subdomains=6,
        features=125,
        coupling="interfaces",
        enrichment=corner,
        estimate=False,
    )
    energy = solution.integral()
    off[len(terms)] = abs(energy - ENERGY)
    print(f"{len(terms)} terms: energy {energy:.9f}, off by {off[len(terms)]:.0e}")

assert off[3] < 1e-7 and off[3] < 1e-3 * off[0]
