"""Poisson's equation to a tolerance: how stiff is a square bar against twisting?

Prandtl's stress function solves -Laplace(u) = 2 on the cross-section, u = 0 around it. The bar's
torsion constant is twice its integral; Saint-Venant's series for the unit square gives 0.1405770.
"""

import numpy as np

import tessella as ts

problem = ts.Problem(
    domain=ts.Box(x=(0, 1), y=(0, 1)),
    equation=ts.Equation(-ts.Laplacian(), 2.0),
    conditions=[ts.Dirichlet(0.0)],  # the whole boundary, unless on="xmin" or the like
    name="torsion of a square bar",
)
solution = ts.solve(problem, tol=1e-6)
print(solution)

stiffness = 2 * solution.integral()
odd = np.arange(1, 60, 2)
series = 1 / 3 - 64 / np.pi**5 * np.sum(np.tanh(odd * np.pi / 2) / odd**5)
print(f"torsion constant {stiffness:.8f}, Saint-Venant {series:.8f}")

assert solution.report.stop_reason == "tolerance met"
assert abs(stiffness - series) < 1e-6
