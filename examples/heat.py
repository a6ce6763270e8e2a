"""The heat equation in a rod: what is lost inside is what leaves through the end.

A rod of length 1 is insulated at its left end, held at zero at its right end, and starts at cos(pi
x / 2), so that its temperature is cos(pi x / 2) exp(-alpha pi^2 t / 4).
"""

from pathlib import Path

import numpy as np
from numpy.polynomial import legendre

import tessella as ts

ALPHA = 0.5


def temperature(p):
    x, t = p[:, 0], p[:, 1]
    return np.cos(np.pi * x / 2) * np.exp(-ALPHA * np.pi**2 / 4 * t)


problem = ts.Problem(
    domain=ts.Box(x=(0, 1), t=(0, 1)),  # t is time
    equation=ts.Equation(ts.D(t=1) - ALPHA * ts.D(x=2)),
    conditions=[
        ts.Neumann(0.0, on="xmin"),
        ts.Dirichlet(0.0, on="xmax"),
        ts.Initial(temperature),
    ],
    exact=temperature,
    name="heat in a rod",
)
solution = ts.solve(problem, tol=1e-8)

nodes, weights = legendre.leggauss(20)
nodes, weights = (nodes + 1) / 2, weights / 2
inside = [weights @ solution(np.column_stack([nodes, np.full(20, t)])) for t in (0.0, 1.0)]
end = np.column_stack([np.ones(20), nodes])
left = -ALPHA * weights @ solution.apply(ts.D(x=1), end)
exactly = 2 / np.pi * (1 - np.exp(-ALPHA * np.pi**2 / 4))
print(f"heat lost inside {inside[0] - inside[1]:.10f}, through the end {left:.10f}")
print(f"exactly          {exactly:.10f}")

Path("out").mkdir(exist_ok=True)
solution.plot("out/heat.png")
assert abs(inside[0] - inside[1] - exactly) < 1e-8
assert abs(left - exactly) < 1e-7
