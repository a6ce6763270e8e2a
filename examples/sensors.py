"""Measurements in place of a boundary condition: how hot is a wall that nobody can reach?

Heat flows steadily through a furnace wall, Laplace(u) = 0. Sides and outside are kept at zero; the
inside cannot be reached, but 49 thermometers sit in the wall, at a third of its depth. Going
against the heat magnifies their noise: waves of length 2/3 grow by exp(3 pi 0.3), seventeenfold.
"""

import numpy as np

import tessella as ts


def temperature(p):  # two waves that decay away from the fire at y = 0
    x, depth = np.pi * p[:, 0], np.pi * (1 - p[:, 1])
    slow = np.sin(x) * np.sinh(depth) / np.sinh(np.pi)
    return slow + 0.2 * np.sin(3 * x) * np.sinh(3 * depth) / np.sinh(3 * np.pi)


noise = 1e-4 * np.random.default_rng(0).standard_normal(49)
places = np.column_stack([np.linspace(0.02, 0.98, 49), np.full(49, 0.3)])
problem = ts.Problem(
    domain=ts.Box(x=(0, 1), y=(0, 1)),
    equation=ts.Equation(ts.Laplacian()),
    conditions=[
        ts.Dirichlet(0.0, on=("xmin", "xmax", "ymax")),
        ts.Measured(places, temperature(places) + noise),
    ],
    name="furnace wall",
)
# One least-squares problem of all features: it may have data anywhere, and too many of them.
solution = ts.solve(problem, subdomains=2, features=60)

fire = np.column_stack([np.linspace(0, 1, 101), np.zeros(101)])
error = np.max(np.abs(solution(fire) - temperature(fire)))
misfit = np.std(solution(places) - temperature(places))
print(f"at the thermometers off by {misfit:.1e} (noise 1e-4), at the fire by at most {error:.1e}")

assert misfit < 2e-4 and error < 0.02
