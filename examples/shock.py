"""Burgers' equation: a wave steepens, and how steep it gets is known from Cole and Hopf.

u_t + u u_x = nu u_xx on [-1, 1], u = -sin(pi x) at first, u = 0 at both ends. With
u = -2 nu w_x / w it is the heat equation, and u a quotient of integrals.
"""

import numpy as np

import tessella as ts

NU, END = 0.02, 0.5


def slope_in_the_middle(t):
    """u_x at x = 0 by the quotient's derivative; the trapezoidal rule has all digits here."""
    y = np.linspace(-4, 4, 4001)
    exponent = -np.cos(np.pi * y) / (2 * np.pi * NU) - y**2 / (4 * NU * t)
    weight = np.exp(exponent - exponent.max())
    rise = np.sin(np.pi * y) ** 2 / (2 * NU) + np.pi * np.cos(np.pi * y)
    return -np.sum(weight * rise) / np.sum(weight)


problem = ts.Problem(
    domain=ts.Box(x=(-1, 1), t=(0, END)),
    equation=ts.Equation(lambda d, x: d(t=1) + d() * d(x=1) - NU * d(x=2)),
    conditions=[ts.Dirichlet(0.0), ts.Initial(lambda p: -np.sin(np.pi * p[:, 0]))],
    name="Burgers",
)
solution = ts.solve(problem, tol=1e-4)
found, known = solution.apply(ts.D(x=1), [(0.0, END)])[0], slope_in_the_middle(END)
print(f"{solution.report.stop_reason} in {len(solution.slabs)} slabs of time")
print(f"slope in the middle at first {-np.pi:.4f}, in the end {found:.4f}; by formula {known:.4f}")

assert abs(found - known) < 1e-2 * abs(known)
