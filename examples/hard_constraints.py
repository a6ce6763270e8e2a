"""An ansatz: initial values that hold exactly, not only nearly.

A damped oscillator u'' + 4 u' + 400 u = 0 with u(0) = 1 and u'(0) = 0. With u = 1 + t^2 v both hold
for every v, so there are no conditions to weigh against the equation (Lagaris 1998).
"""

import jax.numpy as jnp
import numpy as np

import tessella as ts

DAMPING, STIFFNESS = 4.0, 400.0


def oscillation(p):
    delta, omega = DAMPING / 2, np.sqrt(STIFFNESS - DAMPING**2 / 4)
    t = p[:, 0]
    return np.exp(-delta * t) * (np.cos(omega * t) + delta / omega * np.sin(omega * t))


def growing(p):  # written with jax.numpy, because the equation differentiates it
    return jnp.square(p[:, 0])


oscillator = ts.Equation(ts.D(t=2) + DAMPING * ts.D(t=1) + STIFFNESS)
line = ts.Box(t=(0, 1))
hard = ts.Problem(line, oscillator, ansatz=ts.Ansatz(growing, 1.0), exact=oscillation)
soft = ts.Problem(line, oscillator, [ts.Initial(1.0), ts.InitialVelocity(0.0)], exact=oscillation)
for name, problem in (("built in", hard), ("conditions", soft)):
    solution = ts.solve(problem, subdomains=10, features=20)
    start = solution([0.0])[0], solution.apply(ts.D(t=1), [0.0])[0]
    error = solution.report.error["l1_normalised"]
    print(f"{name:<11} u(0) - 1 = {start[0] - 1:+.1e}, u'(0) = {start[1]:+.1e}, error {error:.1e}")
    assert error < 1e-6
    assert problem is soft or start == (1.0, 0.0)
