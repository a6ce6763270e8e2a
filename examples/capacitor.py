"""A disc with a hole: the capacitance of an eccentric cable, from the flux around its core.

Laplace(u) = 0 between a core at u = 1 and a shell at u = 0. By a conformal map the capacitance per
length is 2 pi / arccosh((R^2 + r^2 - d^2) / (2 R r)), for circles whose centres are d apart.
"""

from pathlib import Path

import numpy as np

import tessella as ts

R, r, d = 1.0, 0.3, 0.4
shell = ts.Ball(x=0, y=0, radius=R, name="shell")
core = ts.Ball(x=d, y=0, radius=r, name="core")
problem = ts.Problem(
    domain=shell - core,
    equation=ts.Equation(ts.Laplacian()),
    conditions=[ts.Dirichlet(0.0, on="shell"), ts.Dirichlet(1.0, on="core")],
    name="eccentric cable",
)
solution = ts.solve(problem, tol=1e-7)

angle = 2 * np.pi * np.arange(100) / 100
normal = np.column_stack([np.cos(angle), np.sin(angle)])
around = (d, 0.0) + 0.45 * normal  # any closed curve around the core sees the same charge
flux = -solution.apply(ts.NormalDerivative(), around, normals=normal)
capacitance = 2 * np.pi * 0.45 * flux.mean()
exactly = 2 * np.pi / np.arccosh((R**2 + r**2 - d**2) / (2 * R * r))
print(f"capacitance {capacitance:.9f}, exactly {exactly:.9f}")

Path("out").mkdir(exist_ok=True)
solution.plot("out/capacitor.png")
assert abs(capacitance - exactly) < 1e-5
