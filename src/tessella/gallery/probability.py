"""Densities in time: the Fokker-Planck equation."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessella.gallery.entry import Entry, Preset, fixed, need_positive, side_by_side
from tessella.geometry.box import Box
from tessella.machine.arrays import namespace
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

    def exact(p: Any) -> Any:
        xp = namespace(p)
        x, t = p[:, 0], p[:, 1]
        mean = 1.5 * xp.exp(-t)
        variance = diffusion + (0.3**2 - diffusion) * xp.exp(-2 * t)
        return xp.exp(-((x - mean) ** 2) / (2 * variance)) / xp.sqrt(2 * np.pi * variance)

    def position(p: Any) -> Any:
        return p[:, 0]

    return Problem(
        domain=Box(x=(-4.0, 4.0), t=(0.0, T)),
        equation=Equation(D(t=1) - D(x=1) @ position - diffusion * D(x=2)),
        conditions=[Dirichlet(exact), Initial(exact)],
        exact=exact,
        name="fokker-planck",
        parameters={"diffusion": diffusion, "T": T},
    )


FOKKER_PLANCK = Entry(
    "fokker-planck",
    "density p_t = (x p)_x + diffusion p_xx of a kicked particle in (1+1)D",
    {
        "best": Preset(
            {"diffusion": 0.25, "T": 2.0},
            side_by_side((7, 4), 300, 2, bandwidth=0.7),
            fokker_planck,
            fixed(100, 100),
            "what a tolerance chose, frozen: relative L2 error 1e-8",
        )
    },
)
