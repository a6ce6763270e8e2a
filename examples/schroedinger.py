"""Schroedinger's equation: a packet in a harmonic trap swings like a classical ball.

i psi_t = -psi_xx / 2 + x^2 psi / 2, with real and imaginary part as two unknowns. Released at rest
at x = 1.5, the coherent state keeps its shape, and its mean position is 1.5 cos t (Schroedinger
1926).
"""

import numpy as np

import tessella as ts

START, T = 1.5, np.pi / 2
a, b = ts.Field("a"), ts.Field("b")  # psi = a + i b


def packet(p):
    return np.pi**-0.25 * np.exp(-((p[:, 0] - START) ** 2) / 2)


energy = -0.5 * ts.D(x=2) + (lambda p: p[:, 0] ** 2 / 2) * ts.Identity()
problem = ts.Problem(
    domain=ts.Box(x=(-7, 7), t=(0, T)),
    equation=[
        ts.Equation(ts.D(t=1) @ a - energy @ b, name="real part"),
        ts.Equation(ts.D(t=1) @ b + energy @ a, name="imaginary part"),
    ],
    conditions=[
        ts.Dirichlet(0.0, of=a),
        ts.Dirichlet(0.0, of=b),
        ts.Initial(packet, of=a),
        ts.Initial(0.0, of=b),
    ],
    name="trapped packet",
)
solution = ts.solve(problem, tol=1e-4)

x = np.linspace(-7, 7, 281)
for t in (0.0, T / 2, T):
    density = np.sum(solution(np.column_stack([x, np.full(281, t)])) ** 2, axis=1)
    total = np.trapezoid(density, x)
    mean = np.trapezoid(x * density, x)
    print(f"t = {t:.3f}: probability {total:.7f}, mean position {mean:+.6f}")
    assert abs(total - 1) < 1e-4
    assert abs(mean - START * np.cos(t)) < 1e-3
