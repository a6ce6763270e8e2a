"""Probability: a particle on a spring, kicked at random, forgets where it started.

p_t = (x p)_x + D p_xx, the Fokker-Planck equation of an Ornstein-Uhlenbeck process. Its mean decays
like exp(-t), and its variance tends to D.
"""

import numpy as np

import tessella as ts

DIFFUSION, START, WIDTH, T = 0.25, 1.5, 0.3, 1.5


def density(p):
    return np.exp(-(((p[:, 0] - START) / WIDTH) ** 2) / 2) / (WIDTH * np.sqrt(2 * np.pi))


def position(p):
    return p[:, 0]


problem = ts.Problem(
    domain=ts.Box(x=(-4, 4), t=(0, T)),
    # D(x=1) @ position differentiates the product x p.
    equation=ts.Equation(ts.D(t=1) - ts.D(x=1) @ position - DIFFUSION * ts.D(x=2)),
    conditions=[ts.Dirichlet(0.0), ts.Initial(density)],
    name="kicked particle",
)
solution = ts.solve(problem, tol=1e-5)

x = np.linspace(-4, 4, 401)
for t in (0.0, 0.5, 1.0, 1.5):
    p = solution(np.column_stack([x, np.full(401, t)]))
    total, mean = np.trapezoid(p, x), np.trapezoid(x * p, x)
    variance = np.trapezoid((x - mean) ** 2 * p, x)
    print(f"t = {t}: probability {total:.7f}, mean {mean:.6f}, variance {variance:.6f}")
    assert abs(total - 1) < 1e-4
    assert abs(mean - START * np.exp(-t)) < 1e-4
    assert abs(variance - DIFFUSION - (WIDTH**2 - DIFFUSION) * np.exp(-2 * t)) < 1e-4
