"""Kuramoto and Sivashinsky's equation, and the reaction of Gray and Scott on a square."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import tessella as ts
from benchmarks.pinnacle.case import Case, graded
from benchmarks.pinnacle.tables import table
from tessella.cells.solvers import Exchange
from tessella.gallery.reference.fourier import table as series


def chaos() -> ts.Problem:
    """u_t + 100/16 u u_x + 100/16^2 u_xx + 100/16^4 u_xxxx = 0, periodic."""
    a = 100 / 16

    def equation(d, x):  # type: ignore[no-untyped-def]
        return d(t=1) + a * d() * d(x=1) + a / 16 * d(x=2) + a / 16**3 * d(x=4)

    return ts.Problem(
        ts.Box(x=(0, 2 * np.pi), t=(0, 1)),
        ts.Equation(equation),
        [ts.Periodic("x"), ts.Initial(lambda p: jnp.cos(p[:, 0]) * (1 + jnp.sin(p[:, 0])))],
    )


def spots() -> ts.Problem:
    """u_t = 1e-5 Laplace(u) + 0.04 (1 - u) - u v^2, v_t = 5e-6 Laplace(v) - 0.1 v + u v^2."""
    u, v = ts.Field("u"), ts.Field("v")
    eaten = ts.operator(lambda d, x: d("u") * d("v") ** 2)
    spread = ts.D(x=2) + ts.D(y=2)

    def bump(p, x, y):  # type: ignore[no-untyped-def]
        return jnp.exp(-80 * ((p[:, 0] - x) ** 2 + (p[:, 1] - y) ** 2))

    return ts.Problem(
        ts.Box(x=(-1, 1), y=(-1, 1), t=(0, 200)),
        [
            ts.Equation((ts.D(t=1) - 1e-5 * spread + 0.04) @ u + eaten, 0.04, name="food"),
            ts.Equation((ts.D(t=1) - 5e-6 * spread + 0.1) @ v - eaten, name="eater"),
        ],
        [
            ts.Periodic("x"),
            ts.Periodic("y"),
            ts.Initial(lambda p: 1 - bump(p, -0.05, -0.02), of=u),
            ts.Initial(lambda p: bump(p, 0.05, 0.02), of=v),
        ],
        fields=("u", "v"),
    )


SMALL = 0.028 * np.arange(20)
ALONG_X = [-1.0, -0.5, -0.3, *(SMALL - 0.2).tolist(), 0.45, 1.0]
ALONG_Y = [-1.0, -0.5, -0.34, *(SMALL - 0.25).tolist(), 0.4, 1.0]
"""Edges of subdomains: small ones where the spots stay."""

CASES = [
    Case(
        "GS",
        spots,
        lambda: table("spots"),
        None,
        7.99e-2,
        "Fourier series",
        {
            "slabs": graded((10, 5), (50, 8), (200, 20)),
            "subdomains": (ALONG_X, ALONG_Y, 1),
            "features": 150,
            "solver": Exchange(tolerance=1e-6),
        },
        "with tol=1e-2 and a minute it comes to t = 18",
        patience=1000,
    ),
    Case(
        "KS",
        chaos,
        lambda: series("kuramoto_sivashinsky"),
        None,
        9.57e-1,
        "Fourier series",
        {"slabs": 60, "subdomains": (24, 1), "features": 180},
        "with tol=1e-2 and 45 seconds it comes to t = 0.53",
    ),
]
