"""Neumann conditions all round a polygon: the missing constant comes from a mean of zero.

-Laplace(u) = f on an insulated triangle with f = 2 pi^2 cos(pi x) cos(pi y), which heats one corner
and cools the other two. The solution is cos(pi x) cos(pi y), up to a constant that the equation
leaves open.
"""

import numpy as np

import tessella as ts


def wave(p):
    return np.cos(np.pi * p[:, 0]) * np.cos(np.pi * p[:, 1])


def insulated(*more):
    return ts.Problem(
        domain=ts.Polygon([(0, 0), (1, 0), (0, 1)]),
        equation=ts.Equation(-ts.Laplacian(), lambda p: 2 * np.pi**2 * wave(p)),
        conditions=[ts.Neumann(0.0), *more],
        name="insulated triangle",
    )


centred = ts.solve(insulated(ts.MeanZero()), tol=1e-7)
filled = ts.solve(insulated(ts.Integral(3.0)), tol=1e-7)  # or any other amount of heat

corners = np.array([(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)])
print(f"at the corners {centred(corners)}, exactly {wave(corners)}")
print(f"integrals {centred.integral():+.1e} and {filled.integral():.9f}")

assert np.allclose(centred(corners), wave(corners), atol=1e-5)
assert np.allclose(filled(corners), wave(corners) + 3 / 0.5, atol=1e-5)  # the area is 1/2
