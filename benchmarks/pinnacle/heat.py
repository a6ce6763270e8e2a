"""Heat: in a medium that varies, on two scales, around seventeen holes, for a long time."""

from __future__ import annotations

from functools import reduce
from operator import sub
from typing import Any

import jax.numpy as jnp
import numpy as np

import tessella as ts
from benchmarks.pinnacle.case import Case, formula, graded
from benchmarks.pinnacle.tables import table
from tessella.cells.solvers import Exchange

PI = np.pi

MODES = 4
_DRAWN = np.random.default_rng(0).standard_normal((2, 2 * MODES + 1, 2 * MODES + 1))


def medium(p: Any) -> Any:
    """exp of a random field with Fourier coefficients that fall like k^-2, of mean square 1."""
    k = np.arange(-MODES, MODES + 1)
    fall = 1 / np.maximum(k[:, None] ** 2 + k**2, 1)
    fall[MODES, MODES] = 0
    c = _DRAWN * fall / np.sqrt(2 * np.sum(fall**2))
    angle = 2 * PI * (p[:, 0, None, None] * k[:, None] + p[:, 1, None, None] * k)
    return jnp.exp(2**0.5 * jnp.sum(c[0] * jnp.cos(angle) + c[1] * jnp.sin(angle), axis=(1, 2)))


def varying() -> ts.Problem:
    """u_t = a Laplace(u) + f, a between 0.1 and 10."""

    def f(p: np.ndarray) -> np.ndarray:
        return 200 * np.prod(np.sin(PI * p * [1, 5, 1]), axis=1)

    return ts.Problem(
        ts.Box(x=(0, 1), y=(0, 1), t=(0, 5)),
        ts.Equation(ts.D(t=1) - medium * (ts.D(x=2) + ts.D(y=2)), f),
        [ts.Dirichlet(0.0), ts.Initial(0.0)],
    )


def scales() -> ts.Problem:
    """u_t = u_xx / (500 pi)^2 + u_yy / pi^2, twenty half-waves along x."""
    return ts.Problem(
        ts.Box(x=(0, 1), y=(0, 1), t=(0, 5)),
        ts.Equation(ts.D(t=1) - (500 * PI) ** -2 * ts.D(x=2) - PI**-2 * ts.D(y=2)),
        [
            ts.Dirichlet(0.0),
            ts.Initial(lambda p: np.sin(20 * PI * p[:, 0]) * np.sin(PI * p[:, 1])),
        ],
    )


def _scales(p: np.ndarray) -> np.ndarray:
    x, y, t = p.T
    return np.sin(20 * PI * x) * np.sin(PI * y) * np.exp(-(0.04**2 + 1) * t)


LARGE = [(-4, -3), (4, -3), (-4, 3), (4, 3), (-4, -9), (4, -9), (-4, 9), (4, 9), (0, 0)]
LARGE += [(0, 6), (0, -6)]
SMALL = [(x, y) for x in (-3.2, 3.2) for y in (-6, 0, 6)]


def stove() -> ts.Problem:
    """u_t = Laplace(u) around seventeen pipes of two kinds: u + du/dn = 5, 1 and 0.1 outside."""
    plate = ts.Box(x=(-8, 8), y=(-12, 12))
    pipes = [ts.Ball(x=x, y=y, radius=1, name="large") for x, y in LARGE]
    pipes += [ts.Ball(x=x, y=y, radius=0.4, name="small") for x, y in SMALL]
    return ts.Problem(
        reduce(sub, pipes, plate).over(t=(0, 3)),
        ts.Equation(ts.D(t=1) - ts.D(x=2) - ts.D(y=2)),
        [
            ts.Initial(0.0),
            ts.Robin(1.0, 1.0, 5.0, on="large"),
            ts.Robin(1.0, 1.0, 1.0, on="small"),
            ts.Robin(1.0, 1.0, 0.1, on=plate.walls),
        ],
    )


def long() -> ts.Problem:
    """u_t = 0.001 Laplace(u) + 5 sin(u^2) (1 + 2 sin(pi t / 4)) sin(4 pi x) sin(2 pi y)."""

    def equation(d: Any, p: Any) -> Any:
        x, y, t = PI * p.T
        f = 5 * (1 + 2 * jnp.sin(t / 4)) * jnp.sin(4 * x) * jnp.sin(2 * y)
        return d(t=1) - 0.001 * (d(x=2) + d(y=2)) - f * jnp.sin(d() ** 2)

    return ts.Problem(
        ts.Box(x=(0, 1), y=(0, 1), t=(0, 100)),
        ts.Equation(equation),
        [
            ts.Dirichlet(0.0),
            ts.Initial(lambda p: jnp.sin(4 * PI * p[:, 0]) * jnp.sin(3 * PI * p[:, 1])),
        ],
    )


def _through_periods() -> list[float]:
    """The ends of slabs: short ones where it kindles, where fronts run and where it goes out, in
    every period of 8; in the first one fronts run from the start."""
    parts = [(2.8, 28)]
    for start in range(0, 100, 8):
        if start:
            parts += [(start + 0.8, 1), (start + 1.2, 4), (start + 2.4, 6)]
        parts += [(start + 4.8, 6), (start + 5.6, 4), (start + 6.2, 2), (start + 8.6, 4)]
    return [end for end in graded(*parts) if end < 99.9] + [100.0]


CASES = [
    Case(
        "Heat 2d-VC",
        varying,
        lambda: table("varying"),
        None,
        2.12e-1,
        "Chebyshev, exact in time",
        {"slabs": 20, "subdomains": (5, 6, 1), "features": 250},
        remark="PINNacle's random field is not at hand: another one of the same law, its finest "
        "modes left out; with tol=1e-4 the error is 0.17 after 43 seconds",
        uses=(medium,),
    ),
    Case("Heat 2d-MS", scales, lambda: formula(scales().domain, _scales), 1e-5, 1.73e-2, "exact"),
    Case(
        "Heat 2d-CG",
        stove,
        lambda: table("stove"),
        None,
        2.39e-2,
        "NGSolve, exact in time",
        {"slabs": graded((0.03, 3), (0.3, 9), (3, 18)), "subdomains": (28, 42, 1), "features": 150},
        "with tol=1e-3 the error is 2.5e-2 after 51 seconds",
        patience=600,
    ),
    Case(
        "Heat 2d-LT",
        long,
        lambda: table("long"),
        None,
        9.99e-1,
        "sine series",
        {
            "slabs": _through_periods(),
            "subdomains": (20, 20, 1),
            "features": 100,
            "solver": Exchange(tolerance=1e-4),
        },
        "with tol=1e-2 and a minute it comes to t = 0.4",
        patience=600,
    ),
]
