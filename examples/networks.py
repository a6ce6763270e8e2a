"""Networks beside random features: the same problem, points and loss, with all layers trained.

u'' = -4 pi^2 u_0 on [0, 1] with the solution u_0 = sin(2 pi x). An FBPINN has a network in every
subdomain, a PINN one for all; `solve` draws the hidden layers and solves for the last one.
"""

import numpy as np

import tessella as ts


def sine(p):
    return np.sin(2 * np.pi * p[:, 0])


problem = ts.Problem(
    domain=ts.Box(x=(0, 1)),
    equation=ts.Equation(ts.D(x=2), lambda p: -4 * np.pi**2 * sine(p)),
    conditions=[ts.Dirichlet(0.0)],
    exact=sine,
)
drawn = ts.solve(problem, subdomains=4, features=8)
training = ts.Training(steps=1_000, learning_rate=1e-2, track_every=100)
trained = ts.fbpinn(problem, subdomains=4, hidden=8, training=training)  # or ts.pinn(problem, ...)

errors = {}
for name, solution in (("drawn", drawn), ("trained", trained)):
    report = solution.report
    errors[name] = report.error["l1_normalised"]
    print(f"{name:<8} {report.solver:<10} {report.iterations:>5} steps, error {errors[name]:.1e}")
start, end = trained.history.error[0], trained.history.error[-1]
print(f"training took the error from {start:.1e} to {end:.1e}")

assert errors["trained"] < 0.05
assert errors["drawn"] < 1e-6
