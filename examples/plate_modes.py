"""Eigenvalues of fourth order: the tones of a clamped square plate.

Laplace^2 w = lambda w on the unit square, w = dw/dn = 0 around it. The first eigenvalue is
1294.9339796 (Bjorstad and Tjostheim 1999); the next two are equal, for the plate looks the same
when it is turned.
"""

import tessella as ts

FIRST = 1294.933979597
plate = ts.Problem(
    domain=ts.Box(x=(0, 1), y=(0, 1)),
    equation=ts.Equation(ts.Laplacian() @ ts.Laplacian()),
    conditions=[ts.Dirichlet(0.0), ts.Neumann(0.0)],
    name="clamped plate",
)
# The functions ripple ever more finely towards the corners, and so do the subdomains.
edges = [0, 0.03, 0.1, 0.3, 0.7, 0.9, 0.97, 1]
spectrum = ts.eigs(plate, k=4, subdomains=(edges, edges), features=160)
print(spectrum)

off = abs(spectrum.values[0] / FIRST - 1)
print(f"the first is off by {off:.0e}")
assert off < 1e-7
assert abs(spectrum.values[1] / spectrum.values[2] - 1) < 1e-6
