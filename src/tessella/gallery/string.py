"""Waves in time: a vibrating string."""

from __future__ import annotations

import numpy as np

from tessella.gallery.entry import need_positive
from tessella.gallery.single import single
from tessella.geometry.box import Box
from tessella.machine.arrays import Array, namespace
from tessella.problem.conditions import Dirichlet, Initial, InitialVelocity
from tessella.problem.operators import D
from tessella.problem.problem import Equation, Problem


def wave_1d(c: float = 2.0, T: float = 1.0) -> Problem:
    """u_tt = c^2 u_xx on [0, 1] x [0, T], a string fixed at both ends and released at rest:
    sin(pi x) cos(c pi t) + 0.5 sin(4 pi x) cos(4 c pi t)."""
    need_positive(c=c, T=T)

    def exact(p: Array) -> Array:
        xp = namespace(p)
        x, t = np.pi * p[:, 0], c * np.pi * p[:, 1]
        return xp.sin(x) * xp.cos(t) + 0.5 * xp.sin(4 * x) * xp.cos(4 * t)

    return Problem(
        domain=Box(x=(0.0, 1.0), t=(0.0, T)),
        equation=Equation(D(t=2) - c**2 * D(x=2)),
        conditions=[Dirichlet(0.0), Initial(exact), InitialVelocity(0.0)],
        exact=exact,
        name="wave-1d",
        parameters={"c": c, "T": T},
    )


WAVE_1D = single(
    wave_1d,
    "a vibrating string u_tt = c^2 u_xx in (1+1)D",
    subdomains=2,
    features=300,
    test_grid=(100, 100),
    bandwidth=1.4,
)
"""What a tolerance chose, frozen: relative L2 error 3e-10."""
