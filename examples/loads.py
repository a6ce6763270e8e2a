"""Factored once, solved for many loads: Green's function is symmetric.

A membrane under a load around one point bends at another as much as it bends at the one under the
same load around the other (Betti and Maxwell). Twenty loads are twenty substitutions.
"""

import numpy as np

import tessella as ts

WIDTH = 0.08

square, hole = ts.Box(x=(0, 1), y=(0, 1)), ts.Ball(x=0.6, y=0.55, radius=0.15)
membrane = ts.Problem(
    domain=square - hole,
    equation=ts.Equation(-ts.Laplacian()),
    conditions=[ts.Dirichlet(0.0)],
    name="loaded membrane",
)
factored = ts.factor(membrane, subdomains=8, features=120, coupling="interfaces")
print(factored)

angle = 2 * np.pi * np.arange(20) / 20
places = np.array([0.6, 0.55]) + 0.27 * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def loads(p):
    """A column for every place."""
    squares = np.sum((p[:, None] - places) ** 2, axis=2)
    return np.exp(-squares / WIDTH**2)


solutions = factored.solve(rhs=loads)
# The mean of one membrane's bending under another one's load, by the midpoints of a fine grid.
ticks = (np.arange(200) + 0.5) / 200
grid = np.stack(np.meshgrid(ticks, ticks), axis=2).reshape(-1, 2)
grid = grid[membrane.domain.contains(grid)]
bent = np.stack([u(grid) for u in solutions[:4]], axis=1)
work = bent.T @ loads(grid)[:, :4] / len(grid)
apart = np.max(np.abs(work - work.T)) / work.max()
print(f"the work of loads on one another is symmetric to {apart:.0e}")

assert len(solutions) == 20
assert apart < 1e-4
