"""Three dimensions: how hot does a cube get that is heated evenly and cooled on all sides?

-Laplace(u) = 1 in the unit cube, u = 0 on its faces. In the middle the sine series gives 0.0562128.
"""

import numpy as np

import tessella as ts

problem = ts.Problem(
    domain=ts.Box(x=(0, 1), y=(0, 1), z=(0, 1)),
    equation=ts.Equation(-ts.Laplacian(), 1.0),
    conditions=[ts.Dirichlet(0.0)],
    name="heated cube",
)
solution = ts.solve(problem, tol=1e-3)


def series(terms=100):
    """Sines in x and y, of which each is solved along z by 1 - cosh / cosh."""
    odd = 2 * np.arange(terms) + 1
    amplitude = 4 / np.pi * (-1.0) ** np.arange(terms) / odd  # of 1, in the middle
    root = np.pi * np.hypot(odd[:, None], odd)
    return amplitude @ ((1 - 1 / np.cosh(root / 2)) / root**2) @ amplitude


middle, face = solution([(0.5, 0.5, 0.5), (0.5, 0.5, 0.0)])
print(f"in the middle {middle:.7f}, by the series {series():.7f}; on a face {face:+.1e}")
print(f"{solution.report.columns:,} unknowns, estimated error {solution.report.error_estimate:.1e}")

assert abs(middle - series()) < 1e-5
