"""Eigenvalues of a drum with a hole: zeros of a cross product of Bessel functions.

-Laplace(u) = lambda u between circles of radius 0.4 and 1, u = 0 on both. With lambda = k^2,
J_m(0.4 k) Y_m(k) = J_m(k) Y_m(0.4 k) for m = 0, 1, 2, ..., and all but m = 0 are double.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import jv, yv

import tessella as ts

RADIUS = 0.4


def cross(k, m):
    return jv(m, RADIUS * k) * yv(m, k) - jv(m, k) * yv(m, RADIUS * k)


ring = ts.Ball(x=0, y=0, radius=1) - ts.Ball(x=0, y=0, radius=RADIUS, name="hole")
drum = ts.Problem(
    domain=ring,
    equation=ts.Equation(-ts.Laplacian()),
    conditions=[ts.Dirichlet(0.0)],
    name="drum with a hole",
)
spectrum = ts.eigs(drum, k=7, subdomains=6, features=150)
print(spectrum)

lowest = [brentq(cross, 5.0 + 0.1 * m, 6.5 + 0.3 * m, args=(m,), xtol=1e-15) ** 2 for m in range(4)]
exact = np.array([lowest[0], *np.repeat(lowest[1:], 2)])
off = np.abs(spectrum.values / exact - 1)
print(f"off by at most {off.max():.0e}")
first = spectrum[0].function
circle = 0.7 * np.stack([np.cos([0.1, 1.0, 2.5]), np.sin([0.1, 1.0, 2.5])], axis=1)

assert off.max() < 1e-8
assert np.ptp(first(circle)) < 1e-7  # the lowest tone does not depend on the angle
