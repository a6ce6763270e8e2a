"""Robin conditions: a fin that loses heat to the air, and the root of an equation behind it.

Laplace(u) = 0 in a fin of length 2 and height 1, insulated at its tip; above and below it is
cooled, du/dn + Bi u = 0. Its slowest mode is cos(m y) cosh(m (2 - x)) with m tan(m / 2) = Bi; given
at the base, it fills the fin, and all heat that enters there leaves through the sides.
"""

import numpy as np
from scipy.optimize import brentq

import tessella as ts

BIOT, LENGTH = 0.8, 2.0
m = brentq(lambda m: m * np.tan(m / 2) - BIOT, 1e-6, np.pi - 1e-6)


def base(p):
    return np.cos(m * p[:, 1])


problem = ts.Problem(
    domain=ts.Box(x=(0, LENGTH), y=(-0.5, 0.5)),
    equation=ts.Equation(ts.Laplacian()),
    conditions=[
        ts.Dirichlet(base, on="xmin"),
        ts.Neumann(0.0, on="xmax"),
        ts.Robin(BIOT, 1.0, 0.0, on=("ymin", "ymax")),
    ],
    name="fin",
)
solution = ts.solve(problem, tol=1e-8)

tip = solution([(LENGTH, 0.0)])[0]
s, weights = np.polynomial.legendre.leggauss(30)
entering = weights @ -solution.apply(ts.D(x=1), np.column_stack([0 * s, s / 2])) / 2
sides = [weights @ solution(np.column_stack([1 + s, np.full(30, y)])) for y in (-0.5, 0.5)]
print(f"m = {m:.8f}: the tip has {tip:.8f}, exactly {1 / np.cosh(m * LENGTH):.8f}")
print(f"heat in {entering:.8f}, heat out {BIOT * sum(sides):.8f}")

assert abs(tip - 1 / np.cosh(m * LENGTH)) < 1e-7
assert abs(entering - 2 * np.sin(m / 2) * np.tanh(m * LENGTH)) < 1e-6
assert abs(entering - BIOT * sum(sides)) < 1e-6
