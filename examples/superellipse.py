"""A domain where a function is negative: a harmonic function on Piet Hein's superellipse.

Laplace(u) = 0 inside x^4 + y^4 = 1 with the values of exp(2 x) cos(2 y) on the rim, which are then
the values everywhere.
"""

from pathlib import Path

import numpy as np

import tessella as ts


def rim(p):  # negative inside; written with jax.numpy if it needs more than + and *
    return p[:, 0] ** 4 + p[:, 1] ** 4 - 1


def harmonic(p):
    return np.exp(2 * p[:, 0]) * np.cos(2 * p[:, 1])


problem = ts.Problem(
    domain=ts.Implicit(rim, bounds={"x": (-1.1, 1.1), "y": (-1.1, 1.1)}),
    equation=ts.Equation(ts.Laplacian()),
    conditions=[ts.Dirichlet(harmonic)],
    exact=harmonic,
    name="superellipse",
)
solution = ts.solve(problem, tol=1e-6)
middle = solution([(0.0, 0.0)])[0]
slope = solution.apply(ts.D(x=1), [(0.0, 0.0)])[0]
print(f"in the middle u = {middle:.8f} and u_x = {slope:.8f}, exactly 1 and 2")

Path("out").mkdir(exist_ok=True)
solution.plot("out/superellipse.png")
assert abs(middle - 1) < 1e-6 and abs(slope - 2) < 1e-5
assert solution.errors()["l1_normalised"] < 3e-6
