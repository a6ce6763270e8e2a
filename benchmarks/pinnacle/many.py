"""Five dimensions, and five of space and one of time."""

from __future__ import annotations

import numpy as np

import tessella as ts
from benchmarks.pinnacle.case import Case, formula

SPACE = "abcde"


def cube() -> ts.Problem:
    """-Laplace(u) = f in five dimensions."""

    def exact(p: np.ndarray) -> np.ndarray:
        return np.sin(np.pi / 2 * p).sum(axis=1)

    return ts.Problem(
        ts.Box(**dict.fromkeys(SPACE, (0, 1))),
        ts.Equation(-ts.Laplacian(), lambda p: np.pi**2 / 4 * exact(p)),
        [ts.Dirichlet(exact)],
    )


def ball() -> ts.Problem:
    """u_t = Laplace(u) / 5 + f in a ball of five dimensions."""

    def exact(p: np.ndarray) -> np.ndarray:
        return np.exp(np.sum(p[:, :5] ** 2, axis=1) / 2 + p[:, 5])

    def f(p: np.ndarray) -> np.ndarray:
        return -np.sum(p[:, :5] ** 2, axis=1) / 5 * exact(p)

    space = ts.Ball(radius=1, **dict.fromkeys(SPACE, 0.0))
    laplacian = sum((ts.D(**{axis: 2}) for axis in SPACE[1:]), ts.D(**{SPACE[0]: 2}))
    return ts.Problem(
        space.over(t=(0, 1)),
        ts.Equation(ts.D(t=1) - laplacian / 5, f),
        [ts.Neumann(exact, on="ball"), ts.Initial(exact)],
    )


CASES = [
    Case(
        "PNd",
        cube,
        lambda: formula(cube().domain, lambda p: np.sin(np.pi / 2 * p).sum(axis=1)),
        1e-8,
        4.58e-4,
        "exact",
    ),
    Case(
        "HNd",
        ball,
        lambda: formula(
            ball().domain, lambda p: np.exp(np.sum(p[:, :5] ** 2, axis=1) / 2 + p[:, 5])
        ),
        1e-6,
        1.19e-4,
        "exact",
    ),
]
