"""Motz's problem: how singular a solution is where its boundary condition changes.

Laplace(u) = 0 on [-1, 1] x [0, 1], u = 500 at the right end, u = 0 on the left half of the lower
side, du/dn = 0 elsewhere. Where the condition changes u = sum_k c_k r^(k + 1/2) cos((k + 1/2)
theta), and c_0 = 401.162453745 (Lu, Hu and Li 2004).
"""

import math

import numpy as np

import tessella as ts

problem = ts.Problem(
    domain=ts.Box(x=(-1, 1), y=(0, 1)),
    equation=ts.Equation(ts.Laplacian()),
    conditions=[
        ts.Dirichlet(500.0, on="xmax"),
        ts.Dirichlet(0.0, on=lambda p: (p[:, 1] == 0) & (p[:, 0] < 0)),
        ts.Neumann(0.0, on=lambda p: (p[:, 1] == 0) & (p[:, 0] > 0) & (p[:, 0] < 1)),
        ts.Neumann(0.0, on=("xmin", "ymax")),
    ],
    name="motz",
)
# The coefficient is a mean over a half circle, by the orthogonality of the cosines.
theta, weights = np.polynomial.legendre.leggauss(40)
theta, weights, r = np.pi / 2 * (theta + 1), np.pi / 2 * weights, 0.5
circle = r * np.column_stack([np.cos(theta), np.sin(theta)])

for terms in (0, 1, 2, 4):
    singular = [ts.Corner(math.pi, exponent=k + 0.5, wave="cos") for k in range(terms)]
    solution = ts.solve(
        problem,
        subdomains=(4, 2),
        features=120,
        coupling="interfaces",
        enrichment=singular,
        estimate=False,
    )
    intensity = 2 / np.pi / np.sqrt(r) * weights @ (solution(circle) * np.cos(theta / 2))
    print(f"{terms} singular functions: c_0 = {intensity:.9f}")

assert abs(intensity - 401.162453745) < 1e-7
