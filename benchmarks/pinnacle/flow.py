"""Navier and Stokes' equations: a cavity, a step, and a channel whose inflow swings."""

from __future__ import annotations

from typing import Any

import numpy as np

import tessella as ts
from benchmarks.pinnacle.case import Case
from benchmarks.pinnacle.tables import table

NU = 0.01
KEPT = 500.0
"""Weight of mass in time: a pressure is the rate of change of all that is lost along the channel,
so that it sees losses a hundred times smaller than a velocity does."""

EDGES = [0.0, 0.178, 0.5, 0.822, 1.0]
"""Of subdomains across the channel, thin ones at its walls."""

u, v, p = ts.Field("u"), ts.Field("v"), ts.Field("p")


def flow(domain: ts.Box, conditions: list[Any], force: Any = 0.0, steady: bool = True) -> Any:
    """u, v and p of a viscous fluid."""

    def momentum(of: str, along: str) -> Any:
        def equation(d: Any, x: Any) -> Any:
            carried = d("u") * d(of, x=1) + d("v") * d(of, y=1) + (0 if steady else d(of, t=1))
            return carried + d("p", **{along: 1}) - NU * (d(of, x=2) + d(of, y=2))

        return equation

    equations = [
        ts.Equation(momentum("u", "x"), name="along x"),
        ts.Equation(momentum("v", "y"), force, name="along y"),
        ts.Equation(ts.D(x=1) @ u + ts.D(y=1) @ v, name="mass", weight=None if steady else KEPT),
    ]
    return ts.Problem(domain, equations, conditions, fields=("u", "v", "p"))


def cavity() -> ts.Problem:
    """A lid moves by 4 x (1 - x); p = 0 in a corner."""
    return flow(
        ts.Box(x=(0, 1), y=(0, 1)),
        [
            ts.Dirichlet(lambda x: 4 * x[:, 0] * (1 - x[:, 0]), on="ymax", of=u),
            ts.Dirichlet(0.0, on=("xmin", "xmax", "ymin"), of=u),
            ts.Dirichlet(0.0, of=v),
            ts.Measured([(0.0, 0.0)], [0.0], p),
        ],
    )


def step() -> ts.Problem:
    """Behind a step; what leaves is free of stress."""
    channel = ts.Box(x=(0, 4), y=(0, 2)) - ts.Box(x=(0, 2), y=(1, 2)).named("step")
    walls = ("ymin", "ymax", "step")
    return flow(
        channel,
        [
            ts.Dirichlet(lambda x: 4 * x[:, 1] * (1 - x[:, 1]), on="xmin", of=u),
            ts.Dirichlet(0.0, on=walls, of=u),
            ts.Dirichlet(0.0, on=("xmin", *walls), of=v),
            ts.Condition(NU * ts.D(x=1) @ u - p, on="xmax"),
            ts.Condition(ts.D(x=1) @ v, on="xmax"),
        ],
    )


def swinging() -> ts.Problem:
    """A channel from rest: its inflow has three frequencies, a force acts across."""

    def inflow(x: np.ndarray) -> np.ndarray:
        return np.sin(np.pi * x[:, 1]) * np.sin(np.pi * np.outer([1, 3, 5], x[:, 2])).sum(axis=0)

    return flow(
        ts.Box(x=(0, 2), y=(0, 1), t=(0, 5)),
        [
            ts.Dirichlet(inflow, on="xmin", of=u),
            ts.Dirichlet(0.0, on=("ymin", "ymax"), of=u),
            ts.Dirichlet(0.0, on=("xmin", "ymin", "ymax"), of=v),
            ts.Condition(NU * ts.D(x=1) @ u - p, on="xmax"),
            ts.Condition(ts.D(x=1) @ v, on="xmax"),
            ts.Initial(0.0, of=u),
            ts.Initial(0.0, of=v),
        ],
        force=lambda x: -np.prod(np.sin(np.pi * x), axis=1),
        steady=False,
    )


OUTLET = "PINNacle asks for p = 0 at the outlet and nothing of u and v: here p = nu u_x and v_x = 0"
CASES = [
    Case("NS 2d-C", cavity, lambda: table("cavity"), 1e-4, 3.60e-2, "NGSolve", uses=(flow,)),
    Case(
        "NS 2d-CG",
        step,
        lambda: table("step"),
        1e-2,
        8.24e-2,
        "NGSolve",
        remark=OUTLET,
        uses=(flow,),
    ),
    Case(
        "NS 2d-LT",
        swinging,
        lambda: table("swinging"),
        None,
        9.70e-1,
        "NGSolve",
        choices={"slabs": 47, "subdomains": (6, EDGES, 1), "features": 300},
        remark=OUTLET,
        uses=(flow,),
        patience=900,
    ),
]
