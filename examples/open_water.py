"""Walls that let waves out: a stone falls into open water, and a square is all that is computed.

u_tt = Laplace u in the whole plane, from a Gaussian at rest; its solution is an integral over
Bessel functions. On [-1, 1]^2 `Absorbing` walls reflect waves that meet them at an angle; layers
behind the walls, in which waves die away, do not. A layer is as wide as a cell.
"""

import numpy as np
from scipy.special import j0

import tessella as ts

WIDTH, CELL, END = 0.2, 0.4, 2.0


def stone(p):
    return np.exp(-(p[:, 0] ** 2 + p[:, 1] ** 2) / (2 * WIDTH**2))


def whole_plane(p):
    nodes, weights = np.polynomial.legendre.leggauss(200)
    k = (nodes + 1) * 4 / WIDTH
    amplitude = weights * 4 / WIDTH * k * WIDTH**2 * np.exp(-((k * WIDTH) ** 2) / 2)
    r = np.hypot(p[:, 0], p[:, 1])
    return (j0(np.outer(r, k)) * np.cos(np.outer(p[:, 2], k))) @ amplitude


problem = ts.Problem(
    domain=ts.Box(x=(-1, 1), y=(-1, 1), t=(0, END)),
    equation=ts.Equation(ts.D(t=2) - ts.Laplacian()),
    conditions=[ts.Absorbing(), ts.Initial(stone), ts.InitialVelocity(0.0)],
    name="open water",
)
points = np.random.default_rng(0).uniform((-1, -1, 0), (1, 1, END), (2_000, 3))
right = whole_plane(points)


def marched(problem, cells, features):
    return ts.march(
        problem,
        5,
        subdomains=(cells, cells, 1),
        features=features,
        coupling="interfaces",
        estimate=False,
    )


def error(solution):
    return np.max(np.abs(solution["u"](points) - right))


layers = error(marched(ts.with_layers(problem, width=CELL), 7, 400))
solution = marched(problem, 5, 150)
alone = error(solution)
print(f"largest error: absorbing walls alone {alone:.1e}, with layers behind them {layers:.1e}")

assert alone > 1e-2 and layers < 2e-4
