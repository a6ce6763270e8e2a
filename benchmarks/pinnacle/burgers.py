"""Burgers' equation along a line."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import tessella as ts
from benchmarks.pinnacle.case import Case, formula
from tessella.gallery.reference.cole_hopf import ColeHopf

NU = 0.01 / np.pi


def front() -> ts.Problem:
    """u_t + u u_x = 0.01 / pi u_xx: a front of width 0.01 forms."""
    return ts.Problem(
        ts.Box(x=(-1, 1), t=(0, 1)),
        ts.Equation(lambda d, x: d(t=1) + d() * d(x=1) - NU * d(x=2)),
        [ts.Dirichlet(0.0), ts.Initial(lambda p: -jnp.sin(np.pi * p[:, 0]))],
    )


CASES = [
    Case(
        "Burgers 1d-C",
        front,
        lambda: formula(front().domain, ColeHopf(NU)),
        1e-5,
        1.33e-2,
        "exact (Cole and Hopf)",
    ),
]
