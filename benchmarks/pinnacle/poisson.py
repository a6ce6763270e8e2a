"""Poisson's equation around holes, in three dimensions, and of many materials."""

from __future__ import annotations

from functools import reduce
from operator import sub
from pathlib import Path

import numpy as np

import tessella as ts
from benchmarks.pinnacle.case import Case
from benchmarks.pinnacle.tables import table
from tessella.gallery.reference.four_holes import table as four_holes

PI = np.pi


def holes() -> ts.Problem:
    """Laplace(u) = 0 around four discs."""
    square = ts.Box(x=(-0.5, 0.5), y=(-0.5, 0.5))
    discs = [ts.Ball(x=x, y=y, radius=0.1, name="hole") for x in (-0.3, 0.3) for y in (-0.3, 0.3)]
    walls = [ts.Dirichlet(1.0, on=square.walls), ts.Dirichlet(0.0, on="hole")]
    return ts.Problem(reduce(sub, discs, square), ts.Equation(ts.Laplacian()), walls)


DISCS = ((0.5, 0.5, 0.2), (0.4, -0.4, 0.4), (-0.2, -0.7, 0.1), (-0.6, 0.5, 0.3))


def charged() -> ts.Problem:
    """-Laplace(u) + 64 u = f around four discs."""
    square = ts.Box(x=(-1, 1), y=(-1, 1))
    discs = [ts.Ball(x=x, y=y, radius=r, name="hole") for x, y, r in DISCS]

    def f(p: np.ndarray) -> np.ndarray:
        x, y = p.T
        return 10 * (17 + x**2 + y**2) * np.sin(PI * x) * np.sin(4 * PI * y)

    walls = [ts.Dirichlet(0.2, on=square.walls), ts.Dirichlet(1.0, on="hole")]
    return ts.Problem(reduce(sub, discs, square), ts.Equation(-ts.Laplacian() + 64.0, f), walls)


BALLS = ((0.4, 0.3, 0.6, 0.2), (0.6, 0.7, 0.6, 0.2), (0.2, 0.8, 0.7, 0.1), (0.6, 0.2, 0.3, 0.1))


def balls() -> ts.Problem:
    """-Laplace(u) + k^2 u = f around four balls, k = 8 below and 10 above, insulated."""
    holes = [ts.Ball(x=x, y=y, z=z, radius=r) for x, y, z, r in BALLS]
    cube = reduce(sub, holes, ts.Box(x=(0, 1), y=(0, 1), z=(0, 1)))

    def f(p: np.ndarray) -> np.ndarray:
        waves = np.sin(PI * p * [1, 10, 5])
        r2 = np.sum(p**2, axis=1)
        return 20 * np.exp(waves.sum(axis=1)) * (r2 - 1) / (r2 + 1) + 100 * waves.prod(axis=1)

    def k2(p: np.ndarray) -> np.ndarray:
        return np.where(p[:, 2] < 0.5, 64.0, 100.0)

    return ts.Problem(cube, ts.Equation(-ts.Laplacian() + k2 * ts.Identity(), f), [ts.Neumann(0.0)])


AREAS = np.loadtxt(Path(__file__).with_name("many_areas.txt"))


def areas() -> ts.Problem:
    """a Laplace(u) + f = 0 with another a and f in each of 5 x 5 squares, u + du/dn = 0."""
    square = ts.Box(x=(-10, 10), y=(-10, 10))

    def of(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        place = np.clip((p + 10) // 4, 0, 4).astype(int)
        own = AREAS[5 * place[:, 0] + place[:, 1]]
        return own, PI * ((p + 10) / 4 - place)

    def load(p: np.ndarray) -> np.ndarray:
        own, s = of(p)
        return (own[:, 1] + own[:, 2] * np.sin(s).prod(axis=1)) / own[:, 0]

    return ts.Problem(square, ts.Equation(-ts.Laplacian(), load), [ts.Robin(1.0, 1.0, 0.0)])


CASES = [
    Case("Poisson 2d-C", holes, four_holes, 1e-6, 1.23e-2, "NGSolve, order 14"),
    Case("Poisson 2d-CG", charged, lambda: table("charged"), 1e-5, 1.43e-2, "NGSolve, order 10"),
    Case(
        "Poisson 3d-CG",
        balls,
        lambda: table("balls"),
        None,
        1.02e-1,
        "NGSolve, orders 5 and 6 are 3e-4 apart",
        {"subdomains": 6, "features": 300},
        "k jumps on faces of subdomains; with tol=1e-3 the error is 1e-2 after 25 seconds",
    ),
    Case(
        "Poisson 2d-MS",
        areas,
        lambda: table("areas"),
        None,
        5.90e-1,
        "NGSolve, order 12",
        {"subdomains": 10, "features": 120},
        "f jumps on faces of subdomains; with tol=1e-4 the error is 3e-3 after 53 seconds",
    ),
]
