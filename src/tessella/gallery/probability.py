"""Densities in time: the Fokker-Planck equation."""

from __future__ import annotations

import numpy as np

from tessella.gallery.entry import need_positive
from tessella.gallery.single import single
from tessella.geometry.box import Box
from tessella.machine.arrays import Array, namespace
from tessella.problem.conditions import Dirichlet, Initial
from tessella.problem.operators import D
from tessella.problem.problem import Equation, Problem


def fokker_planck(diffusion: float = 0.25, T: float = 2.0) -> Problem:
    """p_t = (x p)_x + diffusion p_xx on [-4, 4] x [0, T]: a particle on a spring, kicked at random.

    Starts as a Gaussian of width 0.3 around 1.5; it remains one, and its mean and variance tend to
    0 and `diffusion`.
    """
    need_positive(diffusion=diffusion, T=T)
    if diffusion > 0.5:
        raise ValueError(
            f"diffusion must be at most 0.5, got {diffusion!r}: the density would "
            f"reach the ends -4 and 4"
        )

    def exact(p: Array) -> Array:
        xp = namespace(p)
        x, t = p[:, 0], p[:, 1]
        mean = 1.5 * xp.exp(-t)
        variance = diffusion + (0.3**2 - diffusion) * xp.exp(-2 * t)
        return xp.exp(-((x - mean) ** 2) / (2 * variance)) / xp.sqrt(2 * np.pi * variance)

    def position(p: Array) -> Array:
        return p[:, 0]

    return Problem(
        domain=Box(x=(-4.0, 4.0), t=(0.0, T)),
        equation=Equation(D(t=1) - D(x=1) @ position - diffusion * D(x=2)),
        conditions=[Dirichlet(exact), Initial(exact)],
        exact=exact,
        name="fokker-planck",
        parameters={"diffusion": diffusion, "T": T},
    )


FOKKER_PLANCK = single(
    fokker_planck,
    "density p_t = (x p)_x + diffusion p_xx of a kicked particle in (1+1)D",
    subdomains=(7, 4),
    features=300,
    test_grid=(100, 100),
    bandwidth=0.7,
)
"""What a tolerance chose, frozen: relative L2 error 1e-8."""
