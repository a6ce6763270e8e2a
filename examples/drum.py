"""Helmholtz's equation on a disc: the standing wave around a shaken rim is a Bessel function.

Laplace(u) + k^2 u = 0 on the unit disc, u = 1 on its rim: u = J_0(k r) / J_0(k).
"""

import numpy as np
from scipy.special import j0, jn_zeros

import tessella as ts

K = 20.0


def bessel(p):
    return j0(K * np.hypot(p[:, 0], p[:, 1])) / j0(K)


problem = ts.Problem(
    domain=ts.Ball(x=0, y=0, radius=1),
    equation=ts.Equation(ts.Laplacian() + K**2),
    conditions=[ts.Dirichlet(1.0)],
    exact=bessel,  # only for the report; the solver never looks at it
    name="shaken drum",
)
solution = ts.solve(problem, tol=1e-6)
nodes = jn_zeros(0, 6) / K  # circles where a drum of this pitch is at rest
angle = 0.7
still = solution(np.outer(nodes, [np.cos(angle), np.sin(angle)]))
centre = solution([(0.0, 0.0)])[0]
print(f"error {solution.report.error['l1_normalised']:.1e}, in the middle {centre:.7f}")
print(f"on the nodal circles at most {np.max(np.abs(still)):.1e}")

assert abs(centre - 1 / j0(K)) < 1e-4
assert np.max(np.abs(still)) < 1e-4
