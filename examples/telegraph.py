"""A system in first-order form: Heaviside's telegraph line without distortion.

V_x + L I_t + R I = 0 and I_x + C V_t + G V = 0. Where R / L = G / C every signal arrives in its own
shape, only weaker: V = f(t - x) exp(-x), with L = C = R = G = 1. The far end is matched, V = I.
"""

import numpy as np

import tessella as ts

voltage, current = ts.Field("V"), ts.Field("I")


def pulse(t):
    return np.exp(-(((t - 0.5) / 0.12) ** 2))


problem = ts.Problem(
    domain=ts.Box(x=(0, 1), t=(0, 2)),
    equation=[
        ts.Equation(ts.D(x=1) @ voltage + (ts.D(t=1) + 1) @ current),
        ts.Equation(ts.D(x=1) @ current + (ts.D(t=1) + 1) @ voltage),
    ],
    conditions=[
        ts.Dirichlet(lambda p: pulse(p[:, 1]), on="xmin", of=voltage),
        ts.Condition(voltage - current, 0.0, on="xmax", name="matched end"),
        ts.Initial(0.0, of=voltage),
        ts.Initial(0.0, of=current),
    ],
    name="telegraph",
)
solution = ts.solve(problem, tol=1e-4)
t = np.linspace(0, 2, 201)
received = solution["V"](np.column_stack([np.ones(201), t]))
error = np.max(np.abs(received - np.exp(-1) * pulse(t - 1)))
print(f"the pulse arrives within {error:.1e} of its shape, {received.max():.4f} of its height")
assert error < 1e-3
